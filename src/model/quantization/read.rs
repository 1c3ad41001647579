//! From `quantization_config` to rules: which weights are stored in which scheme.

use super::names::Names;
use super::{Quantization, Scheme, Where};
use crate::model::config::{Result, Section};
use crate::model::json::{Node, Value};

/// Entries by which files leave modules out.
const SKIP: &str =
    "modules_to_not_convert|llm_int8_skip_modules|skip_modules|linear_weights_not_to_quantize|exclude_modules|ignored_layers";

/// The quantisation that a file names; none when it names none.
pub fn read(root: Section<'_>) -> Result<Option<Quantization>> {
    let c = match root.section("quantization_config|compression_config") {
        own if !own.is_empty() => own,
        _ => root.section(crate::model::architectures::vlm::TEXT).section("quantization_config"),
    };
    let c = if c.is_empty() { root.section("quantization") } else { c };
    if c.is_empty() {
        return Ok(None);
    }
    let method = method(c);
    let mut skip: Vec<&str> = c.strings(SKIP);
    skip.extend(c.strings("ignore"));
    let bits = |default: u64| c.int("bits|w_bit|nbits", default);
    // -1 stands for one group a row.
    let group = |default: u64| c.int("group_size|q_group_size", default).unwrap_or(0);
    let mut exact = true;
    let (rules, summary) = match method.as_str() {
        "gptq" | "auto-round" | "autoround" | "intel/auto-round" | "marlin" | "gptq_marlin" | "gptqmodel" => {
            let (bits, group) = (bits(4)?, group(128));
            let plain = if c.str("packing_format|backend").is_some_and(|name| name.contains("awq")) {
                Scheme::Awq { bits, group }
            } else {
                Scheme::Gptq { bits, group }
            };
            let mut rules = modules_of_their_own(c, plain)?;
            if c.bool("lm_head", false).unwrap_or(false) {
                rules.push((Where::Named(Names::new(["lm_head"])), plain));
            }
            rules.push((Where::TextLayers, plain));
            skip.extend(left_out(c));
            (rules, summary_of(bits, group))
        }
        "mlx" => {
            exact = root.section("vision_config|audio_config").is_empty();
            mlx(c)?
        }
        "awq" | "awq_marlin" => {
            let (bits, group) = (bits(4)?, group(128));
            (vec![(Where::Layers, Scheme::Awq { bits, group })], summary_of(bits, group))
        }
        "bitsandbytes" | "bnb" => bitsandbytes(c)?,
        "fp8" => fp8(root, c)?,
        "fbgemm_fp8" => (vec![(Where::Layers, Scheme::Fbgemm)], "8-bit floats, a scale a row".to_owned()),
        "mxfp4" => (vec![(Where::Experts, Scheme::Mxfp4)], "experts in 4 bits, a scale for 32 weights".to_owned()),
        "quark" => {
            skip.extend(c.strings("exclude"));
            quark(c)?
        }
        "compressed-tensors" | "modelopt" | "modelopt_fp4" | "modelopt_mixed" => {
            let rules = config_groups(c, &method)?;
            let summary = format!("{} group(s) of linear layers", rules.len());
            (rules, summary)
        }
        "hqq" => {
            exact = false;
            let nested = c.section("quant_config").section("weight_quant_params");
            let (bits, group) = (nested.int("nbits", bits(4)?)?, nested.int("group_size", group(64))?);
            (vec![(Where::Layers, Scheme::ScaleAndZero { bits, group })], summary_of(bits, group))
        }
        "quanto" => {
            exact = false;
            let scheme = match c.str("weights").unwrap_or("int8") {
                "int4" => Scheme::ScaleAndZero { bits: 4, group: 128 },
                "int2" => Scheme::ScaleAndZero { bits: 2, group: 128 },
                _ => Scheme::Channel8,
            };
            (vec![(Where::Layers, scheme)], c.str("weights").unwrap_or("int8").to_owned())
        }
        "torchao" => {
            exact = false;
            torchao(c)?
        }
        "eetq" => (vec![(Where::Layers, Scheme::Channel8)], "8-bit integers, a scale a row".to_owned()),
        "aqlm" => {
            let scheme = Scheme::Aqlm {
                books: c.int("num_codebooks", 1)?.min(64),
                bits: c.int("nbits_per_codebook", 16)?.min(32),
                inputs: c.divisor("in_group_size", 8)?,
                outputs: c.divisor("out_group_size", 1)?,
            };
            (vec![(Where::Layers, scheme)], "additive codes".to_owned())
        }
        // An online model stores plain weights and quantises them as it runs.
        "bitnet" if c.str("quantization_mode") == Some("online") => return Ok(None),
        "bitnet" => (vec![(Where::Layers, Scheme::Bitnet)], "2 bits, one scale a matrix".to_owned()),
        _ => return Ok(Some(unknown(method))),
    };
    // GPTQModel leaves modules out by expressions behind a minus.
    let dynamic = c.section("dynamic");
    let minus = |name: &str| name.strip_prefix("-:").map(|pattern| format!("re:{pattern}"));
    let more: Vec<String> = dynamic.members().filter_map(|(name, _)| minus(name)).collect();
    let skip = Names::new(skip.into_iter().chain(more.iter().map(String::as_str)));
    Ok(Some(Quantization { method, summary, exact, rules, skip }))
}

