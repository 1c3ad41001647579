//! Models of several parts: a tower for images or sound, a projector, a language model.
//!
//! Whether the head shares the embedding is read from the outer object, else from the object of the
//! language model, else from the family's default.

use super::blocks::{Attention, Block, Window, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, Task};
use super::encoder::NO_HEAD;
use super::vision::{self, CLIP_L_336, QwenVision, SIGLIP};
use super::{Source, speech};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};
use crate::model::kv_cache::Cache;

/// Objects that describe the language model.
pub const TEXT: &str = "text_config|llm_config|language_config|thinker_config";

/// The language model of a file; a flat file describes it with its outermost keys.
fn language(source: &Source<'_>, default_type: &str) -> Result<(Parts, Stack)> {
    let nested = source.root.section(TEXT);
    let c = if nested.is_empty() {
        source.root
    } else {
        nested
    };
    let named = if nested.is_empty() {
        None
    } else {
        nested.str("model_type")
    };
    let build = named
        .and_then(super::text)
        .or_else(|| super::text(default_type))
        .ok_or_else(|| c.wrong("model_type", "this language model is not known".to_owned()))?;
    let task = match source.task()? {
        Task::Bare => Task::Bare,
        Task::Question => Task::Causal,
        task => task,
    };
    let mut parts = build(
        c,
        Request {
            task,
            tied: source.root.bool_opt("tie_word_embeddings")?,
        },
    )?;
    if nested.is_empty() && source.root.int_opt(super::decoder::keys::HIDDEN)?.is_none() {
        parts.inexact = Some("the file does not describe its language model: the family's smallest defaults are taken".to_owned());
    }
    let tower = source.root.section("vision_config|audio_config");
    let bare = tower.is_empty()
        && !source.root.has("mm_vision_tower|img_processor")
        && source.model_type != "gemma4";
    if bare && parts.inexact.is_none() {
        parts.inexact = Some(
            "the file does not describe its tower: the family's defaults are taken".to_owned(),
        );
    }
    Ok((
        parts,
        Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision),
    ))
}

/// Joins the language model and the towers.
fn join_parts(mut text: Parts, towers: Stack) -> Parts {
    let towers = towers.done();
    text.inventory.groups.extend(towers.inventory.groups);
    text.notes.extend(towers.notes);
    if text.inexact.is_none() {
        text.inexact = towers.inexact;
    }
    text
}

/// A tower by the `model_type` of its object; gives its width.
fn tower(stack: &mut Stack, c: Section<'_>, default: &str) -> Result<u64> {
    let prefix = "vision_tower";
    Ok(match c.str("model_type").unwrap_or(default) {
        "siglip_vision_model" | "siglip" | "siglip2_vision_model" | "siglip2" => {
            vision::siglip(stack, prefix, c, SIGLIP, true)?.hidden
        }
        "pixtral" => vision::pixtral(stack, prefix, c)?.hidden,
        "internvl_vision" => vision::intern(stack, prefix, c, false)?.hidden,
        "intern_vit_6b" => vision::intern(stack, prefix, c, true)?.hidden,
        "clip_vision_model" | "clip" => vision::clip(stack, prefix, c, vision::CLIP)?.hidden,
        // A file that does not describe the tower means the large one; keys left out are the small one's.
        "clip_l_336" => {
            vision::clip(
                stack,
                prefix,
                c,
                if c.is_empty() {
                    CLIP_L_336
                } else {
                    vision::CLIP
                },
            )?
            .hidden
        }
        other => {
            stack.inexact(format!(
                "the vision tower `{other}` is not known and not counted"
            ));
            c.int("hidden_size", 1024)?
        }
    })
}

fn projector(stack: &mut Stack, block: Block) {
    stack.restart("multi_modal_projector", Part::Projector);
    stack.once("multi_modal_projector", block);
}

/// Two linear layers from a tower to the language model.
fn two_linears(input: u64, middle: u64, out: u64, bias: bool) -> Block {
    Block::new()
        .linear("linear_1", Role::Projector, middle, input, bias)
        .linear("linear_2", Role::Projector, out, middle, bias)
}

