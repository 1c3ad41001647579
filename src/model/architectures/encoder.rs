//! Text encoders of the BERT form: bert, roberta and kin, electra, albert, distilbert, mpnet, dpr.
//! The class decides pooler and head; without a class the
//! pre-training head is taken and the count is called uncertain.

use super::blocks::Block;
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, Task};
use super::{Source, labels};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

/// Which head a class has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// None.
    Base,
    /// Masked language model.
    MaskedLm,
    /// Causal language model on an encoder.
    Causal,
    /// The heads of pre-training.
    PreTraining,
    /// Next-sentence prediction.
    NextSentence,
    /// Classifier of a text.
    Sequence,
    /// Classifier of tokens.
    Token,
    /// Start and end of an answer.
    Question,
    /// Multiple choice.
    Choice,
}

/// The head that a class name stands for; none when the file names no class.
pub fn kind(class: &str) -> Option<Kind> {
    Some(match class {
        "" => return None,
        name if name.ends_with("ForMaskedLM") || name.ends_with("WithLMHead") => Kind::MaskedLm,
        name if name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel") => Kind::Causal,
        name if name.ends_with("ForPreTraining") => Kind::PreTraining,
        name if name.ends_with("ForNextSentencePrediction") => Kind::NextSentence,
        name if name.ends_with("ForSequenceClassification") => Kind::Sequence,
        name if name.ends_with("ForTokenClassification") => Kind::Token,
        name if name.ends_with("ForQuestionAnswering") => Kind::Question,
        name if name.ends_with("ForMultipleChoice") => Kind::Choice,
        _ => Kind::Base,
    })
}

/// A request without a head, for stacks that add their heads themselves.
pub const NO_HEAD: Request = Request { task: Task::Bare, tied: None, nested: false };

const BERT: Defaults = Defaults::of([30522, 768, 3072, 12, 12, 0, 0, 512], true);

/// Where the families of the BERT form differ.
struct Form {
    default: Defaults,
    types: u64,
    /// Width of the embedding where it is not the hidden width.
    embedding: Option<u64>,
    /// Whether a pooler belongs to a head.
    pooler: fn(Kind) -> bool,
    /// Whether the classifier of texts has a hidden layer.
    deep_classifier: bool,
}

fn bert_pooler(kind: Kind) -> bool {
    matches!(kind, Kind::Base | Kind::Sequence | Kind::Choice | Kind::NextSentence | Kind::PreTraining)
}

/// bert, megatron-bert, ernie, nezha: one form.
pub fn bert(source: &Source<'_>) -> Result<Parts> {
    let default = if source.model_type == "megatron-bert" { Defaults::of([29056, 1024, 4096, 24, 16, 0, 0, 512], true) } else { BERT };
    let form = Form { default, types: 2, embedding: None, pooler: bert_pooler, deep_classifier: false };
    encoder(source, &form)
}

/// roberta, xlm-roberta, camembert, data2vec-text: a pooler only on the bare model.
pub fn roberta(source: &Source<'_>) -> Result<Parts> {
    let vocab = if source.model_type == "roberta" || source.model_type.is_empty() { 50265 } else { 30522 };
    let form = Form {
        default: Defaults { vocab, ..BERT },
        types: 2,
        embedding: None,
        pooler: |kind| matches!(kind, Kind::Base | Kind::Choice),
        deep_classifier: true,
    };
    encoder(source, &form)
}

/// electra: a narrow embedding, no pooler.
pub fn electra(source: &Source<'_>) -> Result<Parts> {
    let default = Defaults::of([30522, 256, 1024, 12, 4, 0, 0, 512], true);
    let form =
        Form { default, types: 2, embedding: Some(source.root.int("embedding_size", 128)?), pooler: |_| false, deep_classifier: true };
    encoder(source, &form)
}

