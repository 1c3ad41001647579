//! The keys of configs that are spoken of: what each stands for, whatever its spelling.

use crate::model::architectures::decoder::keys;
use crate::model::json::{Member, Node, Value};

/// What a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Family of the model.
    ModelType,
    /// Class of the model.
    Class,
    /// Width of the residual stream.
    Hidden,
    /// Layers.
    Layers,
    /// Query heads.
    Heads,
    /// Key and value heads.
    KvHeads,
    /// Width of a head.
    HeadDim,
    /// Width of the feed-forward layers.
    Intermediate,
    /// Vocabulary.
    Vocab,
    /// Longest text.
    Positions,
    /// Stored dtype.
    Dtype,
    /// Whether the head shares the embedding.
    Tied,
    /// Routed experts of a layer.
    Experts,
    /// Experts a token passes.
    ActiveExperts,
    /// Width of a routed expert.
    ExpertWidth,
    /// Experts that every token passes.
    SharedExperts,
    /// Tokens of a sliding window.
    Window,
    /// Width of the latent.
    Latent,
    /// Rotary width beside the latent.
    LatentRotary,
    /// Quantisation.
    Quantization,
    /// Which code computes attention.
    Attention,
    /// Adds neither parameters nor memory.
    Free(&'static str),
}

/// Part of a file that describes the language model.
pub const LANGUAGE_PART: &str = crate::model::architectures::vlm::TEXT;
/// Stored dtype.
pub const DTYPE: &str = "dtype|torch_dtype";
/// Routed experts of a layer.
pub const EXPERTS: &str = "num_experts|n_routed_experts|num_local_experts|moe_num_experts|n_experts";
/// Experts a token passes.
pub const ACTIVE_EXPERTS: &str = "num_experts_per_tok|num_experts_per_token|moe_topk|moe_top_k|moe_k|top_k_experts|experts_per_token";
/// Width of the latent.
pub const LATENT: &str = "kv_lora_rank";
/// Quantisation.
pub const QUANTIZATION: &str = "quantization_config|compression_config";

/// Subjects with their spellings and the name of their text.
pub const SUBJECTS: &[(Subject, &str, &str)] = &[
    (Subject::ModelType, "model-type", "model_type"),
    (Subject::Class, "class", "architectures"),
    (Subject::Hidden, "hidden", keys::HIDDEN),
    (Subject::Layers, "layers", keys::LAYERS),
    (Subject::Heads, "heads", keys::HEADS),
    (Subject::KvHeads, "kv-heads", keys::KV_HEADS),
    (Subject::HeadDim, "head-dim", keys::HEAD_DIM),
    (Subject::Intermediate, "intermediate", keys::INTERMEDIATE),
    (Subject::Vocab, "vocab", keys::VOCAB),
    (Subject::Positions, "positions", keys::POSITIONS),
    (Subject::Dtype, "dtype", DTYPE),
    (Subject::Tied, "tied", "tie_word_embeddings"),
    (Subject::Experts, "experts", EXPERTS),
    (Subject::ActiveExperts, "active-experts", ACTIVE_EXPERTS),
    (Subject::ExpertWidth, "expert-width", "moe_intermediate_size|expert_intermediate_size"),
    (Subject::SharedExperts, "shared-experts", "n_shared_experts|num_shared_experts"),
    (Subject::Window, "window", "sliding_window"),
    (Subject::Latent, "latent", LATENT),
    (Subject::LatentRotary, "latent-rotary", "qk_rope_head_dim"),
    (Subject::Quantization, "quantization", QUANTIZATION),
    (Subject::Attention, "attention", "attn_implementation|_attn_implementation"),
    (Subject::Free("rope-theta"), "rope-theta", "rope_theta"),
    (Subject::Free("rope-scaling"), "rope-scaling", "rope_scaling|rope_parameters"),
    (Subject::Free("activation"), "activation", "hidden_act|hidden_activation|activation_function"),
    (Subject::Free("epsilon"), "epsilon", "rms_norm_eps|layer_norm_epsilon|layer_norm_eps|norm_eps"),
    (Subject::Free("initializer"), "initializer", "initializer_range"),
    (Subject::Free("use-cache"), "use-cache", "use_cache"),
];

/// The subject of a key and the name of its text.
pub fn subject(key: &str) -> Option<(Subject, &'static str, &'static str)> {
    SUBJECTS.iter().find(|(_, _, spellings)| spellings.split('|').any(|one| one == key)).copied()
}

/// The member under the first spelling that has a value, else under the first that is there.
pub fn find<'a>(node: &'a Node, spellings: &str) -> Option<&'a Member> {
    let members = || spellings.split('|').filter_map(|name| node.member(name));
    members().find(|member| member.node.value != Value::Null).or_else(|| members().next())
}

/// A whole number that is not negative.
pub fn number(node: &Node) -> Option<u64> {
    match node.value {
        Value::Integer(number) => u64::try_from(number).ok(),
        _ => None,
    }
}
