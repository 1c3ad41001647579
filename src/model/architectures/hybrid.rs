//! State-space models and hybrids with attention: mamba, mamba2, falcon_mamba, jamba, bamba,
//! granitemoehybrid, falcon_h1, nemotron_h, zamba2, recurrent_gemma, lfm2, lfm2_moe.

use super::blocks::{Block, Moe, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::mixers::{self, Mamba, Mamba2};
use super::sparse::{ACTIVE, COUNT};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// mamba and falcon_mamba: one mixer and one norm a layer.
pub fn mamba(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50280, 768, 1536, 32, 1, 0, 0, 0], true);
    let d = Dimensions::read(c, &default)?;
    let inner = match c.int_opt("intermediate_size|d_inner")? {
        Some(width) => width,
        None => d.hidden.saturating_mul(c.int("expand", 2)?),
    };
    let rank = if c.str("time_step_rank") == Some("auto") {
        None
    } else {
        c.int_opt("time_step_rank")?
    };
    let mamba = Mamba {
        hidden: d.hidden,
        inner,
        kernel: c.int("conv_kernel|d_conv", 4)?,
        state: c.int("state_size|d_state", 16)?,
        rank: rank.unwrap_or(d.hidden.div_ceil(16)),
        bias: c.bool("use_bias", false)?,
        conv_bias: c.bool("use_conv_bias", true)?,
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    stack.layers(
        d.layers,
        &mixers::mamba1(Block::new().norm("norm", d.hidden), "mixer", &mamba),
    );
    Ok(stack.finish(Norm::Weight, false))
}

/// mamba2.
pub fn mamba2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32768, 4096, 8192, 64, 128, 0, 64, 0], false);
    let d = Dimensions::read(c, &default)?;
    let mixer = Mamba2 {
        hidden: d.hidden,
        inner: d.hidden.saturating_mul(c.int("expand", 2)?),
        heads: c.int("num_heads", 128)?,
        head_dim: c.int("head_dim", 64)?,
        groups: c.int("n_groups", 8)?,
        state: c.int("state_size", 128)?,
        kernel: c.int("conv_kernel", 4)?,
        bias: c.bool("use_bias", false)?,
        conv_bias: c.bool("use_conv_bias", true)?,
        norm: true,
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    stack.layers(
        d.layers,
        &mixers::mamba2(Block::new().norm("norm", d.hidden), "mixer", &mixer),
    );
    Ok(stack.finish(Norm::Weight, false))
}

