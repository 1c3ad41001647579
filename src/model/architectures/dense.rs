//! Dense decoders: one description for all families that stack attention and feed-forward layers
//! of one form, with norms around them.

use super::blocks::{Attention, Block, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use crate::model::config::{Result, Section};

/// Form of the feed-forward layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mlp {
    /// Gate, up and down projection.
    Gated,
    /// A fused gate and up projection, and a down projection.
    Fused,
    /// Two projections with these names.
    Plain(&'static str, &'static str),
}

/// How the layers of a dense decoder look.
#[derive(Debug, Clone)]
pub struct Dense {
    /// Attention of every layer.
    pub attention: Attention,
    /// Whether queries, keys and values are one projection.
    pub fused_qkv: bool,
    /// Feed-forward layer of every layer.
    pub mlp: Mlp,
    /// Biases of the feed-forward layers.
    pub mlp_bias: bool,
    /// Kind of the norms.
    pub norm: Norm,
    /// Norms of the hidden width in a layer.
    pub norms: &'static [&'static str],
    /// Kind of the norm after the last layer.
    pub last_norm: Norm,
    /// How far back each layer looks; empty: everywhere full.
    pub windows: Vec<Window>,
    /// Bias of the head.
    pub head_bias: bool,
}

/// Norm before attention and norm before the feed-forward layer.
pub const TWO_NORMS: &[&str] = &["input_layernorm", "post_attention_layernorm"];
/// Norms before and after attention and feed-forward layer.
pub const FOUR_NORMS: &[&str] = &["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"];

impl Dense {
    /// The form of Llama: gated feed-forward, two RMSNorms a layer, no biases.
    pub fn new(dimensions: &Dimensions) -> Self {
        Self {
            attention: dimensions.attention(),
            fused_qkv: false,
            mlp: Mlp::Gated,
            mlp_bias: false,
            norm: Norm::Weight,
            norms: TWO_NORMS,
            last_norm: Norm::Weight,
            windows: Vec::new(),
            head_bias: false,
        }
    }

    /// Attention and norms of a layer, without its feed-forward part.
    pub fn without_mlp(&self, index: u64) -> Block {
        let window = usize::try_from(index).ok().and_then(|index| self.windows.get(index)).copied().unwrap_or(Window::Full);
        let hidden = self.attention.hidden;
        let block = self.norms.iter().fold(Block::new(), |block, name| block.norm_of(self.norm, name, hidden));
        if self.fused_qkv {
            block.fused_attention("self_attn", &self.attention, ["qkv_proj", "o_proj"], window)
        } else {
            block.attention("self_attn", &self.attention, window)
        }
    }

    /// A whole layer with a feed-forward part of a width.
    pub fn layer(&self, index: u64, width: u64) -> Block {
        let (block, hidden) = (self.without_mlp(index), self.attention.hidden);
        match self.mlp {
            Mlp::Gated => block.gated_mlp("mlp", hidden, width, self.mlp_bias),
            Mlp::Fused => block.fused_gated_mlp("mlp", hidden, width, ["gate_up_proj", "down_proj"], self.mlp_bias),
            Mlp::Plain(up, down) => block.plain_mlp("mlp", hidden, width, [up, down], self.mlp_bias),
        }
    }

    /// The whole model.
    pub fn build(&self, c: Section<'_>, dimensions: Dimensions, default: &Defaults, request: Request) -> Result<Parts> {
        let (layers, width) = (dimensions.layers, dimensions.intermediate);
        let mut stack = Stack::new(c, dimensions, default, request)?;
        for index in 0..layers {
            stack.layer(self.layer(index, width));
        }
        Ok(stack.finish(self.last_norm, self.head_bias))
    }
}
