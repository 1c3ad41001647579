//! Llama and the families that share its shapes: attention without or with biases, a gated
//! feed-forward layer, two RMSNorms a layer. They differ in defaults, biases and windows.

use super::blocks::{Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, windows};
use super::dense::{Dense, Mlp};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

const LLAMA: Defaults = Defaults::of([32000, 4096, 11008, 32, 32, 0, 0, 2048], false);

/// llama, and remote families whose files name all sizes (Yi, Aquila, DeepSeek LLM ...).
pub fn llama(c: Section<'_>, request: Request) -> Result<Parts> {
    with_bias_keys(c, request, &LLAMA)
}

/// granite: Llama with multipliers, which have no weights.
pub fn granite(c: Section<'_>, request: Request) -> Result<Parts> {
    with_bias_keys(c, request, &LLAMA)
}

/// helium: the output projection is square and has no bias.
pub fn helium(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([48000, 2560, 7040, 24, 20, 20, 128, 4096], false);
    let d = Dimensions::read(c, &default)?;
    let (bias, mlp_bias) = (c.bool("attention_bias", false)?, c.bool("mlp_bias", false)?);
    let attention = d.attention().biases(bias, false);
    let mut stack = super::decoder::Stack::new(c, d.clone(), &default, request)?;
    let query = d.heads.saturating_mul(d.head_dim);
    let key = d.kv_heads.saturating_mul(d.head_dim);
    let layer = super::blocks::Block::new()
        .norm("input_layernorm", d.hidden)
        .norm("post_attention_layernorm", d.hidden)
        .linear("self_attn.q_proj", Role::Attention, query, d.hidden, bias)
        .linear("self_attn.k_proj", Role::Attention, key, d.hidden, bias)
        .linear("self_attn.v_proj", Role::Attention, key, d.hidden, bias)
        .linear("self_attn.o_proj", Role::Attention, d.hidden, d.hidden, false)
        .cache(attention.cache(Window::Full))
        .gated_mlp("mlp", d.hidden, d.intermediate, mlp_bias);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::Weight, false))
}