/// llava, llava_next, llava_next_video, llava_onevision, vipllava; and the remote LLaVA files.
pub fn llava(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    if c.section(TEXT).is_empty() && c.has("mm_vision_tower|mm_projector_type") {
        return remote_llava(source);
    }
    let onevision = source.model_type == "llava_onevision";
    let (text, mut stack) = language(source, if onevision { "qwen2" } else { "llama" })?;
    let hidden = text.dimensions.hidden;
    let width = tower(
        &mut stack,
        c.section("vision_config"),
        if onevision {
            "siglip_vision_model"
        } else {
            "clip_l_336"
        },
    )?;
    let features = match c.node("vision_feature_layer").map(|(_, node)| &node.value) {
        Some(crate::model::json::Value::Array(list)) => (list.len() as u64).max(1),
        None if source.model_type == "vipllava" => 5,
        _ => 1,
    };
    let input = mul(width, features);
    let bias = c.bool("multimodal_projector_bias", true)?;
    projector(
        &mut stack,
        two_linears(input, hidden, hidden, bias).when(source.model_type == "vipllava", |block| {
            block.layer_norm("projector_layernorm", input)
        }),
    );
    if source.model_type.starts_with("llava_next") || onevision {
        stack.once(
            "model",
            Block::new().param("image_newline", Role::Scale, &[hidden]),
        );
    }
    Ok(join_parts(text, stack))
}

/// LLaVA as first published: the tower is named, not described.
fn remote_llava(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let family = if source.class.contains("Mistral") {
        "mistral"
    } else if source.class.contains("Qwen") {
        "qwen2"
    } else if source.class.contains("Mpt") {
        "mpt"
    } else {
        "llama"
    };
    let (text, mut stack) = language(source, family)?;
    let hidden = text.dimensions.hidden;
    let tower = c.str("mm_vision_tower").unwrap_or("");
    let known = match tower.rsplit('/').next().unwrap_or(tower) {
        "clip-vit-large-patch14-336" => Some(CLIP_L_336),
        "clip-vit-large-patch14" => Some([1024, 4096, 24, 16, 224, 14]),
        _ => None,
    };
    match known {
        Some(sizes) => {
            vision::clip(&mut stack, "model.vision_tower", Section::empty(), sizes)?;
        }
        None => stack.inexact(format!(
            "the vision tower `{tower}` is named only, and not counted"
        )),
    }
    let width = c.int("mm_hidden_size", 1024)?;
    let kind = c.str("mm_projector_type").unwrap_or("linear");
    let depth = match kind
        .strip_prefix("mlp")
        .and_then(|rest| rest.split('x').next())
        .and_then(|depth| depth.parse::<u64>().ok())
    {
        Some(depth) if depth <= 16 => depth,
        _ if kind == "linear" => 1,
        _ => {
            stack.inexact(format!(
                "the projector `{kind}` is not known and not counted"
            ));
            0
        }
    };
    let layers = (0..depth).fold(Block::new(), |block, index| {
        block.linear(
            &format!("{}", mul(index, 2)),
            Role::Projector,
            hidden,
            if index == 0 { width } else { hidden },
            true,
        )
    });
    projector(&mut stack, layers);
    Ok(join_parts(text, stack))
}

/// SigLIP with the class's defaults for keys left out, or without its head where nothing is said.
fn described_siglip(stack: &mut Stack, c: Section<'_>, absent: [u64; 6]) -> Result<u64> {
    let sizes = if c.is_empty() { absent } else { SIGLIP };
    Ok(vision::siglip(stack, "vision_tower", c, sizes, !c.is_empty())?.hidden)
}

/// paligemma: SigLIP without its head, one linear layer.
pub fn paligemma(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "gemma")?;
    let c = source.root.section("vision_config");
    let width = described_siglip(&mut stack, c, [1152, 4304, 27, 16, 224, 14])?;
    let out = source
        .root
        .int("projection_dim", c.int("projection_dim", 2048)?)?;
    projector(
        &mut stack,
        Block::new().linear("linear", Role::Projector, out, width, true),
    );
    Ok(join_parts(text, stack))
}

/// gemma3: SigLIP without its head, a norm and a matrix.
pub fn gemma3(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "gemma3_text")?;
    let c = source.root.section("vision_config");
    let hidden = text.dimensions.hidden;
    let width = vision::siglip(&mut stack, "vision_tower", c, SIGLIP, true)?.hidden;
    projector(
        &mut stack,
        Block::new().norm("mm_soft_emb_norm", width).param(
            "mm_input_projection_weight",
            Role::Projector,
            &[width, hidden],
        ),
    );
    Ok(join_parts(text, stack))
}

