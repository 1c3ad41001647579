//! What does not go together: rotary scaling and context, config and stored weights, weights and GPU.
//!
//! [`checks`] gives plain data: a [`Problem`] with its numbers, the key and the byte range in the
//! config where it is to be shown, and how sure it is. Words are made elsewhere. It is silent where
//! a rule is not certain: architectures that are not known, code that comes with the model, methods
//! of quantisation that are not known. A config that works has no [`Gravity::Wrong`].

mod index;
mod rope;

use super::Model;
use super::architectures::decoder::keys;
use super::architectures::vlm::TEXT;
use super::beside::WeightsIndex;
use super::config::Section;
use super::json::{Node, Span};
use super::quantization::Dtype;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gravity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// It loads, and probably does not do what is wanted.
    Doubtful,
    /// It does not load, or it does not fit.
    Wrong,
}

/// What does not go together. All sizes are plain numbers, tokens or bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// No rule of rotary scaling has this name.
    RopeTypeUnknown {
        /// The name in the file.
        name: String,
    },
    /// Scaling without a name for its rule.
    RopeTypeMissing,
    /// The rule needs a field that is not there.
    RopeFieldMissing {
        /// The rule.
        rope: &'static str,
        /// The field.
        field: &'static str,
    },
    /// Factor below 1, or no number.
    RopeFactor {
        /// The rule.
        rope: &'static str,
    },
    /// The context is neither the original one nor the original one times the factor.
    RopeContext {
        /// The rule.
        rope: &'static str,
        /// `factor`.
        factor: f64,
        /// `original_max_position_embeddings`.
        original: u64,
        /// `max_position_embeddings`.
        context: u64,
    },
    /// The original context is not smaller than the extended one.
    RopeOriginal {
        /// The rule.
        rope: &'static str,
        /// `original_max_position_embeddings`.
        original: u64,
        /// `max_position_embeddings`.
        context: u64,
    },
    /// `low_freq_factor` is not below `high_freq_factor`.
    RopeFrequencies {
        /// `low_freq_factor`.
        low: f64,
        /// `high_freq_factor`.
        high: f64,
    },
    /// A list of factors has another length than half the rotary width.
    RopeFactorList {
        /// `short_factor` or `long_factor`.
        field: &'static str,
        /// Entries of the list.
        entries: u64,
        /// Half the rotary width.
        wanted: u64,
    },
    /// `layer_types` lists more or fewer layers than the model has.
    LayerTypes {
        /// Entries of the list.
        listed: u64,
        /// `num_hidden_layers`.
        layers: u64,
    },
    /// The head shares the embedding, and a head is stored: it is left out, or it counts twice.
    TiedHeadStored {
        /// Name of the stored tensor.
        tensor: String,
    },
    /// The head is its own, and none is stored: it starts with random numbers.
    HeadNotStored {
        /// Whether the file itself says so, or the family's default.
        written: bool,
    },
    /// Layers of the config and layers of the stored weights differ.
    IndexLayers {
        /// Layers of the config.
        config: u64,
        /// Layers in the index.
        stored: u64,
        /// Layers for multi-token prediction, which may be stored besides.
        extra: u64,
    },
    /// Bytes computed from the config and bytes of the index differ.
    IndexBytes {
        /// Bytes that the config gives.
        config: u64,
        /// `metadata.total_size`.
        stored: u64,
        /// The dtype with which both would agree.
        dtype: Option<Dtype>,
    },
    /// The weights alone are larger than the memory of the GPU.
    WeightsExceedGpu {
        /// Bytes of the weights as stored.
        weights: u64,
        /// Usable bytes of the GPU.
        memory: u64,
    },
}

/// A problem and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What does not go together.
    pub problem: Problem,
    /// How bad it is.
    pub gravity: Gravity,
    /// The key at which it shows, as the file spells it.
    pub key: String,
    /// Byte range in the config: the value of that key.
    pub span: Span,
    /// Byte range in the index of weights, where that has a part in it.
    pub index_span: Option<Span>,
}

