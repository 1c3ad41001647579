//! From a config to an inventory: one file a family, all put together from [`blocks`].
//!
//! A family is found by `model_type`, else by the class that `architectures` names. Families of
//! language models take a [`Section`] and a [`Request`], so that vision-language models can use
//! them for their text part.

mod blip;
pub mod blocks;
mod bloom;
mod classes;
mod cohere;
mod conformer;
mod convnets;
mod deberta;
mod decilm;
pub mod decoder;
mod deepseek;
mod deepseek_v4;
pub mod dense;
mod encoder;
mod encoder_kin;
mod encoder_more;
mod gemma;
mod gemma_next;
mod gemma_vision;
mod glm;
mod gpt;
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
mod phi;
mod qwen;
mod qwen_next;
mod recent;
mod recent_hybrid;
mod seq2seq;
mod seq2seq_more;
mod sparse;
mod speech;
mod text_more;
mod towers;
mod unknown;
mod vision;
mod vit_more;
pub(crate) mod vlm;
mod vlm_more;
mod zamba2;

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
        parts.inexact = classes::doubt(source).or_else(|| uneven(source, &parts));
    }
    Ok(parts)
}

/// Encoders whose width is not a multiple of their heads: some classes refuse them, others cut the heads short.
fn uneven(source: &Source<'_>, parts: &Parts) -> Option<String> {
    let d = &parts.dimensions;
    let own_width = source.root.has("head_dim|d_kv|text_config|kv_channels");
    let listed = WHOLE.iter().any(|(name, _)| *name == source.model_type);
    (listed && !own_width && d.heads > 0 && d.hidden > 0 && !d.hidden.is_multiple_of(d.heads))
        .then(|| format!("{} heads do not divide the width {}", d.heads, d.hidden))
}

