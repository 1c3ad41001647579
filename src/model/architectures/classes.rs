//! Whether a class is one whose tensors are known.
//!
//! A file may name a family that is known and a class that is not: a draft model, a reward model, a
//! model with an added head. Its tensors then are those of the family and more, so the count is no
//! exact one.

use super::Source;

/// Endings of classes of language models that are known for every family.
const TEXT: &[&str] = &[
    "ForCausalLM",
    "LMHeadModel",
    "Model",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForConditionalGeneration",
];

/// Endings of the classes of text encoders.
const ENCODER: &[&str] =
    &["ForMaskedLM", "ForPreTraining", "ForMultipleChoice", "ForNextSentencePrediction", "WithLMHeadModel", "Encoder", "Decoder"];

/// Endings of further classes, by family; the families that are more than a language model.
const WHOLE: &[(&str, &[&str])] = &[
    ("bert", &["ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction", "ForMultipleChoice"]),
    ("megatron-bert", &["ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction", "ForMultipleChoice"]),
    ("ernie", &["ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction", "ForMultipleChoice"]),
    ("roberta", &["ForMaskedLM", "ForMultipleChoice"]),
    ("xlm-roberta", &["ForMaskedLM", "ForMultipleChoice"]),
    ("camembert", &["ForMaskedLM", "ForMultipleChoice"]),
    ("data2vec-text", &["ForMaskedLM", "ForMultipleChoice"]),
    ("electra", &["ForMaskedLM", "ForPreTraining", "ForMultipleChoice"]),
    ("albert", &["ForMaskedLM", "ForPreTraining", "ForMultipleChoice"]),
    ("distilbert", &["ForMaskedLM", "ForMultipleChoice"]),
    ("mpnet", &["ForMaskedLM", "ForMultipleChoice"]),
    ("deberta", &["ForMaskedLM"]),
    ("deberta-v2", &["ForMaskedLM", "ForMultipleChoice"]),
    ("modernbert", &["ForMaskedLM", "ForMultipleChoice"]),
    ("longformer", &["ForMaskedLM", "ForMultipleChoice"]),
    ("big_bird", &["ForMaskedLM", "ForPreTraining", "ForMultipleChoice"]),
    ("layoutlm", &["ForMaskedLM"]),
    ("nomic_bert", &["ForMaskedLM"]),
    ("eurobert", &["ForMaskedLM"]),
    ("roberta-prelayernorm", &["ForMaskedLM", "ForMultipleChoice"]),
    ("xlm-roberta-xl", &["ForMaskedLM", "ForMultipleChoice"]),
    ("xlnet", &["ForMultipleChoice"]),
    ("swin", &["ForImageClassification"]),
    ("vit_mae", &["ForPreTraining"]),
    ("convnext", &["ForImageClassification"]),
    ("convnextv2", &["ForImageClassification"]),
    ("resnet", &["ForImageClassification"]),
    ("dpr", &["DPRContextEncoder", "DPRQuestionEncoder", "DPRReader"]),
    ("t5", &["EncoderModel", "WithLMHeadModel"]),
    ("mt5", &["EncoderModel"]),
    ("umt5", &["EncoderModel"]),
    ("rembert", ENCODER),
    ("roformer", ENCODER),
    ("esm", ENCODER),
    ("squeezebert", ENCODER),
    ("mobilebert", ENCODER),
    ("fnet", ENCODER),
    ("xlm", ENCODER),
    ("flaubert", ENCODER),
    ("tapas", ENCODER),
    ("canine", ENCODER),
    ("splinter", ENCODER),
    ("gte", ENCODER),
    ("jina_embeddings_v3", ENCODER),
    ("bert-generation", ENCODER),
    ("convbert", ENCODER),
    ("ibert", ENCODER),
    ("nystromformer", ENCODER),
    ("yoso", ENCODER),
    ("mra", ENCODER),
    ("roc_bert", ENCODER),
    ("xmod", ENCODER),
    (
        "luke",
        &["ForMaskedLM", "ForMultipleChoice", "ForEntityClassification", "ForEntityPairClassification", "ForEntitySpanClassification"],
    ),
    ("funnel", ENCODER),
    ("visual_bert", &["ForPreTraining", "ForMultipleChoice", "ForVisualReasoning"]),
    ("vilt", &["ForMaskedLM", "ForImageAndTextRetrieval"]),
    ("lxmert", &["ForPreTraining"]),
    ("detr", &["ForObjectDetection"]),
    ("conditional_detr", &["ForObjectDetection"]),
    ("table-transformer", &["ForObjectDetection"]),
    ("yolos", &["ForObjectDetection"]),
    ("dpt", &["ForDepthEstimation", "ForSemanticSegmentation"]),
    ("depth_anything", &["ForDepthEstimation"]),
    ("ijepa", &["ForImageClassification"]),
    ("timesformer", &["ForVideoClassification"]),
    ("vivit", &["ForVideoClassification"]),
    ("imagegpt", &["ForCausalImageModeling", "ForImageClassification"]),
    ("colpali", &["ForRetrieval"]),
    ("colqwen2", &["ForRetrieval"]),
    ("blip", &["ForImageTextRetrieval"]),
    ("clipseg", &["ForImageSegmentation"]),
    ("owlvit", &["ForObjectDetection"]),
    ("owlv2", &["ForObjectDetection"]),
    ("metaclip_2", &["ForImageClassification"]),
    ("donut-swin", &["ForImageClassification"]),
    ("marian", &["MTModel"]),
    ("longt5", &["EncoderModel"]),
    ("switch_transformers", &["EncoderModel"]),
    ("t5gemma", &["EncoderModel"]),
    ("whisper", &["ForAudioClassification"]),
    ("speecht5", &["ForTextToSpeech", "ForSpeechToText", "ForSpeechToSpeech"]),
    ("wav2vec2", &["ForCTC", "ForPreTraining", "ForAudioFrameClassification"]),
    ("hubert", &["ForCTC"]),
    ("unispeech", &["ForCTC"]),
    ("unispeech-sat", &["ForCTC", "ForAudioFrameClassification"]),
    ("data2vec-audio", &["ForCTC", "ForAudioFrameClassification"]),
    ("wav2vec2-bert", &["ForCTC", "ForAudioFrameClassification"]),
    ("audio-spectrogram-transformer", &["ForAudioClassification"]),
    ("beit", &["ForImageClassification", "ForMaskedImageModeling"]),
    ("data2vec-vision", &["ForImageClassification"]),
    ("vit_msn", &["ForImageClassification"]),
    ("videomae", &["ForVideoClassification", "ForPreTraining"]),
    ("segformer", &["ForImageClassification", "ForSemanticSegmentation"]),
    ("wavlm", &["ForCTC", "ForAudioFrameClassification"]),
    ("vit", &["ForImageClassification", "ForMaskedImageModeling"]),
    ("deit", &["ForImageClassification", "ForImageClassificationWithTeacher", "ForMaskedImageModeling"]),
    ("dinov2", &["ForImageClassification", "Backbone"]),
    ("dinov2_with_registers", &["ForImageClassification", "Backbone"]),
    ("clip", &["WithProjection", "ForImageClassification"]),
    ("siglip", &["ForImageClassification"]),
    ("siglip2", &["ForImageClassification"]),
    ("clip_vision_model", &["WithProjection"]),
    ("clip_text_model", &["WithProjection"]),
];