/// The method, from its name or from keys that only one method has.
fn method(c: Section<'_>) -> String {
    if let Some(named) = c.str("quant_method|quantization_method|quant_type") {
        return named.to_ascii_lowercase();
    }
    let by_keys = [
        ("quant_algo", "modelopt"),
        ("config_groups", "compressed-tensors"),
        ("load_in_4bit", "bitsandbytes"),
        ("load_in_8bit", "bitsandbytes"),
        ("w_bit", "awq"),
        ("desc_act", "gptq"),
        ("group_size", "mlx"),
    ];
    by_keys.iter().find(|(key, _)| c.has(key)).map_or("unnamed", |(_, method)| *method).to_owned()
}

/// MLX: all matrices, embedding and head too; entries by the names of modules have their own bits.
fn mlx(c: Section<'_>) -> Result<(Vec<(Where, Scheme)>, String)> {
    let scheme = |c: Section<'_>, bits: u64, group: u64| -> Result<Scheme> {
        let (bits, group) = (c.int("bits", bits)?, c.divisor("group_size", group)?);
        Ok(match c.str("mode").unwrap_or("affine") {
            "mxfp4" => Scheme::Mxfp4,
            "nvfp4" => Scheme::Nvfp4,
            _ => Scheme::Mlx { bits, group },
        })
    };
    let (bits, group) = (c.int("bits", 4)?, c.int("group_size", 64)?);
    let mut rules = Vec::new();
    for (name, node) in c.members() {
        if matches!(node.value, Value::Object(_)) {
            rules.push((Where::NamedMatrices(Names::new([name])), scheme(Section::new(node), bits, group)?));
        }
    }
    rules.push((Where::Matrices, scheme(c, 4, 64)?));
    Ok((rules, summary_of(bits, group)))
}

/// Modules that GPTQModel's `dynamic` or AutoRound's `extra_config` give bits of their own.
fn modules_of_their_own(c: Section<'_>, plain: Scheme) -> Result<Vec<(Where, Scheme)>> {
    let (Scheme::Gptq { bits, group } | Scheme::Awq { bits, group }) = plain else {
        return Ok(Vec::new());
    };
    let mut rules = Vec::new();
    for (key, expression) in [("dynamic", true), ("extra_config", false)] {
        for (name, node) in c.section(key).members() {
            let own = Section::new(node);
            // A minus leaves modules out, and so do 16 bits.
            if name.starts_with("-:") || own.int("bits", bits)? >= 16 {
                continue;
            }
            let (bits, group) = (own.int("bits", bits)?, own.int("group_size", group).unwrap_or(0));
            let scheme = if matches!(plain, Scheme::Awq { .. }) { Scheme::Awq { bits, group } } else { Scheme::Gptq { bits, group } };
            let pattern = name.strip_prefix("+:").unwrap_or(name);
            let pattern = if expression { format!("re:{pattern}") } else { pattern.to_owned() };
            rules.push((Where::Named(Names::new([pattern.as_str()])), scheme));
        }
    }
    Ok(rules)
}

