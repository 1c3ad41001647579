//! From a config to an inventory: one file a family, all put together from [`blocks`].
//!
//! A family is found by `model_type`, else by the class that `architectures` names. Families of
//! language models take a [`Section`] and a [`Request`], so that vision-language models can use
//! them for their text part.

mod blip;
pub mod blocks;
mod bloom;
mod classes;
mod codec;
mod cohere;
mod composite;
mod conformer;
mod contrastive;
mod convnets;
mod deberta;
mod decilm;
pub mod decoder;
mod deepseek;
mod deepseek_v4;
pub mod dense;
mod detection;
mod encoder;
mod encoder_far;
mod encoder_kin;
mod encoder_more;
mod encoder_sight;
mod families;
mod forms;
mod gemma;
mod gemma_next;
mod gemma_vision;
mod glm;
mod gpt;
mod gpt_far;
mod griffin;
mod hunyuan;
mod hybrid;
mod idefics;
mod image;
mod kimi_vision;
mod lfm2;
mod llama;
mod llama4;
mod llama_vision;
mod llava;
mod mamba;
mod mimo;
mod mixers;
mod mixtral;
mod olmo;
mod omni;
mod openelm;
mod page_encoders;
mod phi;
mod qwen;
mod qwen_next;
mod recent;
mod recent_hybrid;
mod remote_vlm;
mod seq2seq;
mod seq2seq_far;
mod seq2seq_more;
mod sight_sound;
mod sparse;
mod speech;
mod speecht5;
mod t5_kin;
mod text_more;
mod towers;
mod unknown;
mod vision;
mod vit_more;
pub(crate) mod vlm;
mod vlm_far;
mod vlm_more;
mod vlm_new;
mod zamba2;

use self::decoder::{Parts, Request, Task};
pub use self::families::{TEXT, WHOLE};
use super::config::{Result, Section};

/// Builds a language model from the object that describes it.
pub type TextBuild = fn(Section<'_>, Request) -> Result<Parts>;

/// Builds a model from the whole file.
pub type WholeBuild = fn(&Source<'_>) -> Result<Parts>;

/// The whole file and what it says it is.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file's outermost object.
    pub root: Section<'a>,
    /// First entry of `architectures`; empty when absent.
    pub class: &'a str,
    /// `model_type`, or what the class implies.
    pub model_type: &'a str,
}

impl Source<'_> {
    /// The head that the class puts on the model.
    pub fn task(&self) -> Result<Task> {
        Ok(match self.class {
            class if class.ends_with("ForSequenceClassification") => Task::Sequence(labels(self.root)?),
            class if class.ends_with("ForTokenClassification") => Task::Token(labels(self.root)?),
            class if class.ends_with("ForQuestionAnswering") => Task::Question,
            class
                if class.ends_with("Model")
                    && !class.ends_with("LMHeadModel")
                    && class != "ChatGLMModel"
                    && class != "InternVLChatModel" =>
            {
                Task::Bare
            }
            _ => Task::Causal,
        })
    }
}

/// Number of labels of a classifier: `num_labels`, the entries of `id2label`, else 2.
pub fn labels(c: Section<'_>) -> Result<u64> {
    match c.section("id2label").members().count() {
        0 => c.int("num_labels|_num_labels", 2),
        count => Ok(count as u64),
    }
}

/// The inventory of the model that a file describes.
pub fn build(source: &Source<'_>) -> Result<Parts> {
    let mut parts = match (whole(source), text(source.model_type)) {
        (Some(whole), _) => whole(source)?,
        (None, Some(text)) => text(source.root, Request { task: source.task()?, tied: None, nested: false })?,
        (None, None) => {
            return unknown::estimate(source, Request { task: source.task()?, tied: None, nested: false });
        }
    };
    if parts.inexact.is_none() {
        parts.inexact = classes::doubt(source).or_else(|| uneven(source, &parts)).or_else(|| beside(source));
    }
    Ok(parts)
}

/// Parts that a family of language models does not have: code of its own puts them beside the model.
const TOWERS: &str = "visual|audio|audio_config|vision_config|visual_config|vit_config|vision_tower|mm_vision_tower|mm_audio_tower|\
    img_processor|audio_processor|embd_layer|visual_tokenizer_config|speech_config";

/// A tower in the file of a plain language model.
fn beside(source: &Source<'_>) -> Option<String> {
    let plain = whole(source).is_none();
    let (name, _) = source.root.node(TOWERS).filter(|_| plain)?;
    Some(format!("`{name}` describes a part beside the language model, which is not known for `{}` and not counted", source.model_type))
}

/// Encoders whose width is not a multiple of their heads: some classes refuse them, others cut the heads short.
fn uneven(source: &Source<'_>, parts: &Parts) -> Option<String> {
    let d = &parts.dimensions;
    let own_width = source.root.has("head_dim|d_kv|text_config|kv_channels");
    let listed = WHOLE.iter().any(|(name, _)| *name == source.model_type);
    (listed && !own_width && d.heads > 0 && d.hidden > 0 && !d.hidden.is_multiple_of(d.heads))
        .then(|| format!("{} heads do not divide the width {}", d.heads, d.hidden))
}

/// The builder of a model that is more than one language model.
fn whole(source: &Source<'_>) -> Option<WholeBuild> {
    WHOLE.iter().find(|(name, _)| *name == source.model_type).map(|(_, build)| *build)
}

/// The builder of a family of language models.
pub fn text(model_type: &str) -> Option<TextBuild> {
    TEXT.iter().find(|(name, _)| *name == model_type).map(|(_, build)| *build)
}

/// The family of a file: `model_type` under its common name, else what the class implies.
pub fn model_type(root: Section<'_>, class: &str) -> String {
    match root.str("model_type") {
        Some("phi-msft") => "phi".to_owned(),
        Some(named) if !named.is_empty() => named.to_owned(),
        _ => of_class(class).or_else(|| of_keys(root)).unwrap_or_default().to_owned(),
    }
}

/// The family of a file that names neither itself nor a class, by keys that only one family has.
/// Such a file counts as uncertain.
fn of_keys(root: Section<'_>) -> Option<&'static str> {
    if root.has("position_buckets") && root.has("pos_att_type") {
        return Some("deberta-v2");
    }
    if root.has("pos_att_type") {
        return Some("deberta");
    }
    let encoder = root.has("type_vocab_size") && root.has("attention_probs_dropout_prob");
    let positions = root.int("max_position_embeddings", 0).unwrap_or(0);
    match (encoder, positions % 512 == 2) {
        (true, true) => Some("roberta"),
        (true, false) => Some("bert"),
        _ => None,
    }
}

/// The family that a class belongs to: `Qwen3MoeForCausalLM` is of `qwen3_moe`.
fn of_class(class: &str) -> Option<&'static str> {
    let stem =
        ["For", "LMHeadModel", "Model"].iter().find_map(|end| class.find(end)).map_or(class, |end| class.get(..end).unwrap_or(class));
    let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    let wanted = plain(stem);
    let names = WHOLE.iter().map(|(name, _)| *name).chain(TEXT.iter().map(|(name, _)| *name));
    names.into_iter().find(|name| plain(name) == wanted || plain(name) == format!("{wanted}text"))
}