impl Problem {
    /// A short id, stable, for diagnostics and texts.
    pub fn code(&self) -> &'static str {
        match self {
            Problem::RopeTypeUnknown { .. } => "rope-type-unknown",
            Problem::RopeTypeMissing => "rope-type-missing",
            Problem::RopeFieldMissing { .. } => "rope-field-missing",
            Problem::RopeFactor { .. } => "rope-factor",
            Problem::RopeContext { .. } => "rope-context",
            Problem::RopeOriginal { .. } => "rope-original",
            Problem::RopeFrequencies { .. } => "rope-frequencies",
            Problem::RopeFactorList { .. } => "rope-factor-list",
            Problem::LayerTypes { .. } => "layer-types",
            Problem::TiedHeadStored { .. } => "tied-head-stored",
            Problem::HeadNotStored { .. } => "head-not-stored",
            Problem::IndexLayers { .. } => "index-layers",
            Problem::IndexBytes { .. } => "index-bytes",
            Problem::WeightsExceedGpu { .. } => "weights-exceed-gpu",
        }
    }
}

/// What lies beside a config, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around<'a> {
    /// `model.safetensors.index.json`.
    pub index: Option<&'a WeightsIndex>,
    /// Usable bytes of the chosen GPU; for several GPUs that share the weights, of all of them.
    pub gpu_bytes: Option<u64>,
}

/// Everything that does not go together in a config, in the order of the text.
///
/// `model` is what [`super::from_section`] made of the same `root`.
pub fn checks(root: &Node, model: &Model, around: &Around<'_>) -> Vec<Check> {
    let c = Section::new(root);
    let mut found = rope::checks(c, model);
    found.extend(layer_types(c, model));
    if let Some(weights) = around.index {
        found.extend(index::checks(c, model, weights));
    }
    found.extend(around.gpu_bytes.and_then(|memory| weights_exceed(c, model, memory)));
    found.sort_by_key(|check| check.span.start);
    found
}

