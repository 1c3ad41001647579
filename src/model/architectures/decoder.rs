//! What language-model decoders share: sizes with the family's defaults, embedding, head, layers.

use super::blocks::{Attention, Block, Norm, Window};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Group, Inventory, Part, Role};

/// Sizes of a language model, in one vocabulary for all families. Zero means "does not apply".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dimensions {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Layers.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Width of the dense feed-forward layers.
    pub intermediate: u64,
    /// Rows of the embedding.
    pub vocab: u64,
    /// Longest text the positions are made for.
    pub positions: u64,
    /// Routed experts of a layer.
    pub experts: u64,
    /// Experts a token passes.
    pub active_experts: u64,
    /// Width of a routed expert.
    pub expert_width: u64,
    /// What in the file does not go together, so that the counts are not certain.
    pub doubt: Option<&'static str>,
}

/// What a family assumes for keys that the file leaves out.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    /// Vocabulary.
    pub vocab: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of the feed-forward layers; 0: four times the hidden width.
    pub intermediate: u64,
    /// Layers.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads; 0: as many as query heads.
    pub kv_heads: u64,
    /// Width of a head; 0: hidden width over heads.
    pub head_dim: u64,
    /// Positions.
    pub positions: u64,
    /// Whether the head shares the embedding.
    pub tied: bool,
}

/// Spellings of the usual keys.
pub mod keys {
    /// Width of the residual stream.
    pub const HIDDEN: &str = "hidden_size|n_embd|d_model|n_embed|model_dim|dim";
    /// Layers.
    pub const LAYERS: &str = "num_hidden_layers|n_layer|num_layers|n_layers|num_decoder_layers";
    /// Query heads.
    pub const HEADS: &str = "num_attention_heads|n_head|n_heads|num_heads|decoder_attention_heads";
    /// Key and value heads.
    pub const KV_HEADS: &str = "num_key_value_heads|num_kv_heads|n_kv_heads|n_head_kv|multi_query_group_num";
    /// Width of a head.
    pub const HEAD_DIM: &str = "head_dim|attention_head_dim|kv_channels|d_head";
    /// Width of the feed-forward layers.
    pub const INTERMEDIATE: &str = "intermediate_size|n_inner|ffn_hidden_size|ffn_dim|d_ff|inner_dim";
    /// Vocabulary.
    pub const VOCAB: &str = "vocab_size|padded_vocab_size|n_vocab";
    /// Positions.
    pub const POSITIONS: &str = "max_position_embeddings|n_positions|seq_length|max_seq_len|n_ctx|max_sequence_length|model_max_length";
}

impl Defaults {
    /// In this order: vocabulary, hidden width, feed-forward width, layers, heads, KV heads, head
    /// width, positions; then whether the head is tied.
    pub const fn of([vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, positions]: [u64; 8], tied: bool) -> Self {
        Self { vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, positions, tied }
    }
}

impl Dimensions {
    /// Reads the usual keys with a family's defaults.
    pub fn read(c: Section<'_>, default: &Defaults) -> Result<Self> {
        let hidden = c.int(keys::HIDDEN, default.hidden)?;
        let heads = c.divisor(keys::HEADS, default.heads)?;
        let head_dim = match c.int_opt(keys::HEAD_DIM)? {
            Some(width) => width,
            // An explicit null asks for the quotient even where the family has a width of its own.
            None if default.head_dim > 0 && !c.has(keys::HEAD_DIM) => default.head_dim,
            None => hidden / heads,
        };
        let mut doubt = None;
        let kv_heads = match c.int_opt(keys::KV_HEADS)? {
            Some(count) => count,
            None if default.kv_heads > 0 && !c.has(keys::KV_HEADS) => {
                if heads % default.kv_heads == 0 {
                    default.kv_heads
                } else {
                    doubt = Some("`num_key_value_heads` is missing, and the family's default does not divide the heads");
                    heads
                }
            }
            None => heads,
        };
        let four = hidden.saturating_mul(4);
        let intermediate = match c.node(keys::INTERMEDIATE) {
            // A list (one width a layer) is read by the families that have it.
            Some((_, node)) if matches!(node.value, crate::model::json::Value::Array(_)) => {
                c.ints(keys::INTERMEDIATE)?.and_then(|list| list.first().copied()).unwrap_or(four)
            }
            _ => c.int(keys::INTERMEDIATE, if default.intermediate == 0 { four } else { default.intermediate })?,
        };
        Ok(Self {
            hidden,
            layers: c.layers(keys::LAYERS, default.layers)?,
            heads,
            kv_heads,
            head_dim,
            intermediate,
            vocab: c.int(keys::VOCAB, default.vocab)?,
            positions: c.int(keys::POSITIONS, default.positions)?,
            doubt,
            ..Self::default()
        })
    }

