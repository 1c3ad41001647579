//! The inventory: every parameter tensor of a model, with shape, count and role, and sums over it.
//!
//! A [`Group`] is a layer that occurs once or many times with equal tensors ("decoder layer",
//! 28 times). Parameters, active parameters, LoRA targets and stored bytes are all sums over this
//! one list. Counts are elements, not bytes. A weight that is shared (a tied head) is listed once.

use super::kv_cache::Cache;

/// What a tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Input embedding of the vocabulary.
    Embedding,
    /// Learned positions, token types and other small embeddings.
    Position,
    /// Projection of self-attention.
    Attention,
    /// Projection of cross-attention.
    CrossAttention,
    /// Projection of a sparse-attention indexer.
    Indexer,
    /// Recurrent or linear-attention mixer.
    Mixer,
    /// Dense feed-forward layer.
    Mlp,
    /// Routed expert.
    Expert,
    /// Expert that every token passes.
    SharedExpert,
    /// Router of a mixture of experts, or the gate of a shared expert.
    Router,
    /// Normalisation weight or bias.
    Norm,
    /// Convolution of a stem or a patch embedding.
    Conv,
    /// Projection between the parts of a model.
    Projector,
    /// Output head over the vocabulary.
    Head,
    /// Pooler, classifier or another head of a task.
    TaskHead,
    /// A scalar, scale or other loose parameter.
    Scale,
}

/// Which part of a model a group belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Decoder-only language model, or an encoder that reads text.
    Text,
    /// Encoder of an encoder-decoder model.
    Encoder,
    /// Decoder of an encoder-decoder model.
    Decoder,
    /// Vision tower.
    Vision,
    /// Audio tower.
    Audio,
    /// Connection from a tower to the language model.
    Projector,
}

/// One parameter tensor of a group, or several equal ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Path below the group's prefix, without the parameter's name: `self_attn.q_proj`.
    pub path: String,
    /// Name of the parameter: `weight`, `bias` ...
    pub parameter: &'static str,
    /// Dimensions; a linear weight is `[out, in]`.
    pub shape: Vec<u64>,
    /// How many equal tensors (experts).
    pub copies: u64,
    /// How many of the copies a token passes.
    pub active: u64,
    /// What it is for.
    pub role: Role,
    /// Whether it is the weight of a linear layer: LoRA and quantisation act on these.
    pub linear: bool,
}

impl Tensor {
    /// Elements of one copy.
    pub fn elements(&self) -> u128 {
        self.shape.iter().fold(1u128, |product, side| product.saturating_mul(u128::from(*side)))
    }

    /// The last word of the path, by which LoRA targets name a module: `q_proj`.
    pub fn module(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    /// Output and input width of a linear weight.
    pub fn out_in(&self) -> Option<(u64, u64)> {
        match (self.linear, self.shape.as_slice()) {
            (true, [out, input]) => Some((*out, *input)),
            _ => None,
        }
    }
}

/// A layer with its tensors, and where it occurs.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Prefix of the names of its tensors, `{i}` for the index: `model.layers.{i}`.
    pub prefix: String,
    /// The part of the model.
    pub part: Part,
    /// Indices at which the group occurs; its length is the repeat count.
    pub indices: Vec<u64>,
    /// Whether it is one of a stack of layers, as opposed to an embedding, a norm or a head.
    pub layer: bool,
    /// Parameter tensors of one occurrence.
    pub tensors: Vec<Tensor>,
    /// What one occurrence keeps in the cache during generation.
    pub caches: Vec<Cache>,
}

impl Group {
    /// How often the group occurs.
    pub fn count(&self) -> u64 {
        self.indices.len() as u64
    }

    /// Elements of all occurrences that a predicate selects.
    pub fn sum(&self, select: impl Fn(&Tensor) -> u64) -> u128 {
        let one: u128 =
            self.tensors.iter().map(|tensor| tensor.elements().saturating_mul(u128::from(select(tensor)))).fold(0, u128::saturating_add);
        one.saturating_mul(u128::from(self.count()))
    }
}

/// All tensors of a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// The groups in the order of the forward pass.
    pub groups: Vec<Group>,
}

impl Inventory {
    /// Adds one occurrence of a layer; equal layers of a stack are counted together.
    pub fn push(&mut self, group: Group) {
        let same = |have: &&mut Group| {
            have.layer
                && have.prefix == group.prefix
                && have.tensors == group.tensors
                && have.caches == group.caches
                && have.part == group.part
        };
        match self.groups.iter_mut().find(same) {
            Some(have) => have.indices.extend(group.indices),
            None => self.groups.push(group),
        }
    }

    /// Elements of all tensors of which `copies` counts so many copies.
    pub fn sum(&self, copies: impl Fn(&Tensor) -> u64) -> u128 {
        self.groups.iter().map(|group| group.sum(&copies)).fold(0, u128::saturating_add)
    }

    /// All parameters.
    pub fn total(&self) -> u128 {
        self.sum(|tensor| tensor.copies)
    }

    /// Parameters that one token passes; embedding and head count whole.
    pub fn active(&self) -> u128 {
        self.sum(|tensor| tensor.active)
    }

    /// Parameters of one role.
    pub fn of_role(&self, role: Role) -> u128 {
        self.sum(|tensor| if tensor.role == role { tensor.copies } else { 0 })
    }

    /// Linear weights inside layers whose module name is listed; these are what LoRA can adapt.
    pub fn linear_targets<'a>(&'a self, modules: &'a [&'a str]) -> impl Iterator<Item = (&'a Group, &'a Tensor)> {
        let in_layers = self.groups.iter().filter(|group| group.layer);
        in_layers
            .flat_map(|group| group.tensors.iter().map(move |tensor| (group, tensor)))
            .filter(move |(_, tensor)| tensor.linear && modules.contains(&tensor.module()))
    }

    /// Parameters of LoRA adapters of a rank on the listed modules: `rank * (in + out)` each.
    pub fn lora(&self, rank: u64, modules: &[&str]) -> u128 {
        let adapter = |(group, tensor): (&Group, &Tensor)| {
            let (out, input) = tensor.out_in()?;
            let one = u128::from(out).saturating_add(u128::from(input)).saturating_mul(u128::from(rank));
            Some(one.saturating_mul(u128::from(tensor.copies)).saturating_mul(u128::from(group.count())))
        };
        self.linear_targets(modules).filter_map(adapter).fold(0, u128::saturating_add)
    }
}