/// gemma3n: a MobileNet tower of fixed size and a conformer for sound.
pub fn gemma3n(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "gemma3n_text")?;
    let hidden = text.dimensions.hidden;
    let (image, sound) = (
        source.root.section("vision_config"),
        source.root.section("audio_config"),
    );
    match image.str("architecture").unwrap_or("mobilenetv5_300m_enc") {
        // A convolutional network found by search; its size is a fact of the published network.
        "mobilenetv5_300m_enc" => stack.once(
            "vision_tower",
            Block::new().param("timm_model", Role::Conv, &[294_126_912]),
        ),
        other => stack.inexact(format!(
            "the vision tower `{other}` is not known and not counted"
        )),
    }
    let width = super::conformer::gemma3n(&mut stack, sound)?;
    for (name, c, width, rows) in [
        ("embed_vision", image, image.int("hidden_size", 2048)?, 128),
        ("embed_audio", sound, width, 128),
    ] {
        let block = Block::new()
            .embedding(
                "embedding",
                Role::Position,
                c.int("vocab_size", rows)?,
                width,
            )
            .norm("hard_embedding_norm", width)
            .norm("soft_embedding_norm", width)
            .linear(
                "embedding_projection",
                Role::Projector,
                hidden,
                width,
                false,
            );
        stack.restart(name, Part::Projector);
        stack.once(name, block);
    }
    Ok(join_parts(text, stack))
}

/// gemma4: towers for images and sound where the file describes them.
pub fn gemma4(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "gemma4_text")?;
    let hidden = text.dimensions.hidden;
    let (image, sound) = (
        source.root.section("vision_config"),
        source.root.section("audio_config"),
    );
    if !image.is_empty() {
        let width = vision::gemma4(&mut stack, "vision_tower", image)?.hidden;
        stack.restart("model.embed_vision", Part::Projector);
        stack.once(
            "model.embed_vision",
            Block::new().linear(
                "embedding_projection",
                Role::Projector,
                hidden,
                width,
                false,
            ),
        );
    }
    if !sound.is_empty() {
        let width = super::conformer::gemma4(&mut stack, sound)?;
        stack.restart("model.embed_audio", Part::Projector);
        stack.once(
            "model.embed_audio",
            Block::new().linear(
                "embedding_projection",
                Role::Projector,
                hidden,
                width,
                false,
            ),
        );
    }
    Ok(join_parts(text, stack))
}

/// mistral3: Pixtral, patches merged four to one.
pub fn mistral3(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "mistral")?;
    let hidden = text.dimensions.hidden;
    let width = tower(&mut stack, c.section("vision_config"), "pixtral")?;
    let merge = c.int("spatial_merge_size", 2)?;
    let bias = c.bool("multimodal_projector_bias", false)?;
    projector(
        &mut stack,
        two_linears(width, hidden, hidden, bias)
            .norm("norm", width)
            .linear(
                "patch_merger.merging_layer",
                Role::Projector,
                width,
                mul(width, mul(merge, merge)),
                false,
            ),
    );
    Ok(join_parts(text, stack))
}

/// idefics3 and smolvlm: SigLIP without its head, pixels shuffled into channels.
pub fn idefics3(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "llama")?;
    let hidden = text.dimensions.hidden;
    let width = vision::siglip(
        &mut stack,
        "vision_model",
        source.root.section("vision_config"),
        [1152, 3072, 12, 16, 224, 32],
        false,
    )?
    .hidden;
    let scale = source.root.int("scale_factor", 2)?;
    projector(
        &mut stack,
        Block::new().linear(
            "modality_projection.proj",
            Role::Projector,
            hidden,
            mul(width, mul(scale, scale)),
            false,
        ),
    );
    Ok(join_parts(text, stack))
}

/// idefics2: SigLIP without its head, a gated projection and a perceiver.
pub fn idefics2(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "mistral")?;
    let (hidden, inner) = (text.dimensions.hidden, text.dimensions.intermediate);
    let width = vision::siglip(
        &mut stack,
        "vision_model",
        source.root.section("vision_config"),
        [768, 3072, 12, 12, 224, 32],
        false,
    )?
    .hidden;
    let c = source.root.section("perceiver_config");
    let size = c.int("hidden_size", 4096)?;
    let attention = Attention::new(
        size,
        c.int("resampler_n_heads", 16)?,
        c.int("num_key_value_heads", 4)?,
        c.int("resampler_head_dim", 96)?,
    );
    let edge = Block::new()
        .linear(
            "modality_projection.gate_proj",
            Role::Projector,
            inner,
            width,
            false,
        )
        .linear(
            "modality_projection.up_proj",
            Role::Projector,
            inner,
            width,
            false,
        )
        .linear(
            "modality_projection.down_proj",
            Role::Projector,
            hidden,
            inner,
            false,
        )
        .param(
            "perceiver_resampler.latents",
            Role::Projector,
            &[c.int("resampler_n_latents", 64)?, size],
        )
        .norm("perceiver_resampler.norm", size);
    stack.restart("connector.perceiver_resampler.layers.{i}", Part::Projector);
    stack.once("connector", edge);
    let layer = Block::new()
        .norm("input_latents_norm", size)
        .norm("input_context_norm", size)
        .norm("post_attention_layernorm", size)
        .attention_named(
            "self_attn",
            &attention,
            ["q_proj", "k_proj", "v_proj", "o_proj"],
        )
        .gated("mlp", Role::Projector, size, mul(size, 4), false);
    stack.layers(c.layers("resampler_depth", 3)?, &layer);
    Ok(join_parts(text, stack))
}