/// Families that are more than one language model, by `model_type`.
pub const WHOLE: &[(&str, WholeBuild)] = &[
    ("bert", encoder::bert),
    ("megatron-bert", encoder::bert),
    ("ernie", encoder::bert),
    ("roberta", encoder::roberta),
    ("xlm-roberta", encoder::roberta),
    ("camembert", encoder::roberta),
    ("data2vec-text", encoder::roberta),
    ("electra", encoder::electra),
    ("albert", encoder::albert),
    ("distilbert", encoder::distilbert),
    ("mpnet", encoder::mpnet),
    ("dpr", encoder::dpr),
    ("deberta", deberta::deberta),
    ("deberta-v2", deberta::deberta_v2),
    ("modernbert", encoder_more::modernbert),
    ("longformer", encoder_more::longformer),
    ("big_bird", encoder_more::big_bird),
    ("layoutlm", encoder_more::layoutlm),
    ("nomic_bert", encoder_more::nomic),
    ("eurobert", encoder_more::eurobert),
    ("roberta-prelayernorm", encoder_more::roberta_prelayernorm),
    ("xlm-roberta-xl", encoder_more::xlm_roberta_xl),
    ("xlnet", encoder_more::xlnet),
    ("rembert", encoder_kin::rembert),
    ("roformer", encoder_kin::roformer),
    ("esm", encoder_kin::esm),
    ("bert-generation", encoder_kin::bert_generation),
    ("squeezebert", encoder_kin::squeezebert),
    ("mobilebert", encoder_kin::mobilebert),
    ("fnet", encoder_kin::fnet),
    ("xlm", encoder_kin::xlm),
    ("flaubert", encoder_kin::xlm),
    ("lilt", encoder_kin::lilt),
    ("tapas", encoder_kin::tapas),
    ("canine", encoder_kin::canine),
    ("layoutlmv3", encoder_kin::layoutlmv3),
    ("splinter", encoder_kin::splinter),
    ("gte", encoder_kin::rotary),
    ("jina_embeddings_v3", encoder_kin::rotary),
    ("swin", convnets::swin),
    ("convnext", convnets::convnext),
    ("resnet", convnets::resnet),
    ("t5", seq2seq::t5),
    ("mt5", seq2seq::t5),
    ("umt5", seq2seq::t5),
    ("bart", seq2seq::bart),
    ("mbart", seq2seq::bart),
    ("plbart", seq2seq::bart),
    ("pegasus", seq2seq::bart),
    ("marian", seq2seq::bart),
    ("m2m_100", seq2seq::bart),
    ("blenderbot", seq2seq::bart),
    ("blenderbot-small", seq2seq::bart),
    ("led", seq2seq_more::led),
    ("bigbird_pegasus", seq2seq_more::pegasus_long),
    ("pegasus_x", seq2seq_more::pegasus_long),
    ("nllb-moe", seq2seq_more::nllb_moe),
    ("longt5", seq2seq_more::t5_kin),
    ("switch_transformers", seq2seq_more::t5_kin),
    ("prophetnet", seq2seq_more::prophetnet),
    ("t5gemma", seq2seq_more::t5gemma),
    ("trocr", seq2seq_more::trocr),
    ("whisper", speech::whisper),
    ("wav2vec2", speech::wav2vec2),
    ("hubert", speech::wav2vec2),
    ("wavlm", speech::wav2vec2),
    ("vit", image::vit),
    ("deit", image::vit),
    ("vit_mae", vit_more::vit_mae),
    ("dinov3_vit", vit_more::dinov3),
    ("dinov2", image::dinov2),
    ("dinov2_with_registers", image::dinov2),
    ("clip", image::clip),
    ("clip_vision_model", image::clip_vision),
    ("clip_text_model", image::clip_text),
    ("siglip", image::siglip),
    ("siglip2", image::siglip),
    ("siglip_vision_model", image::siglip_vision),
    ("siglip2_vision_model", image::siglip_vision),
    ("kimi_k25", kimi_vision::kimi),
    ("kimi_vl", kimi_vision::kimi),
    ("blip-2", blip::blip2),
    ("video_llava", llava::video_llava),
    ("deepseek_vl", llava::deepseek_vl),
    ("llava", llava::llava),
    ("llava_next", llava::llava),
    ("llava_next_video", llava::llava),
    ("llava_onevision", llava::llava),
    ("vipllava", llava::llava),
    ("llava_mistral", llava::llava),
    ("llava_qwen2", llava::llava),
    ("llava_qwen", llava::llava),
    ("llava_llama", llava::llava),
    ("paligemma", gemma_vision::paligemma),
    ("gemma3", gemma_vision::gemma3),
    ("gemma3n", gemma_vision::gemma3n),
    ("gemma4", gemma_vision::gemma4),
    ("mistral3", vlm::mistral3),
    ("idefics2", idefics::idefics2),
    ("idefics3", idefics::idefics3),
    ("smolvlm", idefics::idefics3),
    ("internvl", vlm::internvl),
    ("internvl_chat", vlm::internvl),
    ("lfm2_vl", vlm::lfm2_vl),
    ("aya_vision", vlm::cohere_vision),
    ("cohere2_vision", vlm::cohere_vision),
    ("qwen2_vl", vlm::qwen_vl),
    ("qwen2_5_vl", vlm::qwen_vl),
    ("qwen3_vl", vlm::qwen_vl),
    ("qwen3_vl_moe", vlm::qwen_vl),
    ("qwen3_5", vlm::qwen_vl),
    ("qwen3_5_moe", vlm::qwen_vl),
    ("glm4v", vlm::glm_v),
    ("glm4v_moe", vlm::glm_v),
    ("glm46v", vlm::glm_v),
    ("glm_ocr", vlm_more::glm_ocr),
    ("qwen2_5_omni", omni::qwen25),
    ("qwen2_5_omni_thinker", omni::qwen25),
    ("qwen3_omni_moe", omni::qwen3),
    ("qwen3_omni_moe_thinker", omni::qwen3),
    ("qwen3_asr", omni::asr3),
    ("granite_speech", omni::granite),
    ("aria", vlm_more::aria),
    ("ernie4_5_vl_moe", vlm_more::ernie_vl),
    ("ernie4_5_moe_vl", vlm_more::ernie_vl),
    ("paddleocr_vl", vlm_more::paddle_ocr),
    ("lighton_ocr", vlm_more::lighton_ocr),
    ("got_ocr2", vlm_more::got_ocr),
    ("fuyu", vlm_more::fuyu),
    ("ovis2", vlm_more::ovis2),
    ("minicpmv4_6", vlm_more::minicpmv46),
    ("minicpmv", vlm_more::minicpmv),
    ("kosmos-2", vlm_more::kosmos2),
    ("llama4", llama_vision::llama4),
    ("mllama", llama_vision::mllama),
    ("phi3_v", llava::phi3_v),
    ("qwen2_audio", vlm::whisper_audio),
    ("voxtral", vlm::whisper_audio),
];