    /// Attention of these sizes, without biases.
    pub fn attention(&self) -> Attention {
        Attention::new(self.hidden, self.heads, self.kv_heads, self.head_dim)
    }
}

/// Which head the class named in the file puts on the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// A language-model head.
    Causal,
    /// No head.
    Bare,
    /// A linear layer to the labels without bias.
    Sequence(u64),
    /// A linear layer to the labels with bias (token classification).
    Token(u64),
    /// Start and end of an answer.
    Question,
}

/// What is asked of a language model: which head, and whether an outer object overrules tying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The head.
    pub task: Task,
    /// `tie_word_embeddings` of the object around the text model.
    pub tied: Option<bool>,
    /// Whether there is an object around the text model.
    pub nested: bool,
}

/// The finished description of a model or of a part of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    /// The tensors.
    pub inventory: Inventory,
    /// Sizes of the language model.
    pub dimensions: Dimensions,
    /// Whether the head shares the embedding.
    pub tied: bool,
    /// What a reader should know about the numbers.
    pub notes: Vec<String>,
    /// Whether each count follows from the file; otherwise what is uncertain.
    pub inexact: Option<String>,
    /// By how many parameters the total may be too large and too small, where that is known.
    pub margin: Option<(u64, u64)>,
}

/// Assembles a stack of layers with embedding and head.
pub struct Stack {
    parts: Parts,
    request: Request,
    prefix: String,
    index: u64,
    part: Part,
}

impl Stack {
    /// A decoder whose embedding has the hidden width.
    pub fn new(c: Section<'_>, dimensions: Dimensions, default: &Defaults, request: Request) -> Result<Self> {
        let embedding = Block::new().embedding("embed_tokens", Role::Embedding, dimensions.vocab, dimensions.hidden);
        Self::with_embedding(c, dimensions, default.tied, request, embedding)
    }

    /// A decoder with its own embedding block.
    pub fn with_embedding(c: Section<'_>, dimensions: Dimensions, tied: bool, request: Request, embedding: Block) -> Result<Self> {
        let own = c.bool_opt("tie_word_embeddings")?;
        // Versions of transformers differ in which of two objects counts; a lone inner flag is heeded by some.
        let contradicts = own.is_some_and(|own| request.nested && own != request.tied.unwrap_or(tied));
        let tied = request.tied.or(own).unwrap_or(tied);
        let mut stack = Self::bare(dimensions, request, "model.layers.{i}", Part::Text);
        stack.parts.tied = tied;
        if contradicts && request.task == Task::Causal {
            let words = if tied { ("shared", "its own") } else { ("its own", "shared") };
            let head = stack.parts.dimensions.vocab.saturating_mul(stack.parts.dimensions.hidden);
            let why = format!(
                "`tie_word_embeddings` of the language model contradicts the object around it (or its default): the head is counted as {}, and could be {}",
                words.0, words.1
            );
            stack.inexact_within(why, if tied { 0 } else { head }, if tied { head } else { 0 });
        }
        stack.once("model", embedding);
        Ok(stack)
    }

    /// A stack without embedding.
    pub fn bare(dimensions: Dimensions, request: Request, prefix: &str, part: Part) -> Self {
        let inexact = dimensions.doubt.map(str::to_owned);
        Self { parts: Parts { dimensions, inexact, ..Parts::default() }, request, prefix: prefix.to_owned(), index: 0, part }
    }

    /// Adds the next layer.
    pub fn layer(&mut self, block: Block) {
        self.push(self.prefix.clone(), vec![self.index], true, block);
        self.index += 1;
    }