/// Modules that AutoRound's list leaves in 16 bits.
fn left_out<'a>(c: Section<'a>) -> Vec<&'a str> {
    let wide = |node: &Node| matches!(Section::new(node).int("bits", 0), Ok(bits) if bits >= 16);
    c.section("extra_config").members().filter(|(_, node)| wide(node)).map(|(name, _)| name).collect()
}

/// A method whose format is not known: its bytes cannot be told.
fn unknown(method: String) -> Quantization {
    let summary = "this method is not known, so stored bytes cannot be told".to_owned();
    Quantization { method, summary, exact: false, rules: Vec::new(), skip: Names::default() }
}

fn summary_of(bits: u64, group: u64) -> String {
    if group == 0 { format!("{bits} bits, a scale a row") } else { format!("{bits} bits, groups of {group}") }
}

fn bitsandbytes(c: Section<'_>) -> Result<(Vec<(Where, Scheme)>, String)> {
    if c.bool("load_in_8bit|_load_in_8bit", false)? && !c.bool("load_in_4bit|_load_in_4bit", false)? {
        return Ok((vec![(Where::Layers, Scheme::Bnb8)], "8-bit integers, a scale a row".to_owned()));
    }
    let double = c.bool("bnb_4bit_use_double_quant", false)?;
    let kind = c.str("bnb_4bit_quant_type").unwrap_or("fp4");
    let more = if double { ", scales quantised too" } else { "" };
    Ok((vec![(Where::Layers, Scheme::Bnb4 { double })], format!("{kind}, blocks of 64{more}")))
}

fn fp8(root: Section<'_>, c: Section<'_>) -> Result<(Vec<(Where, Scheme)>, String)> {
    let mut rules = Vec::new();
    if root.str("expert_dtype").or_else(|| c.str("expert_dtype")) == Some("fp4") {
        rules.push((Where::Experts, Scheme::Mxfp4));
    }
    let summary = match c.ints("weight_block_size")?.as_deref() {
        Some([rows, columns]) if *rows > 0 && *columns > 0 => {
            rules.push((Where::Layers, Scheme::Fp8Block { rows: *rows, columns: *columns }));
            format!("8-bit floats, blocks of {rows} x {columns}")
        }
        _ => {
            let activations = c.str("activation_scheme") == Some("static");
            rules.push((Where::Layers, Scheme::Fp8Tensor { activations }));
            "8-bit floats, a scale a matrix".to_owned()
        }
    };
    Ok((rules, summary))
}

/// The groups of compressed-tensors and ModelOpt.
fn config_groups(c: Section<'_>, method: &str) -> Result<Vec<(Where, Scheme)>> {
    let modelopt = method.starts_with("modelopt");
    let mut rules = Vec::new();
    for (_, node) in c.section("config_groups").members() {
        let group = Section::new(node);
        let weights = group.section("weights");
        if weights.is_empty() {
            continue;
        }
        let format = group.str("format").or_else(|| c.str("format")).unwrap_or("");
        let scheme = scheme(weights, !group.section("input_activations").is_empty(), modelopt, format)?;
        let targets = group.strings("targets");
        let all = targets.is_empty() || targets.contains(&"Linear");
        rules.push((if all { Where::Linear } else { Where::Named(Names::new(targets.iter().copied().flat_map(class_free))) }, scheme));
    }
    if rules.is_empty() {
        // Older ModelOpt files name one algorithm for all linear layers.
        let nested = c.section("quantization");
        let scheme = match c.str("quant_algo").or_else(|| nested.str("quant_algo")).unwrap_or("") {
            "NVFP4" | "NVFP4_AWQ" | "W4A16_NVFP4" => Scheme::Nvfp4,
            "FP8" => Scheme::Fp8Tensor { activations: true },
            "FP8_PB_WO" | "FP8_BLOCK" => Scheme::Fp8Block { rows: 128, columns: 128 },
            "MXFP4" | "W4A8_MXFP4_FP8" => Scheme::Mxfp4,
            "W4A16_AWQ" | "INT4_AWQ" => Scheme::Awq { bits: 4, group: 128 },
            _ => return Ok(rules),
        };
        rules.push((Where::Layers, scheme));
    }
    Ok(rules)
}