/// internvl (transformers) and internvl_chat (remote code): InternViT, a norm and two linear layers.
pub fn internvl(source: &Source<'_>) -> Result<Parts> {
    let remote = source.model_type == "internvl_chat";
    let (text, mut stack) = language(source, if remote { "internlm2" } else { "qwen2" })?;
    let hidden = text.dimensions.hidden;
    let width = tower(
        &mut stack,
        source.root.section("vision_config"),
        if remote {
            "intern_vit_6b"
        } else {
            "internvl_vision"
        },
    )?;
    let ratio = source.root.float("downsample_ratio", 0.5)?;
    if !(0.01..=1.0).contains(&ratio) {
        return Err(source
            .root
            .wrong("downsample_ratio", "must lie between 0 and 1".to_owned()));
    }
    let side = (1.0 / ratio) as u64;
    let input = mul(width, mul(side, side));
    projector(
        &mut stack,
        two_linears(input, hidden, hidden, true).layer_norm("layer_norm", input),
    );
    Ok(join_parts(text, stack))
}

/// lfm2_vl: SigLIP 2, two linear layers.
pub fn lfm2_vl(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "lfm2")?;
    let hidden = text.dimensions.hidden;
    let width = tower(
        &mut stack,
        c.section("vision_config"),
        "siglip2_vision_model",
    )?;
    let factor = c.int("downsample_factor", 2)?;
    let (input, middle, bias) = (
        mul(width, mul(factor, factor)),
        c.int("projector_hidden_size", 2560)?,
        c.bool("projector_bias", true)?,
    );
    projector(
        &mut stack,
        two_linears(input, middle, hidden, bias)
            .when(c.bool("projector_use_layernorm", true)?, |block| {
                block.layer_norm("layer_norm", input)
            }),
    );
    Ok(join_parts(text, stack))
}

/// aya_vision and cohere2_vision: SigLIP, a gated pair of linear layers.
pub fn cohere_vision(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let aya = source.model_type == "aya_vision";
    let (text, mut stack) = language(source, "cohere2")?;
    let hidden = text.dimensions.hidden;
    let vision = c.section("vision_config");
    let default = [
        1152,
        4304,
        if aya { 26 } else { 27 },
        if aya { 14 } else { 16 },
        384,
        14,
    ];
    let width = described_siglip(&mut stack, vision, default)?;
    let factor = c.int("downsample_factor", 2)?;
    let input = mul(width, mul(factor, factor));
    let middle = c.int(
        "alignment_intermediate_size",
        if aya { hidden } else { 36864 },
    )?;
    let block = Block::new()
        .linear("linear_1", Role::Projector, middle, input, true)
        .linear("linear_2", Role::Projector, hidden, middle / 2, true);
    projector(
        &mut stack,
        block.when(aya, |block| block.layer_norm("layernorm", input)),
    );
    Ok(join_parts(text, stack))
}

/// qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_vl_moe, qwen3_5, qwen3_5_moe.
pub fn qwen_vl(source: &Source<'_>) -> Result<Parts> {
    let (family, generation) = match source.model_type {
        "qwen2_vl" => ("qwen2_vl_text", QwenVision::V2),
        "qwen2_5_vl" => ("qwen2_vl_text", QwenVision::V25),
        "qwen3_vl" => ("qwen3", QwenVision::V3),
        "qwen3_vl_moe" => ("qwen3_vl_moe_text", QwenVision::V3),
        "qwen3_5_moe" => ("qwen3_5_moe_text", QwenVision::V3),
        _ => ("qwen3_5_text", QwenVision::V3),
    };
    let (text, mut stack) = language(source, family)?;
    // The causal class loads the language model only.
    if source.class.ends_with("ForCausalLM") {
        return Ok(text);
    }
    let deep = if source.model_type.starts_with("qwen3_vl") {
        3
    } else {
        0
    };
    vision::qwen(
        &mut stack,
        "model.visual",
        source.root.section("vision_config"),
        generation,
        deep,
    )?;
    Ok(join_parts(text, stack))
}

