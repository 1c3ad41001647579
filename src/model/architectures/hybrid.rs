//! State-space models and hybrids with attention: mamba, mamba2, falcon_mamba, jamba, bamba,
//! granitemoehybrid, falcon_h1, nemotron_h, zamba2, recurrent_gemma, lfm2, lfm2_moe.

use super::blocks::{Block, Moe, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::mixers::{self, Mamba2};
use super::sparse::ACTIVE;
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// The Mamba-2 keys that bamba, granitemoehybrid and falcon_h1 share.
fn mamba2_keys(c: Section<'_>, d: &Dimensions, inner: Option<u64>) -> Result<Mamba2> {
    let inner = match inner {
        Some(width) => width,
        None => d.hidden.saturating_mul(c.int("mamba_expand", 2)?),
    };
    let heads = c.divisor("mamba_n_heads", 128)?;
    Ok(Mamba2 {
        hidden: d.hidden,
        inner,
        heads,
        head_dim: inner / heads,
        groups: c.int("mamba_n_groups", 1)?,
        state: c.int("mamba_d_state", 256)?,
        kernel: c.int("mamba_d_conv", 4)?,
        bias: c.bool("mamba_proj_bias", false)?,
        conv_bias: c.bool("mamba_conv_bias", true)?,
        norm: true,
    })
}

/// Whether the layer of an index is attention, by a list of kinds.
pub(super) fn is_attention(kinds: &[&str], index: u64, absent: bool) -> bool {
    let named = usize::try_from(index).ok().and_then(|index| kinds.get(index));
    named.map_or(absent, |kind| kind.contains("attention") && !kind.contains("linear"))
}

/// bamba.
pub fn bamba(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128_000, 4096, 14336, 32, 32, 8, 0, 262_144], false);
    let d = Dimensions::read(c, &default)?;
    let listed = c.ints("attn_layer_indices")?.unwrap_or_default();
    let kinds = c.strings("layers_block_type|layer_types");
    let mixer = mamba2_keys(c, &d, None)?;
    let (attention_bias, mlp_bias) = (c.bool("attention_bias", false)?, c.bool("mlp_bias", false)?);
    let attention = d.attention().biases(attention_bias, attention_bias);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new().norm("input_layernorm", d.hidden).norm("pre_ff_layernorm", d.hidden);
        let block = if is_attention(&kinds, index, listed.contains(&index)) {
            block.attention("self_attn", &attention, Window::Full)
        } else {
            mixers::mamba2(block, "mamba", &mixer)
        };
        stack.layer(block.gated_mlp("feed_forward", d.hidden, d.intermediate, mlp_bias));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// granitemoehybrid: a shared feed-forward layer, experts where the file has them.
pub fn granite_hybrid(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let mut d = Dimensions::read(c, &default)?;
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int("num_local_experts", 8)?,
        active: c.int(ACTIVE, 2)?,
        width: d.intermediate,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let shared = c.int("shared_intermediate_size", 1024)?;
    let kinds = c.strings("layer_types|layers_block_type");
    let mixer = mamba2_keys(c, &d, None)?;
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention().biases(bias, bias);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden);
        let block = if is_attention(&kinds, index, false) {
            block.attention("self_attn", &attention, Window::Full)
        } else {
            mixers::mamba2(block, "mamba", &mixer)
        };
        let block = block.when(moe.experts > 0, |block| block.moe("block_sparse_moe", &moe));
        stack.layer(block.gated("shared_mlp", Role::SharedExpert, d.hidden, shared, false));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// falcon_h1: attention and Mamba-2 side by side in every layer.
pub fn falcon_h1(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128_000, 4096, 14336, 32, 32, 8, 0, 8192], false);
    let d = Dimensions::read(c, &default)?;
    let inner = if c.has("mamba_d_ssm") { c.int_opt("mamba_d_ssm")? } else { Some(1024) };
    let mixer = Mamba2 { norm: c.bool("mamba_rms_norm", false)?, ..mamba2_keys(c, &d, inner)? };
    let out_bias = c.bool("projectors_bias", false)?;
    let (attention_bias, mlp_bias) = (c.bool("attention_bias", false)?, c.bool("mlp_bias", false)?);
    let block = Block::new().norm("input_layernorm", d.hidden).norm("pre_ff_layernorm", d.hidden);
    let block = mixers::mamba2(block, "mamba", &Mamba2 { bias: false, ..mixer })
        .when(mixer.bias, |block| {
            let width = mixer
                .inner
                .saturating_mul(2)
                .saturating_add(mixer.groups.saturating_mul(mixer.state).saturating_mul(2))
                .saturating_add(mixer.heads);
            block.param("mamba.in_proj.bias", Role::Mixer, &[width])
        })
        .when(out_bias, |block| block.param("mamba.out_proj.bias", Role::Mixer, &[d.hidden]))
        .attention("self_attn", &d.attention().biases(attention_bias, attention_bias), Window::Full)
        .gated_mlp("feed_forward", d.hidden, d.intermediate, mlp_bias);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    stack.layers(d.layers, &block);
    Ok(stack.finish(Norm::Weight, false))
}