/// Targets that are no names of classes.
fn class_free(target: &str) -> Option<&str> {
    let class = target.chars().next().is_some_and(char::is_uppercase);
    (!class).then_some(target)
}

/// The scheme of one group.
fn scheme(weights: Section<'_>, activations: bool, modelopt: bool, format: &str) -> Result<Scheme> {
    let bits = weights.int("num_bits", 8)?;
    let float = weights.str("type").unwrap_or("int") == "float";
    let strategy = weights.str("strategy").unwrap_or(if modelopt { "tensor" } else { "channel" });
    let group = weights.int("group_size", 0).unwrap_or(0);
    let zeros = !weights.bool("symmetric", true).unwrap_or(true);
    let order = matches!(weights.str("actorder"), Some("group" | "dynamic"));
    let packed = |bits: u64, group: u64| Scheme::Packed { bits, group, zeros, order };
    Ok(match (bits, float) {
        (4, true) if format.contains("mxfp4") || group == 32 => Scheme::Mxfp4,
        (4, true) => Scheme::Nvfp4,
        (8, _) => match (strategy, weights.ints("block_structure")?.as_deref()) {
            ("block", Some([rows, columns])) if *rows > 0 && *columns > 0 => Scheme::Fp8Block { rows: *rows, columns: *columns },
            ("block", _) => Scheme::Fp8Block { rows: 128, columns: 128 },
            ("tensor", _) => Scheme::Fp8Tensor { activations: activations && modelopt },
            ("group", _) if group > 0 => packed(8, group),
            _ if format == "pack-quantized" => packed(8, 0),
            _ => Scheme::Channel8,
        },
        (bits, _) => packed(bits, group),
    })
}

/// AMD Quark: one scheme for all linear layers.
fn quark(c: Section<'_>) -> Result<(Vec<(Where, Scheme)>, String)> {
    let global = c.section("global_quant_config");
    let weight = global.section("weight");
    let kind = weight.str("dtype").unwrap_or("").to_ascii_lowercase();
    let group = weight.int("group_size", 0).unwrap_or(0);
    let scheme = match weight.str("qscheme").unwrap_or("") {
        _ if kind.contains("fp4") => Scheme::Mxfp4,
        _ if kind.contains("int4") => Scheme::Packed { bits: 4, group, zeros: false, order: false },
        "per_channel" => Scheme::Channel8,
        _ if kind.contains("fp8") || kind.contains("int8") => {
            Scheme::Fp8Tensor { activations: !global.section("input_tensors").is_empty() }
        }
        _ => return Ok((Vec::new(), "this scheme is not known".to_owned())),
    };
    Ok((vec![(Where::Layers, scheme)], kind))
}

fn torchao(c: Section<'_>) -> Result<(Vec<(Where, Scheme)>, String)> {
    let nested = c.section("quant_type");
    let inner = if nested.section("default").is_empty() { nested } else { nested.section("default") };
    let name = inner.str("_type").or_else(|| c.str("quant_type")).unwrap_or("").to_ascii_lowercase();
    let group = inner.section("_data").int("group_size", c.section("quant_type_kwargs").int("group_size", 128)?)?.max(1);
    let scheme = if name.contains("int4") {
        Scheme::ScaleAndZero { bits: 4, group }
    } else if name.contains("float8") {
        Scheme::Fp8Tensor { activations: false }
    } else {
        Scheme::Channel8
    };
    Ok((vec![(Where::Layers, scheme)], name))
}