/// jamba: attention in every n-th layer, experts in every m-th.
pub fn jamba(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([65536, 4096, 14336, 32, 32, 8, 0, 262_144], false);
    let mut d = Dimensions::read(c, &default)?;
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int(COUNT, 16)?,
        active: c.int(ACTIVE, 2)?,
        width: d.intermediate,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let (attention_every, attention_at) = (
        c.divisor("attn_layer_period", 8)?,
        c.int("attn_layer_offset", 4)?,
    );
    let (experts_every, experts_at) = (
        c.divisor("expert_layer_period", 2)?,
        c.int("expert_layer_offset", 1)?,
    );
    let rank = if c.str("mamba_dt_rank") == Some("auto") {
        None
    } else {
        c.int_opt("mamba_dt_rank")?
    };
    let mamba = Mamba {
        hidden: d.hidden,
        inner: d.hidden.saturating_mul(c.int("mamba_expand", 2)?),
        kernel: c.int("mamba_d_conv", 4)?,
        state: c.int("mamba_d_state", 16)?,
        rank: rank.unwrap_or(d.hidden.div_ceil(16)),
        bias: c.bool("mamba_proj_bias", false)?,
        conv_bias: c.bool("mamba_conv_bias", true)?,
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("pre_ff_layernorm", d.hidden);
        let block = if index % attention_every == attention_at {
            block.attention("self_attn", &d.attention(), Window::Full)
        } else {
            mixers::mamba1(block, "mamba", &mamba)
                .norm("mamba.dt_layernorm", mamba.rank)
                .norm("mamba.b_layernorm", mamba.state)
                .norm("mamba.c_layernorm", mamba.state)
        };
        let sparse = moe.experts > 1 && index % experts_every == experts_at;
        stack.layer(if sparse {
            block.moe("feed_forward", &moe)
        } else {
            block.gated_mlp("feed_forward", d.hidden, d.intermediate, false)
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

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
fn is_attention(kinds: &[&str], index: u64, absent: bool) -> bool {
    let named = usize::try_from(index)
        .ok()
        .and_then(|index| kinds.get(index));
    named.map_or(absent, |kind| {
        kind.contains("attention") && !kind.contains("linear")
    })
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
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("pre_ff_layernorm", d.hidden);
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
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("post_attention_layernorm", d.hidden);
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
    let inner = if c.has("mamba_d_ssm") {
        c.int_opt("mamba_d_ssm")?
    } else {
        Some(1024)
    };
    let mixer = Mamba2 {
        norm: c.bool("mamba_rms_norm", false)?,
        ..mamba2_keys(c, &d, inner)?
    };
    let out_bias = c.bool("projectors_bias", false)?;
    let (attention_bias, mlp_bias) = (c.bool("attention_bias", false)?, c.bool("mlp_bias", false)?);
    let block = Block::new()
        .norm("input_layernorm", d.hidden)
        .norm("pre_ff_layernorm", d.hidden);
    let block = mixers::mamba2(
        block,
        "mamba",
        &Mamba2 {
            bias: false,
            ..mixer
        },
    )
    .when(mixer.bias, |block| {
        let width = mixer
            .inner
            .saturating_mul(2)
            .saturating_add(mixer.groups.saturating_mul(mixer.state).saturating_mul(2))
            .saturating_add(mixer.heads);
        block.param("mamba.in_proj.bias", Role::Mixer, &[width])
    })
    .when(out_bias, |block| {
        block.param("mamba.out_proj.bias", Role::Mixer, &[d.hidden])
    })
    .attention(
        "self_attn",
        &d.attention().biases(attention_bias, attention_bias),
        Window::Full,
    )
    .gated_mlp("feed_forward", d.hidden, d.intermediate, mlp_bias);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    stack.layers(d.layers, &block);
    Ok(stack.finish(Norm::Weight, false))
}

/// nemotron_h: one mixer and one norm a layer, of the kinds `M*-E` of a pattern or of a list.
pub fn nemotron_h(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([131_072, 4096, 21504, 4, 32, 8, 128, 4096], false);
    let mut d = Dimensions::read(c, &default)?;
    let kinds: Vec<char> = match (
        c.strings("layers_block_type|layer_types").as_slice(),
        c.str("hybrid_override_pattern"),
    ) {
        ([], Some(pattern)) => pattern.chars().collect(),
        ([], None) => "ME*-".chars().collect(),
        (list, _) => list.iter().map(|kind| nemotron_letter(kind)).collect(),
    };
    if kinds.len() as u64 > crate::model::config::MAX_LAYERS {
        return Err(c.wrong(
            "hybrid_override_pattern|layers_block_type",
            "names more layers than any model has".to_owned(),
        ));
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
    let (experts, active) = (
        c.int("n_routed_experts", 8)?,
        c.int("num_experts_per_tok", 2)?,
    );
    let width = c.int("moe_intermediate_size", 7688)?;
    let shared = c.int("moe_shared_expert_intermediate_size", 7688)?;
    let latent = c.int_opt("moe_latent_size")?;
    let bias = c.bool("mlp_bias", false)?;
    if kinds.contains(&'E') {
        (d.experts, d.active_experts, d.expert_width) = (experts, active, width);
    }
    // This class never shares the embedding with the head.
    let mut stack = Stack::new(
        c,
        d.clone(),
        &default,
        Request {
            tied: Some(false),
            ..request
        },
    )?;
    for kind in kinds {
        let block = Block::new().norm("norm", d.hidden);
        stack.layer(match kind {
            'M' => mixers::mamba2(block, "mixer", &mixer),
            '*' => block.attention("mixer", &d.attention(), Window::Full),
            '-' => block.plain_mlp(
                "mixer",
                d.hidden,
                d.intermediate,
                ["up_proj", "down_proj"],
                bias,
            ),
            'E' => {
                let inside = latent.unwrap_or(d.hidden);
                block
                    .router("mixer", experts, d.hidden, false)
                    .expert_linear(
                        "mixer.experts.{e}.up_proj",
                        width,
                        inside,
                        false,
                        (experts, active),
                    )
                    .expert_linear(
                        "mixer.experts.{e}.down_proj",
                        inside,
                        width,
                        false,
                        (experts, active),
                    )
                    .linear(
                        "mixer.shared_experts.up_proj",
                        Role::SharedExpert,
                        shared,
                        d.hidden,
                        bias,
                    )
                    .linear(
                        "mixer.shared_experts.down_proj",
                        Role::SharedExpert,
                        d.hidden,
                        shared,
                        bias,
                    )
                    .when(latent.is_some(), |block| {
                        block
                            .linear("mixer.fc1_latent_proj", Role::Mlp, inside, d.hidden, bias)
                            .linear("mixer.fc2_latent_proj", Role::Mlp, d.hidden, inside, bias)
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

/// zamba2: Mamba-2 layers, some of them joined by one of a few shared attention blocks.
pub fn zamba2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 2560, 0, 54, 32, 0, 0, 4096], true);
    let mut d = Dimensions::read(c, &default)?;
    d.intermediate = c.int(
        "intermediate_size|ffn_hidden_size",
        d.hidden.saturating_mul(4),
    )?;
    let inner = d.hidden.saturating_mul(c.int("mamba_expand", 2)?);
    let heads = c.divisor("n_mamba_heads", 8)?;
    let bias = c.bool("add_bias_linear", false)?;
    let mixer = Mamba2 {
        hidden: d.hidden,
        inner,
        heads,
        head_dim: inner / heads,
        groups: c.int("mamba_ngroups", 1)?,
        state: c.int("mamba_d_state", 64)?,
        kernel: c.int("mamba_d_conv", 4)?,
        bias,
        conv_bias: true,
        norm: true,
    };
    let wide = d.hidden.saturating_mul(2);
    d.head_dim = c.int("attention_head_dim", wide / d.heads)?;
    let kinds = c.strings("layers_block_type");
    let hybrid: Vec<u64> = match c.ints("hybrid_layer_ids")? {
        Some(list) if kinds.is_empty() => list,
        _ if kinds.is_empty() => vec![6, 12, 18, 24, 30, 36, 42, 47, 51],
        _ => (0..d.layers)
            .filter(|index| {
                usize::try_from(*index)
                    .ok()
                    .and_then(|index| kinds.get(index))
                    == Some(&"hybrid")
            })
            .collect(),
    };
    let shared_blocks = c.divisor("num_mem_blocks", 1)?.min(hybrid.len() as u64);
    let rank = c.int("adapter_rank", 128)?;
    let attention_adapters = c.bool("use_shared_attention_adapter", false)?;
    let attention = super::blocks::Attention {
        hidden: wide,
        ..d.attention()
    };
    let q_width = d.heads.saturating_mul(d.head_dim);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for block in 0..shared_blocks {
        let one = Block::new()
            .norm("input_layernorm", wide)
            .attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", ""])
            .norm("pre_ff_layernorm", d.hidden)
            .fused_gated_mlp(
                "feed_forward",
                d.hidden,
                d.intermediate,
                ["gate_up_proj", "down_proj"],
                bias,
            );
        stack.layer_at(
            "model.shared_transformer.{i}",
            block,
            output_narrow(one, q_width, d.hidden),
        );
    }
    for index in 0..d.layers {
        let block = mixers::mamba2(
            Block::new().norm("input_layernorm", d.hidden),
            "mamba",
            &mixer,
        );
        if !hybrid.contains(&index) {
            stack.layer(block);
            continue;
        }
        let mut block = block
            .linear("linear", Role::Attention, d.hidden, d.hidden, false)
            .cache(attention.cache(Window::Full))
            .linear("gate_up_proj_adapter.0", Role::Mlp, rank, d.hidden, false)
            .linear(
                "gate_up_proj_adapter.1",
                Role::Mlp,
                d.intermediate.saturating_mul(2),
                rank,
                false,
            );
        if attention_adapters {
            for part in ["q", "k", "v"] {
                block = block
                    .linear(
                        &format!("linear_{part}_adapter.0"),
                        Role::Attention,
                        rank,
                        wide,
                        false,
                    )
                    .linear(
                        &format!("linear_{part}_adapter.1"),
                        Role::Attention,
                        wide,
                        rank,
                        false,
                    );
            }
        }
        stack.layer(block);
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// The output of attention that reads twice the hidden width and writes the hidden width.
fn output_narrow(mut block: Block, input: u64, out: u64) -> Block {
    block.tensors.retain(|tensor| tensor.path != "self_attn.");
    block.linear("self_attn.o_proj", Role::Attention, out, input, false)
}

/// recurrent_gemma: RG-LRU layers, and attention over a window in every third.
pub fn recurrent_gemma(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256_000, 2560, 7680, 26, 10, 0, 0, 8192], true);
    let mut d = Dimensions::read(c, &default)?;
    d.kv_heads = c.int("num_key_value_heads", d.heads)?;
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention().biases(bias, true);
    let window = c.int("attention_window_size|sliding_window", 2048)?;
    let width = c.int("lru_width", d.hidden)?;
    let kernel = c.int("conv1d_width", 4)?;
    let kinds = match c.strings("_block_types|block_types|layers_block_type") {
        list if list.is_empty() => vec!["recurrent", "recurrent", "attention"],
        list => list,
    };
    let head = width / d.heads;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let kind = kinds
            .get(usize::try_from(index).unwrap_or(0) % kinds.len())
            .copied()
            .unwrap_or("recurrent");
        let block = Block::new()
            .norm("temporal_pre_norm", d.hidden)
            .norm("channel_pre_norm", d.hidden);
        let block = if kind.contains("attention") {
            block.attention("temporal_block", &attention, Window::Sliding(window))
        } else {
            block
                .linear(
                    "temporal_block.linear_y",
                    Role::Mixer,
                    width,
                    d.hidden,
                    true,
                )
                .linear(
                    "temporal_block.linear_x",
                    Role::Mixer,
                    width,
                    d.hidden,
                    true,
                )
                .linear(
                    "temporal_block.linear_out",
                    Role::Mixer,
                    d.hidden,
                    width,
                    true,
                )
                .conv(
                    "temporal_block.conv_1d",
                    Role::Mixer,
                    &[width, 1, kernel],
                    true,
                )
                .param(
                    "temporal_block.rg_lru.recurrent_param",
                    Role::Mixer,
                    &[width],
                )
                .param(
                    "temporal_block.rg_lru.input_gate_weight",
                    Role::Mixer,
                    &[d.heads, head, head],
                )
                .param(
                    "temporal_block.rg_lru.input_gate_bias",
                    Role::Mixer,
                    &[d.heads, head],
                )
                .param(
                    "temporal_block.rg_lru.recurrent_gate_weight",
                    Role::Mixer,
                    &[d.heads, head, head],
                )
                .param(
                    "temporal_block.rg_lru.recurrent_gate_bias",
                    Role::Mixer,
                    &[d.heads, head],
                )
                .cache(Cache::State {
                    channels: width,
                    kernel: kernel.saturating_sub(1),
                    recurrent: width,
                })
        };
        // The width in the file counts the gate and the up projection together.
        stack.layer(block.gated_mlp("mlp_block", d.hidden, d.intermediate / 2, true));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// lfm2: short convolutions, and attention in the listed layers.
pub fn lfm2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([65536, 2560, 12288, 32, 32, 8, 0, 128_000], true);
    let mut d = Dimensions::read(c, &default)?;
    d.intermediate = c.int("block_ff_dim|intermediate_size", 12288)?;
    if c.bool("block_auto_adjust_ff_dim", true)? {
        let multiple = c.divisor("block_multiple_of", 256)?;
        let factor = c.float("block_ffn_dim_multiplier", 1.0)?;
        let scaled = (d.intermediate.saturating_mul(2) / 3) as f64 * factor;
        if !(0.0..1e15).contains(&scaled) {
            return Err(c.wrong(
                "block_ffn_dim_multiplier",
                "gives no usable width of the feed-forward layers".to_owned(),
            ));
        }
        d.intermediate = (scaled as u64).div_ceil(multiple).saturating_mul(multiple);
    }
    lfm2_layers(c, request, default, d, None, 0)
}

/// lfm2_moe: dense layers first, then routed experts.
pub fn lfm2_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([65536, 2048, 7168, 32, 32, 8, 0, 128_000], true);
    let mut d = Dimensions::read(c, &default)?;
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int(COUNT, 32)?,
        active: c.int(ACTIVE, 4)?,
        width: c.int("moe_intermediate_size", 1792)?,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    lfm2_layers(
        c,
        request,
        default,
        d,
        Some(moe),
        c.int("num_dense_layers", 2)?,
    )
}

fn lfm2_layers(
    c: Section<'_>,
    request: Request,
    mut default: Defaults,
    d: Dimensions,
    moe: Option<Moe>,
    dense_layers: u64,
) -> Result<Parts> {
    default.tied = c.bool("tie_embedding", default.tied)?;
    let kinds = c.strings("layer_types");
    let listed = c.ints("full_attn_idxs")?;
    let (kernel, bias) = (c.int("conv_L_cache", 3)?, c.bool("conv_bias", false)?);
    let attention = d.attention().qk_norm(QkNorm::PerHead);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let full = match (kinds.is_empty(), &listed) {
            (false, _) => is_attention(&kinds, index, false),
            (true, Some(list)) => list.contains(&index),
            (true, None) => true,
        };
        let block = Block::new()
            .norm("operator_norm", d.hidden)
            .norm("ffn_norm", d.hidden);
        let block = if full {
            block
                .attention_named(
                    "self_attn",
                    &attention,
                    ["q_proj", "k_proj", "v_proj", "out_proj"],
                )
                .cache(attention.cache(Window::Full))
        } else {
            mixers::short_conv(block, "conv", d.hidden, kernel, bias)
        };
        stack.layer(match &moe {
            Some(moe) if index >= dense_layers => block.moe("feed_forward", moe),
            _ => block.gated("feed_forward", Role::Mlp, d.hidden, d.intermediate, false),
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}