/// internlm3: `qkv_bias` for queries, keys and values, `bias` for the output and the feed-forward layers.
pub fn internlm3(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128512, 4096, 10240, 48, 32, 2, 128, 32768], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("bias|mlp_bias", false)?;
    let dense =
        Dense { attention: d.attention().biases(c.bool("qkv_bias|attention_bias", false)?, bias), mlp_bias: bias, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// internlm (first version): one `bias` for all attention projections, on by default.
pub fn internlm(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([103168, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("bias", true)?;
    let dense = Dense { attention: d.attention().biases(bias, bias), ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// internlm2: a fused projection of queries, keys and values.
pub fn internlm2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([103168, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias), fused_qkv: true, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// baichuan: as many KV heads as heads; the fused projection has no bias.
pub fn baichuan(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([64000, 4096, 11008, 32, 32, 0, 0, 4096], false);
    let d = Dimensions::read(c, &default)?;
    let dense = Dense { fused_qkv: true, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// orion: Llama with biased LayerNorms.
pub fn orion(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([84608, 4096, 15360, 40, 40, 40, 0, 4096], false);
    let d = Dimensions::read(c, &default)?;
    let dense = Dense { norm: Norm::WeightBias, last_norm: Norm::WeightBias, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// seed_oss: biases of queries, keys and values by default.
pub fn seed_oss(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([155136, 4096, 27648, 64, 80, 8, 128, 524288], false);
    let d = Dimensions::read(c, &default)?;
    let attention = d.attention().biases(c.bool("attention_bias", true)?, c.bool("attention_out_bias", false)?);
    let dense = Dense { attention, mlp_bias: c.bool("mlp_bias", false)?, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// smollm3: windows only with `use_sliding_window`, on the layers with positions.
pub fn smollm3(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128256, 2048, 11008, 36, 16, 4, 0, 32768], true);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let window = if c.bool("use_sliding_window", false)? { c.int_opt("sliding_window")? } else { None };
    let interval = c.divisor("no_rope_layer_interval", 4)?;
    let rotary = c.flags("no_rope_layers");
    let slides = |index: u64| match &rotary {
        Some(list) => usize::try_from(index).ok().and_then(|index| list.get(index)).copied().unwrap_or(true),
        None => !(index + 1).is_multiple_of(interval),
    };
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        mlp_bias: c.bool("mlp_bias", false)?,
        windows: windows(c, d.layers, window, slides),
        ..Dense::new(&d)
    };
    dense.build(c, d, &default, request)
}

/// mistral: every layer slides where the file names a window or leaves the key out.
pub fn mistral(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 14336, 32, 32, 8, 0, 131072], false);
    sliding(c, request, &default, if c.has("sliding_window") { c.int_opt("sliding_window")? } else { Some(4096) })
}

/// ministral: as mistral, with layer types.
pub fn ministral(c: Section<'_>, request: Request) -> Result<Parts> {
    mistral(c, request)
}

/// ministral3: no window unless the file names one.
pub fn ministral3(c: Section<'_>, request: Request) -> Result<Parts> {
    sliding(c, request, &Defaults::of([131072, 4096, 14336, 34, 32, 8, 128, 262144], false), c.int_opt("sliding_window")?)
}

/// cwm: one full layer in four, the first.
pub fn cwm(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128256, 6144, 21504, 64, 48, 8, 128, 131072], false);
    let d = Dimensions::read(c, &default)?;
    let window = Some(c.int("sliding_window", 8192)?);
    let dense = Dense {
        mlp_bias: c.bool("mlp_bias", false)?,
        windows: windows(c, d.layers, window, |index| !index.is_multiple_of(4)),
        ..Dense::new(&d)
    };
    dense.build(c, d, &default, request)
}

/// arcee: a feed-forward layer without a gate.
pub fn arcee(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 2560, 18432, 32, 32, 0, 0, 4096], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        mlp: Mlp::Plain("up_proj", "down_proj"),
        mlp_bias: c.bool("mlp_bias", false)?,
        ..Dense::new(&d)
    };
    dense.build(c, d, &default, request)
}

/// A feed-forward layer without a gate, biased LayerNorms; `bias` is the family's own default for the linear layers.
fn plain_mlp(c: Section<'_>, request: Request, default: &Defaults, bias: bool) -> Result<Parts> {
    let d = Dimensions::read(c, default)?;
    let attention_bias = c.bool("attention_bias", bias)?;
    let dense = Dense {
        attention: d.attention().biases(attention_bias, attention_bias),
        mlp: Mlp::Plain("up_proj", "down_proj"),
        mlp_bias: c.bool("mlp_bias", bias)?,
        norm: Norm::WeightBias,
        last_norm: Norm::WeightBias,
        ..Dense::new(&d)
    };
    dense.build(c, d, default, request)
}

/// jais2: biases everywhere, a feed-forward layer without a gate, biased LayerNorms.
pub fn jais2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([150272, 3328, 26624, 32, 26, 0, 0, 8192], false);
    plain_mlp(c, request, &default, true)
}

/// exaone4: normalised queries and keys, norms after the sub-layers, three sliding layers to a full one.
pub fn exaone4(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([102400, 4096, 16384, 32, 32, 32, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let window = if c.has("sliding_window") { c.int_opt("sliding_window")? } else { Some(4096) };
    // The pattern is a number (every n-th layer is full) or letters (`LLLG`: L looks back a window).
    let letters = c.str("sliding_window_pattern").unwrap_or("").as_bytes();
    let every = if letters.is_empty() { c.int("sliding_window_pattern", 4)?.max(1) } else { 1 };
    let slides = |index: u64| match usize::try_from(index) {
        Ok(index) if !letters.is_empty() => letters.get(index % letters.len()) == Some(&b'L'),
        _ => !(index + 1).is_multiple_of(every),
    };
    let dense =
        Dense { attention: d.attention().qk_norm(QkNorm::PerHead), windows: windows(c, d.layers, window, slides), ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// exaone (third generation, remote code): Llama under other names.
pub fn exaone(c: Section<'_>, request: Request) -> Result<Parts> {
    with_bias_keys(c, request, &Defaults::of([102400, 4096, 14336, 32, 32, 8, 0, 2048], false))
}

/// hunyuan_v1_dense: normalised queries and keys.
pub fn hunyuan_dense(c: Section<'_>, request: Request) -> Result<Parts> {
    hunyuan(c, request, false)
}

/// hunyuan_vl_text: the same with a shared head.
pub fn hunyuan_vl(c: Section<'_>, request: Request) -> Result<Parts> {
    hunyuan(c, request, true)
}

fn hunyuan(c: Section<'_>, request: Request, tied: bool) -> Result<Parts> {
    let default = Defaults::of([290943, 4096, 11008, 32, 32, 0, 0, 2048], tied);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead), ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// ernie4_5: one flag for all biases.
pub fn ernie4_5(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([103424, 1024, 3072, 18, 16, 2, 128, 131072], true);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("use_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias), mlp_bias: bias, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// bitnet: a norm more inside attention and feed-forward layer.
pub fn bitnet(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128256, 2560, 6912, 30, 20, 5, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias), ..Dense::new(&d) };
    let mut stack = super::decoder::Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(dense.layer(index, d.intermediate).norm("self_attn.attn_sub_norm", d.hidden).norm("mlp.ffn_sub_norm", d.intermediate));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// stablelm: biased LayerNorms, one a layer when attention and feed-forward layer run in parallel.
pub fn stablelm(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50304, 2560, 6912, 32, 32, 32, 0, 4096], false);
    let d = Dimensions::read(c, &default)?;
    let parallel = c.bool("use_parallel_residual", false)?;
    let dense = Dense {
        attention: d.attention().biases(c.bool("use_qkv_bias", false)?, false),
        norm: Norm::WeightBias,
        last_norm: Norm::WeightBias,
        norms: if parallel { &["input_layernorm"] } else { super::dense::TWO_NORMS },
        ..Dense::new(&d)
    };
    let qk_norm = c.bool("qk_layernorm", false)?;
    let mut stack = super::decoder::Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        // Each head has a norm of its own, without bias.
        let widths = |block: super::blocks::Block| {
            block
                .norm("self_attn.q_layernorm", d.heads.saturating_mul(d.head_dim))
                .norm("self_attn.k_layernorm", d.kv_heads.saturating_mul(d.head_dim))
        };
        stack.layer(dense.layer(index, d.intermediate).when(qk_norm, widths));
    }
    Ok(stack.finish(Norm::WeightBias, false))
}

/// nemotron (third and fourth generation): a feed-forward layer without a gate, biased LayerNorms.
pub fn nemotron(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256000, 6144, 24576, 32, 48, 0, 0, 4096], false);
    plain_mlp(c, request, &default, false)
}

/// starcoder2: biases everywhere by default, biased LayerNorms.
pub fn starcoder2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([49152, 3072, 12288, 30, 24, 2, 0, 4096], true);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("use_bias", true)?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        mlp: Mlp::Plain("c_fc", "c_proj"),
        mlp_bias: bias,
        norm: Norm::WeightBias,
        last_norm: Norm::WeightBias,
        windows: windows(c, d.layers, c.int_opt("sliding_window")?, |_| true),
        ..Dense::new(&d)
    };
    dense.build(c, d, &default, request)
}

fn with_bias_keys(c: Section<'_>, request: Request, default: &Defaults) -> Result<Parts> {
    let d = Dimensions::read(c, default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias), mlp_bias: c.bool("mlp_bias", false)?, ..Dense::new(&d) };
    dense.build(c, d, default, request)
}

fn sliding(c: Section<'_>, request: Request, default: &Defaults, window: Option<u64>) -> Result<Parts> {
    let d = Dimensions::read(c, default)?;
    let windows: Vec<Window> = windows(c, d.layers, window, |_| true);
    Dense { windows, ..Dense::new(&d) }.build(c, d, default, request)
}