    /// Adds equal layers.
    pub fn layers(&mut self, count: u64, block: &Block) {
        if count == 0 {
            return;
        }
        let indices = (self.index..self.index.saturating_add(count)).collect();
        self.push(self.prefix.clone(), indices, true, block.clone());
        self.index = self.index.saturating_add(count);
    }

    /// Adds something that occurs once.
    pub fn once(&mut self, prefix: &str, block: Block) {
        self.push(prefix.to_owned(), vec![0], false, block);
    }

    /// Adds a layer under another prefix (shared blocks, extra stacks).
    pub fn layer_at(&mut self, prefix: &str, index: u64, block: Block) {
        self.push(prefix.to_owned(), vec![index], true, block);
    }

    /// Starts another stack of layers in the same model.
    pub fn restart(&mut self, prefix: &str, part: Part) {
        (self.prefix, self.part, self.index) = (prefix.to_owned(), part, 0);
    }

    /// Adds all of another model (a tower).
    pub fn append(&mut self, parts: Parts) {
        parts.inventory.groups.into_iter().for_each(|group| self.parts.inventory.push(group));
        self.parts.notes.extend(parts.notes);
        if self.parts.inexact.is_none() {
            self.parts.inexact = parts.inexact;
        }
    }

    /// Sizes of the language model, to be completed by a family.
    pub fn dimensions(&mut self) -> &mut Dimensions {
        &mut self.parts.dimensions
    }

    /// Adds a sentence about the numbers.
    pub fn note(&mut self, text: impl Into<String>) {
        self.parts.notes.push(text.into());
    }

    /// Says that the counts are not certain, and why.
    pub fn inexact(&mut self, why: impl Into<String>) {
        self.parts.inexact = Some(why.into());
        self.parts.margin = None;
    }

    /// The same where it is known how many parameters less or more there may be.
    pub fn inexact_within(&mut self, why: impl Into<String>, less: u64, more: u64) {
        self.inexact(why);
        self.parts.margin = Some((less, more));
    }

    fn push(&mut self, prefix: String, indices: Vec<u64>, layer: bool, block: Block) {
        if block.tensors.is_empty() && block.caches.is_empty() {
            return;
        }
        self.parts.inventory.push(Group { prefix, part: self.part, indices, layer, tensors: block.tensors, caches: block.caches });
    }

    /// Ends with a final norm and the head that was asked for.
    pub fn finish(self, norm: Norm, head_bias: bool) -> Parts {
        let width = self.parts.dimensions.hidden;
        self.finish_with(Block::new().norm_of(norm, "norm", width), head_bias)
    }

    /// Ends with a given last block and the head that was asked for.
    pub fn finish_with(mut self, last: Block, head_bias: bool) -> Parts {
        let (hidden, vocab) = (self.parts.dimensions.hidden, self.parts.dimensions.vocab);
        self.once("model", last);
        let head = match self.request.task {
            Task::Bare => Block::new(),
            Task::Causal if self.parts.tied => Block::new().when(head_bias, |b| b.param("lm_head.bias", Role::Head, &[vocab])),
            Task::Causal => Block::new().linear("lm_head", Role::Head, vocab, hidden, head_bias),
            Task::Sequence(labels) => Block::new().linear("score", Role::TaskHead, labels, hidden, false),
            Task::Token(labels) => Block::new().linear("score", Role::TaskHead, labels, hidden, true),
            Task::Question => Block::new().linear("qa_outputs", Role::TaskHead, 2, hidden, true),
        };
        self.once("", head);
        self.parts
    }

    /// Ends without anything more.
    pub fn done(self) -> Parts {
        self.parts
    }
}

/// Which layers look back how far: by `layer_types` if the file has it, else by a pattern.
pub fn windows(c: Section<'_>, layers: u64, window: Option<u64>, pattern: impl Fn(u64) -> bool) -> Vec<Window> {
    let types = c.strings("layer_types");
    let kind = |index: u64| {
        let named = usize::try_from(index).ok().and_then(|index| types.get(index)).copied();
        let slides = match named {
            Some(name) => name.contains("sliding") || name.contains("swa") || name.contains("local"),
            None => pattern(index),
        };
        match (slides, window) {
            (true, Some(window)) => Window::Sliding(window),
            _ => Window::Full,
        }
    };
    (0..layers).map(kind).collect()
}
