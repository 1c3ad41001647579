//! From a config to an inventory: one file a family, all put together from [`blocks`].
//!
//! A family is found by `model_type`, else by the class that `architectures` names. Families of
//! language models take a [`Section`] and a [`Request`], so that vision-language models can use
//! them for their text part.

pub mod blocks;
pub mod decoder;
pub mod dense;
mod bloom;
mod cohere;
mod gemma;
mod glm;
mod gpt;
mod llama;
mod olmo;
mod phi;
mod qwen;
mod unknown;

use self::decoder::{Parts, Request, Task};
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
            class if class.ends_with("ForSequenceClassification") || class.ends_with("ForRewardModel") => Task::Sequence(labels(self.root)?),
            class if class.ends_with("ForTokenClassification") => Task::Token(labels(self.root)?),
            class if class.ends_with("ForQuestionAnswering") => Task::Question,
            class if class.ends_with("Model") && !class.ends_with("LMHeadModel") && class != "ChatGLMModel" && class != "InternVLChatModel" => Task::Bare,
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
    if let Some(whole) = whole(source) {
        return whole(source);
    }
    let request = Request { task: source.task()?, tied: None };
    match text(source.model_type) {
        Some(text) => text(source.root, request),
        None => unknown::estimate(source, request),
    }
}

/// The builder of a model that is more than one language model.
fn whole(_source: &Source<'_>) -> Option<WholeBuild> {
    None
}

/// The builder of a family of language models.
pub fn text(model_type: &str) -> Option<TextBuild> {
    Some(match model_type {
        "llama" | "aquila" | "yi" | "Yi" | "xverse" | "sparsellama" | "deepseek_llm" | "code_llama" | "open_llama" | "mimo_llama" => llama::llama,
        "granite" => llama::granite,
        "helium" => llama::helium,
        "internlm" => llama::internlm,
        "internlm2" => llama::internlm2,
        "internlm3" => llama::internlm3,
        "baichuan" => llama::baichuan,
        "orion" => llama::orion,
        "seed_oss" => llama::seed_oss,
        "smollm3" => llama::smollm3,
        "mistral" => llama::mistral,
        "ministral" => llama::ministral,
        "ministral3" => llama::ministral3,
        "cwm" => llama::cwm,
        "arcee" => llama::arcee,
        "jais2" => llama::jais2,
        "exaone" => llama::exaone,
        "exaone4" => llama::exaone4,
        "hunyuan_v1_dense" => llama::hunyuan_dense,
        "ernie4_5" => llama::ernie4_5,
        "bitnet" => llama::bitnet,
        "stablelm" | "stablelm_epoch" => llama::stablelm,
        "nemotron" => llama::nemotron,
        "starcoder2" => llama::starcoder2,
        "qwen" => qwen::qwen,
        "qwen2" => qwen::qwen2,
        "qwen3" => qwen::qwen3,
        "qwen2_moe" => qwen::qwen2_moe,
        "qwen3_moe" => qwen::qwen3_moe,
        "gemma" => gemma::gemma,
        "gemma2" => gemma::gemma2,
        "gemma3_text" => gemma::gemma3,
        "vaultgemma" => gemma::vaultgemma,
        "phi" => phi::phi,
        "phi3" => phi::phi3,
        "phi3small" => phi::phi3small,
        "phimoe" => phi::phimoe,
        "cohere" => cohere::cohere,
        "cohere2" => cohere::cohere2,
        "olmo" => olmo::olmo,
        "olmo2" => olmo::olmo2,
        "olmo3" => olmo::olmo3,
        "olmoe" => olmo::olmoe,
        "flex_olmo" => olmo::flex_olmo,
        "chatglm" => glm::chatglm,
        "glm" => glm::glm,
        "glm4" => glm::glm4,
        "glm4_moe" => glm::glm4_moe,
        "gpt2" | "gpt-sw3" => gpt::gpt2,
        "gpt_bigcode" => gpt::gpt_bigcode,
        "gptj" => gpt::gptj,
        "codegen" => gpt::codegen,
        "gpt_neo" => gpt::gpt_neo,
        "gpt_neox" => gpt::gpt_neox,
        "gpt_neox_japanese" => gpt::gpt_neox_japanese,
        "openai-gpt" => gpt::openai_gpt,
        "ctrl" => gpt::ctrl,
        "xglm" => gpt::xglm,
        "biogpt" => gpt::biogpt,
        "bloom" => bloom::bloom,
        "falcon" | "RefinedWeb" | "RefinedWebModel" => bloom::falcon,
        "mpt" => bloom::mpt,
        "opt" => bloom::opt,
        "persimmon" => bloom::persimmon,
        _ => return None,
    })
}

/// The family of a file: `model_type` under its common name, else what the class implies.
pub fn model_type(root: Section<'_>, class: &str) -> String {
    let named = root.str("model_type").unwrap_or("");
    named.to_owned().replace("phi-msft", "phi") + if named.is_empty() { class } else { "" }
}