fn encoder(source: &Source<'_>, form: &Form) -> Result<Parts> {
    let c = source.root;
    let mut d = Dimensions::read(c, &form.default)?;
    (d.kv_heads, d.head_dim) = (d.heads, d.hidden / d.heads);
    let named = kind(source.class);
    let kind = named.unwrap_or(if c.has("model_type") { Kind::MaskedLm } else { Kind::Base });
    let width = form.embedding.unwrap_or(d.hidden);
    let task_types = c.int("task_type_vocab_size", 3)?;
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, d.vocab, width)
        .embedding("position_embeddings", Role::Position, d.positions, width)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", form.types)?, width)
        .when(c.bool("use_task_id", false)?, |block| block.embedding("task_type_embeddings", Role::Position, task_types, width))
        .layer_norm("embeddings.LayerNorm", width)
        .when(width != d.hidden, |block| block.linear("embeddings_project", Role::Projector, d.hidden, width, true));
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "encoder.layer.{i}", Part::Text);
    stack.once("embeddings", embedding);
    let decodes = c.bool("is_decoder", false)?;
    let layer = Block::new()
        .encoder_layer(d.hidden, d.intermediate)
        .when(decodes && kind == Kind::Causal, |block| block.cache(d.attention().cache(super::blocks::Window::Full)))
        .when(decodes && c.bool("add_cross_attention", false)?, |block| crossed(block, &d));
    stack.layers(d.layers, &layer);
    if (form.pooler)(kind) {
        stack.once("", Block::new().linear("pooler.dense", Role::TaskHead, d.hidden, d.hidden, true));
    }
    let tied = c.bool("tie_word_embeddings", true)?;
    let discriminator = source.model_type == "electra" && kind == Kind::PreTraining;
    let head = match kind {
        _ if discriminator => Block::new().linear("discriminator_predictions.dense", Role::TaskHead, d.hidden, d.hidden, true).linear(
            "discriminator_predictions.dense_prediction",
            Role::TaskHead,
            1,
            d.hidden,
            true,
        ),
        // The generator of electra has one bias only.
        Kind::MaskedLm | Kind::Causal if source.model_type == "electra" && !tied => {
            let mut head = lm_head(d.hidden, width, d.vocab, tied);
            head.tensors.retain(|tensor| tensor.path != "lm_head.bias");
            head
        }
        Kind::MaskedLm | Kind::Causal | Kind::PreTraining => lm_head(d.hidden, width, d.vocab, tied),
        // The summary of electra has a hidden layer before a choice too.
        Kind::Choice if source.model_type == "electra" => {
            task_head(c, kind, d.hidden, false)?.linear("sequence_summary.summary", Role::TaskHead, d.hidden, d.hidden, true)
        }
        _ => task_head(c, kind, d.hidden, form.deep_classifier)?,
    };
    let head = head
        .when(kind == Kind::PreTraining && !discriminator, |block| block.linear("cls.seq_relationship", Role::TaskHead, 2, d.hidden, true));
    stack.once("", head);
    finish(stack, named, tied && matches!(kind, Kind::MaskedLm | Kind::Causal | Kind::PreTraining))
}

/// Attention to an encoder, in the layers of a decoder of this form.
fn crossed(block: Block, d: &Dimensions) -> Block {
    let attention = d.attention().biases(true, true);
    super::seq2seq::cross(block, "crossattention", &attention, ["query", "key", "value", "output"])
        .layer_norm("crossattention.output.LayerNorm", d.hidden)
}

/// Ends an encoder; without a class the head is a guess.
pub fn finish(mut stack: Stack, named: Option<Kind>, tied: bool) -> Result<Parts> {
    if named.is_none() {
        stack.inexact("the file names no class (`architectures`), so which head is stored is a guess");
    }
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}

/// Transform, norm and (shared) decoder of a masked language model.
pub fn lm_head(hidden: u64, width: u64, vocab: u64, tied: bool) -> Block {
    Block::new()
        .linear("lm_head.dense", Role::TaskHead, width, hidden, true)
        .layer_norm("lm_head.layer_norm", width)
        // Untied, the decoder has a bias of its own beside the one that is else shared.
        .when(!tied, |block| block.linear("lm_head.decoder", Role::Head, vocab, width, true))
        .param("lm_head.bias", Role::Head, &[vocab])
}

/// The classifier of a task.
pub fn task_head(c: Section<'_>, kind: Kind, hidden: u64, deep: bool) -> Result<Block> {
    let out = |block: Block, rows: u64| block.linear("classifier.out_proj", Role::TaskHead, rows, hidden, true);
    let dense = |block: Block| block.linear("classifier.dense", Role::TaskHead, hidden, hidden, true);
    Ok(match kind {
        Kind::Sequence => out(Block::new().when(deep, dense), labels(c)?),
        Kind::Token => out(Block::new(), labels(c)?),
        Kind::Question | Kind::NextSentence => out(Block::new(), 2),
        Kind::Choice => out(Block::new(), 1),
        _ => Block::new(),
    })
}

/// dpr: BERT without a pooler, and a projection where the file asks for one.
pub fn dpr(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let d = Dimensions::read(c, &BERT)?;
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, d.vocab, d.hidden)
        .embedding("position_embeddings", Role::Position, d.positions, d.hidden)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", 2)?, d.hidden)
        .layer_norm("embeddings.LayerNorm", d.hidden);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "encoder.layer.{i}", Part::Text);
    stack.once("embeddings", embedding);
    stack.layers(d.layers, &Block::new().encoder_layer(d.hidden, d.intermediate));
    let projection = c.int("projection_dim", 0)?;
    let width = if projection > 0 { projection } else { d.hidden };
    let mut head = Block::new().when(projection > 0, |block| block.linear("encode_proj", Role::Projector, projection, d.hidden, true));
    if source.class == "DPRReader" {
        head = head.linear("qa_outputs", Role::TaskHead, 2, width, true).linear("qa_classifier", Role::TaskHead, 1, width, true);
    }
    stack.once("", head);
    Ok(stack.done())
}