/// The builder of a model that is more than one language model.
fn whole(source: &Source<'_>) -> Option<WholeBuild> {
    WHOLE.iter().find(|(name, _)| *name == source.model_type).map(|(_, build)| *build)
}

/// Families of language models by `model_type`.
pub const TEXT: &[(&str, TextBuild)] = &[
    ("llama", llama::llama),
    ("aquila", llama::llama),
    ("yi", llama::llama),
    ("Yi", llama::llama),
    ("xverse", llama::llama),
    ("sparsellama", llama::llama),
    ("deepseek_llm", llama::llama),
    ("code_llama", llama::llama),
    ("open_llama", llama::llama),
    ("mimo_llama", llama::llama),
    ("granite", llama::granite),
    ("helium", llama::helium),
    ("internlm", llama::internlm),
    ("internlm2", llama::internlm2),
    ("internlm3", llama::internlm3),
    ("baichuan", llama::baichuan),
    ("orion", llama::orion),
    ("seed_oss", llama::seed_oss),
    ("smollm3", llama::smollm3),
    ("mistral", llama::mistral),
    ("ministral", llama::ministral),
    ("ministral3", llama::ministral3),
    ("cwm", llama::cwm),
    ("arcee", llama::arcee),
    ("jais2", llama::jais2),
    ("exaone", llama::exaone),
    ("exaone4", llama::exaone4),
    ("hunyuan_v1_dense", llama::hunyuan_dense),
    ("ernie4_5", llama::ernie4_5),
    ("bitnet", llama::bitnet),
    ("stablelm", llama::stablelm),
    ("stablelm_epoch", llama::stablelm),
    ("nemotron", llama::nemotron),
    ("starcoder2", llama::starcoder2),
    ("qwen", qwen::qwen),
    ("qwen2", qwen::qwen2),
    ("mimo", qwen::qwen2),
    ("qwen3", qwen::qwen3),
    ("qwen2_moe", qwen::qwen2_moe),
    ("qwen3_moe", qwen::qwen3_moe),
    ("gemma", gemma::gemma),
    ("gemma2", gemma::gemma2),
    ("gemma3_text", gemma::gemma3),
    ("vaultgemma", gemma::vaultgemma),
    ("phi", phi::phi),
    ("phi3", phi::phi3),
    ("phi3small", phi::phi3small),
    ("phimoe", phi::phimoe),
    ("cohere", cohere::cohere),
    ("cohere2", cohere::cohere2),
    ("olmo", olmo::olmo),
    ("olmo2", olmo::olmo2),
    ("olmo3", olmo::olmo3),
    ("olmoe", olmo::olmoe),
    ("flex_olmo", olmo::flex_olmo),
    ("chatglm", glm::chatglm),
    ("glm", glm::glm),
    ("glm4", glm::glm4),
    ("glm4_moe", glm::glm4_moe),
    ("gpt2", gpt::gpt2),
    ("gpt-sw3", gpt::gpt2),
    ("gpt_bigcode", gpt::gpt_bigcode),
    ("gptj", gpt::gptj),
    ("codegen", gpt::codegen),
    ("gpt_neo", gpt::gpt_neo),
    ("gpt_neox", gpt::gpt_neox),
    ("gpt_neox_japanese", gpt::gpt_neox_japanese),
    ("openai-gpt", gpt::openai_gpt),
    ("ctrl", gpt::ctrl),
    ("xglm", gpt::xglm),
    ("biogpt", gpt::biogpt),
    ("bloom", bloom::bloom),
    ("falcon", bloom::falcon),
    ("RefinedWeb", bloom::falcon),
    ("RefinedWebModel", bloom::falcon),
    ("mpt", bloom::mpt),
    ("opt", bloom::opt),
    ("persimmon", bloom::persimmon),
    ("deepseek", deepseek::deepseek),
    ("deepseek_v2", deepseek::deepseek_v2),
    ("deepseek_v3", deepseek::deepseek_v3),
    ("kimi_k2", deepseek::deepseek_v3),
    ("deepseek_v32", deepseek::deepseek_v32),
    ("glm_moe_dsa", deepseek::glm_moe_dsa),
    ("glm4_moe_lite", deepseek::glm4_moe_lite),
    ("minicpm3", deepseek::minicpm3),
    ("youtu", deepseek::youtu),
    ("longcat_flash", deepseek::longcat_flash),
    ("mixtral", mixtral::mixtral),
    ("granitemoe", mixtral::granitemoe),
    ("granitemoeshared", mixtral::granitemoe),
    ("gpt_oss", mixtral::gpt_oss),
    ("dbrx", mixtral::dbrx),
    ("minimax", mixtral::minimax),
    ("minimax_m1", mixtral::minimax),
    ("minimax_text_01", mixtral::minimax),
    ("minimax_m2", mixtral::minimax_m2),
    ("minicpm", mixtral::minicpm),
    ("grok-1", mixtral::grok),
    ("grok_1", mixtral::grok),
    ("arctic", mixtral::arctic),
    ("ernie4_5_moe", hunyuan::ernie_moe),
    ("hunyuan", hunyuan::hunyuan_moe),
    ("hunyuan_v1_moe", hunyuan::hunyuan_moe),
    ("llama4_text", llama4::llama4),
    ("mimo_v2_flash", mimo::mimo_v2),
    ("jetmoe", mixtral::jetmoe),
    ("mamba", mamba::mamba),
    ("falcon_mamba", mamba::mamba),
    ("mamba2", mamba::mamba2),
    ("jamba", mamba::jamba),
    ("bamba", hybrid::bamba),
    ("granitemoehybrid", hybrid::granite_hybrid),
    ("falcon_h1", hybrid::falcon_h1),
    ("nemotron_h", hybrid::nemotron_h),
    ("zamba2", zamba2::zamba2),
    ("recurrent_gemma", griffin::recurrent_gemma),
    ("lfm2", lfm2::lfm2),
    ("lfm2_moe", lfm2::lfm2_moe),
    ("qwen2_vl_text", qwen::qwen2_vl),
    ("qwen2_5_vl_text", qwen::qwen2_vl),
    ("qwen3_vl_text", qwen::qwen3),
    ("qwen3_vl_moe_text", qwen::qwen3_vl_moe),
    ("glm4v_text", glm::glm4v),
    ("glm4v_moe_text", glm::glm4v_moe),
    ("mllama_text_model", llama_vision::mllama_text),
    ("qwen3_next", qwen_next::qwen3_next),
    ("qwen3_5_text", qwen_next::qwen3_5),
    ("qwen3_5_moe_text", qwen_next::qwen3_5_moe),
    ("kimi_linear", qwen_next::kimi_linear),
    ("gemma3n_text", gemma_next::gemma3n),
    ("gemma4_text", gemma_next::gemma4),
    ("qwen3_omni_moe_text", qwen::qwen3_omni_moe),
    ("aria_text", text_more::aria),
    ("cohere2_moe", text_more::cohere2_moe),
    ("hyperclovax", text_more::hyperclovax),
    ("doge", text_more::doge),
    ("xlstm", text_more::xlstm),
    ("laguna", text_more::laguna),
    ("modernbert-decoder", text_more::modernbert_decoder),
    ("ernie4_5_vl_moe_text", text_more::ernie_vl),
    ("glm_ocr_text", text_more::glm_ocr),
    ("step3p5", text_more::step3p7),
    ("step3p7_text", text_more::step3p7),
    ("sarvam_moe", text_more::sarvam_moe),
    ("sarvam_mla", deepseek::sarvam_mla),
    ("glm46v_text", glm::glm4v),
    ("paddleocr_vl_text", llama::ernie4_5),
    ("iquestcoder", llama::llama),
    ("mistral4", deepseek::mistral4),
    ("dots1", recent::dots1),
    ("exaone_moe", recent::exaone_moe),
    ("afmoe", recent::afmoe),
    ("solar_open", recent::solar_open),
    ("hy_v3", recent::hy_v3),
    ("apertus", recent::apertus),
    ("nanochat", recent::nanochat),
    ("diffllama", recent::diffllama),
    ("olmo_hybrid", recent_hybrid::olmo_hybrid),
    ("rwkv", recent_hybrid::rwkv),
    ("zamba", recent_hybrid::zamba),
    ("deepseek_v4", deepseek_v4::deepseek_v4),
    ("nemotron-nas", decilm::decilm),
    ("deci", decilm::decilm),
];

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