/// glm4v and glm4v_moe.
pub fn glm_v(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(
        source,
        if source.model_type == "glm4v_moe" {
            "glm4v_moe_text"
        } else {
            "glm4v_text"
        },
    )?;
    vision::glm(
        &mut stack,
        "model.visual",
        source.root.section("vision_config"),
    )?;
    Ok(join_parts(text, stack))
}

/// llama4.
pub fn llama4(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "llama4_text")?;
    if source.class.ends_with("ForCausalLM") {
        return Ok(text);
    }
    let c = source.root.section("vision_config");
    let hidden = text.dimensions.hidden;
    vision::llama4(&mut stack, "vision_model", c)?;
    let out = c.int("vision_output_dim", 7680)?;
    projector(
        &mut stack,
        Block::new().linear("linear_1", Role::Projector, hidden, out, false),
    );
    Ok(join_parts(text, stack))
}

/// mllama: layers with cross-attention between those of the language model.
pub fn mllama(source: &Source<'_>) -> Result<Parts> {
    let root = source.root;
    let nested = root.section(TEXT);
    let c = if nested.is_empty() { root } else { nested };
    let request = Request {
        task: source.task()?,
        tied: root.bool_opt("tie_word_embeddings")?,
    };
    let text = mllama_text(c, request)?;
    if source.class.ends_with("ForCausalLM") {
        return Ok(text);
    }
    let hidden = text.dimensions.hidden;
    let vision = root.section("vision_config");
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision);
    vision::mllama(&mut stack, "vision_model", vision)?;
    projector(
        &mut stack,
        Block::new().linear(
            "linear",
            Role::Projector,
            hidden,
            vision.int("vision_output_dim", 7680)?,
            true,
        ),
    );
    Ok(join_parts(text, stack))
}

/// The language model of mllama; its embedding has eight more rows than the head.
pub fn mllama_text(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128_256, 4096, 14336, 40, 32, 8, 0, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    let crossing = c
        .ints("cross_attention_layers")?
        .unwrap_or_else(|| vec![3, 8, 13, 18, 23, 28, 33, 38]);
    let embedding = Block::new().embedding(
        "embed_tokens",
        Role::Embedding,
        d.vocab.saturating_add(8),
        d.hidden,
    );
    let mut stack = Stack::with_embedding(c, d.clone(), default.tied, request, embedding)?;
    let attention = d.attention();
    let norms = || {
        Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("post_attention_layernorm", d.hidden)
            .gated_mlp("mlp", d.hidden, d.intermediate, false)
    };
    for index in 0..d.layers {
        stack.layer(if crossing.contains(&index) {
            norms()
                .attention_named(
                    "cross_attn",
                    &attention,
                    ["q_proj", "k_proj", "v_proj", "o_proj"],
                )
                .norm("cross_attn.q_norm", d.head_dim)
                .norm("cross_attn.k_norm", d.head_dim)
                .param("cross_attn_attn_gate", Role::Scale, &[1])
                .param("cross_attn_mlp_gate", Role::Scale, &[1])
                .cache(Cache::Cross {
                    width: mul(mul(2, d.kv_heads), d.head_dim),
                })
        } else {
            norms().attention("self_attn", &attention, Window::Full)
        });
    }
    Ok(stack.finish(super::blocks::Norm::Weight, false))
}

/// phi3_v: CLIP ViT-L/14-336 and a two-layer projector, named and not described by the file.
pub fn phi3_v(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "phi3")?;
    let hidden = text.dimensions.hidden;
    let image = source.root.section("img_processor");
    if image.str("name").unwrap_or("clip_vision_model") != "clip_vision_model" {
        stack.inexact("the vision tower is not the one that this family uses, and not counted");
    }
    vision::clip(
        &mut stack,
        "model.vision_embed_tokens.img_processor",
        Section::empty(),
        CLIP_L_336,
    )?;
    projector(
        &mut stack,
        super::phi::phi3_v_projector(hidden, image.int("image_dim_out", 1024)?),
    );
    Ok(join_parts(text, stack))
}

/// qwen2_audio and voxtral: the encoder of whisper and a projector.
pub fn whisper_audio(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let voxtral = source.model_type == "voxtral";
    let (text, mut stack) = language(source, if voxtral { "llama" } else { "qwen2" })?;
    let hidden = text.dimensions.hidden;
    let audio = c.section("audio_config");
    let width = speech::whisper_encoder(&mut stack, "audio_tower", audio, [1280, 32, 5120, 128])?;
    projector(
        &mut stack,
        if voxtral {
            two_linears(audio.int("intermediate_size", 5120)?, hidden, hidden, false)
        } else {
            Block::new().linear("linear", Role::Projector, hidden, width, true)
        },
    );
    Ok(join_parts(text, stack))
}