/// nemotron_h: one mixer and one norm a layer, of the kinds `M*-E` of a pattern or of a list.
pub fn nemotron_h(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([131_072, 4096, 21504, 4, 32, 8, 128, 4096], false);
    let mut d = Dimensions::read(c, &default)?;
    let kinds: Vec<char> = match (c.strings("layers_block_type|layer_types").as_slice(), c.str("hybrid_override_pattern")) {
        ([], Some(pattern)) => pattern.chars().collect(),
        ([], None) => "ME*-".chars().collect(),
        (list, _) => list.iter().map(|kind| nemotron_letter(kind)).collect(),
    };
    if kinds.len() as u64 > crate::model::config::MAX_LAYERS {
        return Err(c.wrong("hybrid_override_pattern|layers_block_type", "names more layers than any model has".to_owned()));
    }
    d.layers = kinds.len() as u64;
    let (heads, head_dim) = (c.int("mamba_num_heads", 128)?, c.int("mamba_head_dim", 64)?);
    let mixer = Mamba2 {
        hidden: d.hidden,
        inner: heads.saturating_mul(head_dim),
        heads,
        head_dim,
        groups: c.int("mamba_n_groups|n_groups", 8)?,
        state: c.int("ssm_state_size", 128)?,
        kernel: c.int("mamba_d_conv|conv_kernel", 4)?,
        bias: c.bool("use_bias", false)?,
        conv_bias: c.bool("mamba_conv_bias|use_conv_bias", true)?,
        norm: true,
    };
    let (experts, active) = (c.int("n_routed_experts", 8)?, c.int("num_experts_per_tok", 2)?);
    let width = c.int("moe_intermediate_size", 7688)?;
    let shared = c.int("moe_shared_expert_intermediate_size", 7688)?;
    let latent = c.int_opt("moe_latent_size")?;
    let bias = c.bool("mlp_bias", false)?;
    if kinds.contains(&'E') {
        (d.experts, d.active_experts, d.expert_width) = (experts, active, width);
    }
    // This class never shares the embedding with the head.
    let mut stack = Stack::new(c, d.clone(), &default, Request { tied: Some(false), ..request })?;
    for kind in kinds {
        let block = Block::new().norm("norm", d.hidden);
        stack.layer(match kind {
            'M' => mixers::mamba2(block, "mixer", &mixer),
            '*' => block.attention("mixer", &d.attention(), Window::Full),
            '-' => block.plain_mlp("mixer", d.hidden, d.intermediate, ["up_proj", "down_proj"], bias),
            'E' => {
                let inside = latent.unwrap_or(d.hidden);
                block
                    .router("mixer", experts, d.hidden, false)
                    .expert_linear("mixer.experts.{e}.up_proj", width, inside, false, (experts, active))
                    .expert_linear("mixer.experts.{e}.down_proj", inside, width, false, (experts, active))
                    .linear("mixer.shared_experts.up_proj", Role::SharedExpert, shared, d.hidden, bias)
                    .linear("mixer.shared_experts.down_proj", Role::SharedExpert, d.hidden, shared, bias)
                    .when(latent.is_some(), |block| {
                        block.linear("mixer.fc1_latent_proj", Role::Mlp, inside, d.hidden, bias).linear(
                            "mixer.fc2_latent_proj",
                            Role::Mlp,
                            d.hidden,
                            inside,
                            bias,
                        )
                    })
            }
            other => {
                return Err(c.wrong(
                    "hybrid_override_pattern|layers_block_type",
                    format!("`{other}` is no kind of layer; known are M, *, - and E"),
                ));
            }
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

fn nemotron_letter(kind: &str) -> char {
    match kind {
        "mamba" | "linear_attention" | "mamba2" => 'M',
        "attention" | "full_attention" => '*',
        "mlp" => '-',
        "moe" => 'E',
        _ => '?',
    }
}