/// Families and the stems of their classes, where the stem is not the family's name.
const STEMS: &[(&str, &str)] = &[
    ("kimi_k2", "deepseekv3"),
    ("nemotron-nas", "decilm"),
    ("deci", "decilm"),
    ("RefinedWeb", "rw"),
    ("RefinedWebModel", "rw"),
    ("falcon", "rw"),
    ("hunyuan_v1_dense", "hunyuandensev1"),
    ("hunyuan_v1_moe", "hunyuanmoev1"),
    ("gpt-sw3", "gpt2"),
    ("llava", "llavallama"),
    ("llava_mistral", "llavamistral"),
    ("llava_qwen", "llavaqwen"),
    ("llava_qwen", "llavaqwen2"),
    ("idefics3", "smolvlm"),
    ("audio-spectrogram-transformer", "ast"),
    ("deepseek_llm", "llama"),
    ("iquestcoder", "llama"),
    ("sarvam_moe", "glm4moe"),
    ("sarvam_mla", "deepseekv3"),
    ("data2vec-text", "data2vectext"),
    ("stablelm_epoch", "stablelmepoch"),
    ("grok-1", "grok1model"),
    ("clip", "clipvision"),
    ("clip", "cliptext"),
    ("dpr", "dprcontextencoder"),
    ("dpr", "dprquestionencoder"),
    ("dpr", "dprreader"),
    ("mistral", "llama"),
    ("qwen2", "gteqwen2"),
    ("bailing_moe", "bailingmoev2"),
    ("minimax_m3_vl", "minimaxm3sparse"),
    ("minicpmv", "minicpmv"),
    ("deepseek_vl_v2", "deepseekocr"),
    ("deepseek_vl_v2", "deepseekocr2"),
];

/// Why the tensors of a class are not known; none when they are.
pub fn doubt(source: &Source<'_>) -> Option<String> {
    if source.class.is_empty() {
        return Some("the file names no class (`architectures`), so which head is stored is a guess".to_owned());
    }
    let family = source.model_type;
    let endings = WHOLE.iter().filter(|(name, _)| *name == family).flat_map(|(_, endings)| endings.iter());
    let ending = TEXT.iter().chain(endings).filter(|ending| source.class.ends_with(**ending)).max_by_key(|ending| ending.len());
    let stem = ending.and_then(|ending| source.class.strip_suffix(ending)).map(plain);
    let family_plain = plain(family);
    let short = |text: &str| {
        ["text", "model", "visionmodel", "textmodel", "chat", "epoch"]
            .iter()
            .find_map(|end| text.strip_suffix(end))
            .unwrap_or(text)
            .to_owned()
    };
    // A class that has no usual ending is known under its whole name only.
    let listed = |stem: &str| STEMS.iter().any(|(name, alias)| *name == family && (*alias == stem || *alias == plain(source.class)));
    let known = match &stem {
        Some(stem) => {
            let own = *stem == family_plain || *stem == short(&family_plain) || short(stem) == short(&family_plain);
            own || listed(stem)
        }
        None => listed(""),
    };
    (!known).then(|| format!("`{}` is no class that is known for `{family}`: its tensors may be more or fewer", source.class))
}

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}