/// The object that describes the language model.
fn language(c: Section<'_>) -> Section<'_> {
    let inner = c.section(TEXT);
    if inner.is_empty() {
        return c;
    }
    let deeper = inner.section("text_config");
    if deeper.is_empty() { inner } else { deeper }
}

/// Whether the code of the model comes with its weights: its rules are its own.
fn own_code(c: Section<'_>) -> bool {
    c.has("auto_map")
}

/// A check at the first of the spellings that the file has, in the text part or outside; else at the
/// name of the family.
fn at(c: Section<'_>, names: &str, problem: Problem, gravity: Gravity) -> Check {
    let (key, span) = place(c, names);
    Check { problem, gravity, key, span, index_span: None }
}

fn place(c: Section<'_>, names: &str) -> (String, Span) {
    let inner = language(c);
    let named = inner.raw(names).or_else(|| c.raw(names)).or_else(|| c.raw("model_type|architectures"));
    named.map_or_else(|| (String::new(), c.span().start..c.span().start), |(key, node)| (key.to_owned(), node.span.clone()))
}

/// The list of layer types has an entry a layer.
fn layer_types(c: Section<'_>, model: &Model) -> Option<Check> {
    if !model.is_exact() || own_code(c) {
        return None;
    }
    let inner = language(c);
    let listed = inner.strings("layer_types").len() as u64;
    let layers = inner.int_opt(keys::LAYERS).ok().flatten()?;
    if listed == 0 || listed == layers {
        return None;
    }
    Some(at(c, "layer_types", Problem::LayerTypes { listed, layers }, Gravity::Wrong))
}

/// Weights that are larger than the GPU.
fn weights_exceed(c: Section<'_>, model: &Model, memory: u64) -> Option<Check> {
    let weights = model.weights_bytes().filter(|_| model.is_exact())?;
    let key = if model.quantization.is_some() { "quantization_config|compression_config" } else { "dtype|torch_dtype" };
    (weights > memory).then(|| at(c, key, Problem::WeightsExceedGpu { weights, memory }, Gravity::Wrong))
}

#[cfg(test)]
mod tests {
    use super::super::{beside, from_section, json};
    use super::*;

    const LLAMA: &str = r#""model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 100, "torch_dtype": "bfloat16", "max_position_embeddings": 4096"#;

    fn codes_with(text: &str, index: Option<&str>, gpu_bytes: Option<u64>) -> Vec<(&'static str, String)> {
        let root = json::parse(text).unwrap();
        let model = from_section(Section::new(&root)).unwrap();
        let index = index.map(|text| beside::weights_index(Section::new(&json::parse(text).unwrap())).unwrap());
        let found = checks(&root, &model, &Around { index: index.as_ref(), gpu_bytes });
        found.into_iter().map(|one| (one.problem.code(), text[one.span].to_owned())).collect()
    }

    fn codes(more: &str) -> Vec<&'static str> {
        codes_with(&format!("{{{LLAMA}, {more}}}"), None, None).into_iter().map(|(code, _)| code).collect()
    }

    #[test]
    fn scalings_that_work_have_no_mark() {
        for more in [
            r#""rope_scaling": null"#,
            r#""rope_scaling": {"type": "linear", "factor": 4.0}"#,
            r#""rope_scaling": {"type": "dynamic", "factor": 2}"#,
            r#""rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}"#,
            r#""rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}"#,
            r#""rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 2048}"#,
            r#""rope_parameters": {"rope_type": "default", "rope_theta": 1e6}"#,
            r#""rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}"#,
            r#""rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"rope_type": "default"}}"#,
            r#""rope_scaling": {"type": "own-rule"}, "auto_map": {"AutoModel": "a.B"}"#,
        ] {
            assert_eq!(codes(more), Vec::<&str>::new(), "{more}");
        }
    }

    #[test]
    fn scalings_that_do_not_work_are_named_at_their_place() {
        for (more, code) in [
            (r#""rope_scaling": {"type": "yran", "factor": 4.0}"#, "rope-type-unknown"),
            (r#""rope_scaling": {"factor": 4.0}"#, "rope-type-missing"),
            (r#""rope_scaling": {"type": "linear"}"#, "rope-field-missing"),
            (r#""rope_scaling": {"type": "linear", "factor": 0.5}"#, "rope-factor"),
            (r#""rope_scaling": {"type": "linear", "factor": "4"}"#, "rope-factor"),
            (r#""rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}"#, "rope-context"),
            (
                r#""rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 2048}"#,
                "rope-frequencies",
            ),
            (
                r#""rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}"#,
                "rope-original",
            ),
            (
                r#""rope_scaling": {"rope_type": "longrope", "short_factor": [1, 1], "long_factor": [1, 1, 1, 1, 1, 1, 1, 1]}"#,
                "rope-factor-list",
            ),
            (r#""layer_types": ["full_attention"]"#, "layer-types"),
        ] {
            assert_eq!(codes(more), [code], "{more}");
        }
        let text = format!("{{{LLAMA}, \"rope_scaling\": {{\"type\": \"yran\"}}}}");
        assert_eq!(codes_with(&text, None, None), [("rope-type-unknown", "\"yran\"".to_owned())]);
    }

    fn index(bytes: u64, layers: u64, head: bool) -> String {
        let mut names: Vec<String> = (0..layers).map(|layer| format!("\"model.layers.{layer}.mlp.up_proj.weight\": \"a\"")).collect();
        names.push("\"model.embed_tokens.weight\": \"a\"".to_owned());
        if head {
            names.push("\"lm_head.weight\": \"a\"".to_owned());
        }
        format!("{{\"metadata\": {{\"total_size\": {bytes}}}, \"weight_map\": {{{}}}}}", names.join(", "))
    }

    #[test]
    fn config_and_index_disagree() {
        let text = format!("{{{LLAMA}}}");
        let root = json::parse(&text).unwrap();
        let bytes = from_section(Section::new(&root)).unwrap().weights_bytes().unwrap();
        let found = |bytes, layers, head| codes_with(&text, Some(&index(bytes, layers, head)), None);
        assert_eq!(found(bytes, 2, true), []);
        assert_eq!(found(bytes + 100, 2, true), []);
        assert_eq!(found(bytes * 2, 2, true), [("index-bytes", "\"bfloat16\"".to_owned())]);
        assert_eq!(found(bytes, 3, true), [("index-layers", "2".to_owned())]);
        assert_eq!(found(bytes, 2, false), [("head-not-stored", "\"llama\"".to_owned())]);
        let tied = format!("{{{LLAMA}, \"tie_word_embeddings\": true}}");
        let stored = codes_with(&tied, Some(&index(bytes, 2, true)), None);
        assert_eq!(stored, [("tied-head-stored", "true".to_owned())]);
    }

    #[test]
    fn weights_beside_a_gpu() {
        let text = format!("{{{LLAMA}}}");
        assert_eq!(codes_with(&text, None, Some(1 << 30)), []);
        assert_eq!(codes_with(&text, None, Some(1 << 10)), [("weights-exceed-gpu", "\"bfloat16\"".to_owned())]);
    }
}
