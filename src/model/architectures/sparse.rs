//! Feed-forward parts that are dense in some layers and a mixture of experts in others.

use super::blocks::{Block, Moe};
use super::decoder::Dimensions;
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// The feed-forward parts of a stack.
#[derive(Debug, Clone)]
pub struct Sparse {
    /// The routed experts.
    pub moe: Moe,
    /// Width of the shared experts together; 0: none.
    pub shared: u64,
    /// Width of the dense layers.
    pub dense: u64,
    /// Which layers have experts.
    pub layers: Vec<bool>,
    /// Biases of dense layers and shared experts.
    pub bias: bool,
}

/// Defaults of a family for its experts.
#[derive(Debug, Clone, Copy)]
pub struct Experts {
    /// Routed experts.
    pub count: u64,
    /// Experts a token passes.
    pub active: u64,
    /// Width of an expert.
    pub width: u64,
    /// Shared experts.
    pub shared: u64,
    /// Dense layers before the first layer with experts.
    pub dense_layers: u64,
}

/// Spellings of the number of routed experts.
pub const COUNT: &str = "n_routed_experts|num_experts|num_local_experts|moe_num_experts|n_experts";
/// Spellings of the number of experts a token passes.
pub const ACTIVE: &str = "num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|top_k_experts|experts_per_token";
/// Spellings of the number of shared experts.
pub const SHARED: &str = "n_shared_experts|num_shared_experts|moe_num_shared_experts|num_shared_expert|n_shared_expert";

impl Sparse {
    /// Reads the keys of the DeepSeek form: dense layers first, then routed and shared experts.
    pub fn read(c: Section<'_>, d: &mut Dimensions, default: Experts) -> Result<Self> {
        let width = c.int("moe_intermediate_size|expert_ffn_hidden_size|moe_ffn_hidden_size", default.width)?;
        let moe = Moe {
            hidden: d.hidden,
            experts: c.int(COUNT, default.count)?,
            active: c.int(ACTIVE, default.active)?,
            width,
            router_bias: false,
            expert_bias: false,
        };
        (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
        let shared = match (c.raw(SHARED), c.int_opt(SHARED)?) {
            (_, Some(count)) => count,
            // An explicit null says that there are none.
            (Some(_), None) => 0,
            (None, None) => default.shared,
        };
        let first = c.int("first_k_dense_replace|num_dense_layers|n_dense_layers", default.dense_layers)?;
        let types = c.strings("mlp_layer_types");
        let every = c.ints("moe_layer_freq")?.unwrap_or_default();
        let sparse = |index: u64| {
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            match (types.get(at), every.as_slice()) {
                (Some(kind), _) => *kind != "dense",
                (None, [step]) if *step > 0 => index >= first && index.is_multiple_of(*step),
                (None, list) if list.len() > 1 => list.get(at).copied().unwrap_or(1) != 0,
                _ => index >= first,
            }
        };
        Ok(Self {
            moe,
            shared: shared.saturating_mul(width),
            dense: d.intermediate,
            layers: (0..d.layers).map(sparse).collect(),
            bias: false,
        })
    }

    /// Whether a layer has experts.
    pub fn has_experts(&self, index: u64) -> bool {
        self.moe.experts > 0 && usize::try_from(index).ok().and_then(|index| self.layers.get(index)).copied().unwrap_or(true)
    }

    /// Adds the feed-forward part of a layer.
    pub fn add(&self, block: Block, index: u64) -> Block {
        if !self.has_experts(index) {
            return block.gated_mlp("mlp", self.moe.hidden, self.dense, self.bias);
        }
        let (hidden, shared) = (self.moe.hidden, self.shared);
        block
            .moe("mlp", &self.moe)
            .when(shared > 0, |block| block.gated("mlp.shared_experts", Role::SharedExpert, hidden, shared, self.bias))
    }
}