/// albert: one layer (or a few groups) used by all; a narrow embedding.
pub fn albert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let d = Dimensions::read(c, &Defaults::of([30000, 4096, 16384, 12, 64, 0, 0, 512], true))?;
    let width = c.int("embedding_size", 128)?;
    let named = kind(source.class);
    let kind = named.unwrap_or(Kind::MaskedLm);
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, d.vocab, width)
        .embedding("position_embeddings", Role::Position, d.positions, width)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", 2)?, width)
        .layer_norm("embeddings.LayerNorm", width)
        .linear("embedding_hidden_mapping_in", Role::Projector, d.hidden, width, true);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "encoder.albert_layer_groups.{i}", Part::Text);
    stack.once("embeddings", embedding);
    let groups = c.layers("num_hidden_groups", 1)?.saturating_mul(c.layers("inner_group_num", 1)?);
    stack.layers(groups.min(crate::model::config::MAX_LAYERS), &Block::new().encoder_layer(d.hidden, d.intermediate));
    if matches!(kind, Kind::Base | Kind::Sequence | Kind::Choice | Kind::PreTraining) {
        stack.once("", Block::new().linear("pooler", Role::TaskHead, d.hidden, d.hidden, true));
    }
    let tied = c.bool("tie_word_embeddings", true)?;
    let head = match kind {
        Kind::MaskedLm | Kind::PreTraining => lm_head(d.hidden, width, d.vocab, tied),
        _ => task_head(c, kind, d.hidden, false)?,
    };
    let rows = labels(c)?;
    stack.once("", head.when(kind == Kind::PreTraining, |block| block.linear("sop_classifier", Role::TaskHead, rows, d.hidden, true)));
    finish(stack, named, tied && matches!(kind, Kind::MaskedLm | Kind::PreTraining))
}

/// distilbert: no token types, no pooler.
pub fn distilbert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut d = Dimensions::read(c, &Defaults::of([30522, 768, 3072, 6, 12, 0, 0, 512], true))?;
    d.hidden = c.int("dim|hidden_size", 768)?;
    d.intermediate = c.int("hidden_dim|intermediate_size", 3072)?;
    let named = kind(source.class);
    let kind = named.unwrap_or(Kind::MaskedLm);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "transformer.layer.{i}", Part::Text);
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, d.vocab, d.hidden)
        .embedding("position_embeddings", Role::Position, d.positions, d.hidden)
        .layer_norm("embeddings.LayerNorm", d.hidden);
    stack.once("embeddings", embedding);
    stack.layers(d.layers, &Block::new().encoder_layer(d.hidden, d.intermediate));
    let tied = c.bool("tie_word_embeddings", true)?;
    let deep = matches!(kind, Kind::Sequence | Kind::Choice);
    let head = match kind {
        Kind::MaskedLm => {
            // One bias, whether the decoder is shared or not.
            let mut head = lm_head(d.hidden, d.hidden, d.vocab, tied);
            head.tensors.retain(|tensor| tied || tensor.path != "lm_head.bias");
            head
        }
        _ => task_head(c, kind, d.hidden, false)?
            .when(deep, |block| block.linear("pre_classifier", Role::TaskHead, d.hidden, d.hidden, true)),
    };
    stack.once("", head);
    finish(stack, named, tied && kind == Kind::MaskedLm)
}

/// mpnet: relative positions shared by all layers beside learned ones.
pub fn mpnet(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let d = Dimensions::read(c, &Defaults { vocab: 30527, ..BERT })?;
    let named = kind(source.class);
    let kind = named.unwrap_or(Kind::MaskedLm);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "encoder.layer.{i}", Part::Text);
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, d.vocab, d.hidden)
        .embedding("position_embeddings", Role::Position, d.positions, d.hidden)
        .layer_norm("embeddings.LayerNorm", d.hidden)
        .embedding("relative_attention_bias", Role::Position, c.int("relative_attention_num_buckets", 32)?, d.heads);
    stack.once("embeddings", embedding);
    stack.layers(d.layers, &Block::new().encoder_layer(d.hidden, d.intermediate));
    if matches!(kind, Kind::Base | Kind::Choice) {
        stack.once("", Block::new().linear("pooler.dense", Role::TaskHead, d.hidden, d.hidden, true));
    }
    let tied = c.bool("tie_word_embeddings", true)?;
    let head = if kind == Kind::MaskedLm { lm_head(d.hidden, d.hidden, d.vocab, tied) } else { task_head(c, kind, d.hidden, true)? };
    stack.once("", head);
    finish(stack, named, tied && kind == Kind::MaskedLm)
}
