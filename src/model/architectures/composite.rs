//! Models put together from two that are known: vision-encoder-decoder (TrOCR, Donut), encoder-decoder,
//! speech-encoder-decoder and vision-text-dual-encoder.

use super::blocks::Block;
use super::decoder::{Dimensions, Parts, Request, Stack, Task};
use super::encoder::NO_HEAD;
use super::{Source, whole};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

/// The class without a head that stands as an encoder, and the width it has by default.
const ENCODERS: &[(&str, &str, u64)] = &[
    ("vit", "ViTModel", 768),
    ("deit", "DeiTModel", 768),
    ("beit", "BeitModel", 768),
    ("swin", "SwinModel", 0),
    ("donut-swin", "DonutSwinModel", 0),
    ("clip_vision_model", "CLIPVisionModel", 768),
    ("bert", "BertModel", 768),
    ("roberta", "RobertaModel", 768),
    ("xlm-roberta", "XLMRobertaModel", 768),
    ("camembert", "CamembertModel", 768),
    ("wav2vec2", "Wav2Vec2Model", 768),
    ("hubert", "HubertModel", 768),
    ("wavlm", "WavLMModel", 768),
];

/// The class with a language-model head that stands as a decoder, and the width it has by default.
const DECODERS: &[(&str, &str, u64)] = &[
    ("trocr", "TrOCRForCausalLM", 1024),
    ("bart", "BartForCausalLM", 1024),
    ("mbart", "MBartForCausalLM", 1024),
    ("bert", "BertLMHeadModel", 768),
    ("roberta", "RobertaForCausalLM", 768),
    ("xlm-roberta", "XLMRobertaForCausalLM", 768),
    ("camembert", "CamembertForCausalLM", 768),
    ("gpt2", "GPT2LMHeadModel", 768),
];

/// One half of a model and its width; nothing where its kind is not known.
fn half(c: Section<'_>, table: &[(&'static str, &'static str, u64)]) -> Result<Option<(Parts, u64)>> {
    let name = c.str("model_type").unwrap_or("");
    let Some((model_type, class, default)) = table.iter().find(|(known, ..)| *known == name).copied() else {
        return Ok(None);
    };
    let source = Source { root: c, class, model_type };
    let parts = match (whole(&source), super::text(model_type)) {
        (Some(build), _) => build(&source)?,
        (None, Some(build)) => build(c, Request { task: Task::Causal, tied: None, nested: false })?,
        (None, None) => return Ok(None),
    };
    let width = match default {
        // The width doubles from stage to stage.
        0 => {
            let stages = c.ints("depths")?.map_or(4, |list| list.len() as u32);
            c.int("embed_dim", 96)?.saturating_mul(1 << stages.saturating_sub(1).min(32))
        }
        _ => c.int("hidden_size|d_model|n_embd", default)?,
    };
    Ok(Some((parts, width)))
}

/// Adds a half under its name; the parts of a text encoder become those of the encoder.
fn add(stack: &mut Stack, mut parts: Parts, prefix: &str, part: Part) {
    for group in &mut parts.inventory.groups {
        group.prefix = super::blocks::join(prefix, &group.prefix);
        if group.part == Part::Text {
            group.part = part;
        }
    }
    stack.append(parts);
}

/// vision-encoder-decoder, encoder-decoder and speech-encoder-decoder: a projection between where the widths differ.
pub fn encoder_decoder(source: &Source<'_>) -> Result<Parts> {
    let (first, second) = (source.root.section("encoder"), source.root.section("decoder"));
    let decoder = half(second, DECODERS)?;
    let dimensions = decoder.as_ref().map_or_else(Dimensions::default, |(parts, _)| parts.dimensions.clone());
    let tied = decoder.as_ref().is_some_and(|(parts, _)| parts.tied);
    let mut stack = Stack::bare(dimensions, NO_HEAD, "", Part::Encoder);
    let encoder = half(first, ENCODERS)?;
    let widths = encoder.as_ref().zip(decoder.as_ref()).map(|((_, from), (_, to))| (*from, *to));
    for (section, built, name, part) in [(first, encoder, "encoder", Part::Encoder), (second, decoder, "decoder", Part::Decoder)] {
        match built {
            Some((parts, _)) => add(&mut stack, parts, name, part),
            None => stack
                .inexact(format!("the {name} `{}` is not known in this place and not counted", section.str("model_type").unwrap_or(""))),
        }
    }
    if let Some((from, to)) = widths.filter(|(from, to)| from != to) {
        let project = second.int_opt("cross_attention_hidden_size")?.is_none();
        stack.restart("", Part::Projector);
        stack.once("", Block::new().when(project, |block| block.linear("enc_to_dec_proj", Role::Projector, to, from, true)));
    }
    if !second.bool("is_decoder", false)? || !second.bool("add_cross_attention", false)? {
        stack.inexact("the decoder does not say that it sees the encoder (`is_decoder`, `add_cross_attention`)");
    }
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}

/// vision-text-dual-encoder: two encoders without heads, a projection each.
pub fn dual_encoder(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let out = c.int("projection_dim", 512)?;
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision);
    let mut head = Block::new().param("logit_scale", Role::Scale, &[1]);
    for (key, name, part) in [("vision_config", "vision", Part::Vision), ("text_config", "text", Part::Text)] {
        let section = c.section(key);
        match half(section, ENCODERS)? {
            Some((parts, width)) => {
                add(&mut stack, parts, &format!("{name}_model"), part);
                let label = if name == "vision" { "visual_projection" } else { "text_projection" };
                head = head.linear(label, Role::Projector, out, width, false);
            }
            None => {
                stack.inexact(format!("the model `{}` is not known in this place and not counted", section.str("model_type").unwrap_or("")))
            }
        }
    }
    stack.once("", head);
    Ok(stack.done())
}
