//! Further text encoders near BERT: rembert, roformer, esm, bert-generation, squeezebert, mobilebert,
//! fnet, splinter, xlm, flaubert, canine, gte, jina_embeddings_v3.

use super::Source;
use super::blocks::{Attention, Block, Norm, mul};
use super::decoder::{Defaults, Dimensions, Parts, Stack};
use super::encoder::{Kind, NO_HEAD, finish, kind, lm_head, task_head};
use crate::model::config::Result;
use crate::model::inventory::{Part, Role};

/// Defaults of BERT.
pub(super) const BERT: Defaults = Defaults::of([30522, 768, 3072, 12, 12, 0, 0, 512], true);

/// What the encoders of this file share: sizes, the head's kind, an empty stack.
pub(super) struct Form {
    /// Sizes.
    pub d: Dimensions,
    named: Option<Kind>,
    /// The head.
    pub kind: Kind,
    /// The tensors so far.
    pub stack: Stack,
    /// Whether the head shares the embedding.
    pub tied: bool,
}

/// Reads what the encoders share.
pub(super) fn form(source: &Source<'_>, default: Defaults) -> Result<Form> {
    let mut d = Dimensions::read(source.root, &default)?;
    (d.kv_heads, d.head_dim) = (d.heads, d.hidden / d.heads);
    let named = kind(source.class);
    let stack = Stack::bare(d.clone(), NO_HEAD, "encoder.layer.{i}", Part::Text);
    let tied = source.root.bool("tie_word_embeddings", default.tied)?;
    Ok(Form { d, named, kind: named.unwrap_or(Kind::MaskedLm), stack, tied })
}

impl Form {
    /// Whether the class predicts words.
    pub(super) fn lm(&self) -> bool {
        matches!(self.kind, Kind::MaskedLm | Kind::Causal | Kind::PreTraining)
    }

    /// A hidden layer on the first word.
    pub(super) fn pooler(&mut self, wanted: bool) {
        let hidden = self.d.hidden;
        self.stack.once("", Block::new().when(wanted, |block| block.linear("pooler.dense", Role::TaskHead, hidden, hidden, true)));
    }

    /// Words, positions and kinds of text with a norm.
    pub(super) fn embeddings(&mut self, types: u64, positions: bool) {
        let d = &self.d;
        let block = Block::new()
            .embedding("word_embeddings", Role::Embedding, d.vocab, d.hidden)
            .when(positions, |block| block.embedding("position_embeddings", Role::Position, d.positions, d.hidden))
            .when(types > 0, |block| block.embedding("token_type_embeddings", Role::Position, types, d.hidden))
            .layer_norm("LayerNorm", d.hidden);
        self.stack.once("embeddings", block);
    }

    /// The layers, of BERT's form.
    pub(super) fn encoder_layers(&mut self) {
        self.stack.layers(self.d.layers, &Block::new().encoder_layer(self.d.hidden, self.d.intermediate));
    }

    /// Adds the head and ends. The pre-training head and untied heads of these families are not all alike.
    pub(super) fn end(mut self, source: &Source<'_>, deep: bool) -> Result<Parts> {
        let head = if self.lm() {
            lm_head(self.d.hidden, self.d.hidden, self.d.vocab, self.tied)
        } else {
            task_head(source.root, self.kind, self.d.hidden, deep)?
        };
        self.stack.once("", head);
        let (tied, unsure) = (self.tied && self.lm(), self.lm() && (!self.tied || self.kind == Kind::PreTraining));
        self.finish(tied, unsure)
    }

    /// Ends; `unsure` where the head is not known for certain.
    pub(super) fn finish(mut self, tied: bool, unsure: bool) -> Result<Parts> {
        if unsure {
            self.stack.inexact("which bias and head this class keeps is not known");
        }
        finish(self.stack, self.named, tied)
    }
}

/// rembert: a narrow embedding in front, a wide one of its own in the head.
pub fn rembert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults::of([250_300, 1152, 4608, 32, 18, 0, 0, 512], false))?;
    let (narrow, wide) = (c.int("input_embedding_size", 256)?, c.int("output_embedding_size", 1664)?);
    let (hidden, vocab) = (f.d.hidden, f.d.vocab);
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, vocab, narrow)
        .embedding("position_embeddings", Role::Position, f.d.positions, narrow)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", 2)?, narrow)
        .layer_norm("LayerNorm", narrow)
        .linear("embedding_hidden_mapping_in", Role::Projector, hidden, narrow, true);
    f.stack.once("embeddings", embedding);
    f.stack.layers(f.d.layers, &Block::new().encoder_layer(hidden, f.d.intermediate));
    f.pooler(matches!(f.kind, Kind::Base | Kind::Sequence | Kind::Choice));
    let head = if f.lm() {
        Block::new()
            .linear("cls.predictions.dense", Role::TaskHead, wide, hidden, true)
            .linear("cls.predictions.decoder", Role::Head, vocab, wide, true)
            .layer_norm("cls.predictions.LayerNorm", wide)
    } else {
        task_head(c, f.kind, hidden, false)?
    };
    f.stack.once("", head);
    let unsure = f.tied;
    f.finish(false, unsure)
}

/// roformer: rotary positions from a stored table.
pub fn roformer(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults { vocab: 50000, positions: 1536, ..BERT })?;
    let width = c.int("embedding_size", f.d.hidden)?;
    let (hidden, vocab) = (f.d.hidden, f.d.vocab);
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, vocab, width)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", 2)?, width)
        .layer_norm("LayerNorm", width)
        .when(width != hidden, |block| block.linear("embeddings_project", Role::Projector, hidden, width, true))
        .embedding("embed_positions", Role::Position, f.d.positions, f.d.head_dim);
    f.stack.once("embeddings", embedding);
    f.stack.layers(f.d.layers, &Block::new().encoder_layer(hidden, f.d.intermediate));
    let head = if f.lm() { lm_head(hidden, width, vocab, f.tied) } else { task_head(c, f.kind, hidden, true)? };
    f.stack.once("", head);
    let (tied, unsure) = (f.tied && f.lm(), (f.lm() && !f.tied) || f.kind == Kind::Choice);
    f.finish(tied, unsure)
}

/// esm: a language model of proteins, norms before the sub-layers, a small head over all attention maps.
pub fn esm(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults::of([33, 768, 3072, 12, 12, 0, 0, 1026], true))?;
    let hidden = f.d.hidden;
    let learned = c.str("position_embedding_type").unwrap_or("absolute") != "rotary";
    let maps = mul(f.d.layers, f.d.heads);
    let first_norm = c.bool("emb_layer_norm_before", false)?;
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, f.d.vocab, hidden)
        .when(learned, |block| block.embedding("position_embeddings", Role::Position, f.d.positions, hidden))
        .when(first_norm, |block| block.layer_norm("layer_norm", hidden))
        .layer_norm("encoder.emb_layer_norm_after", hidden)
        .linear("contact_head.regression", Role::TaskHead, 1, maps, true);
    f.stack.once("esm", embedding);
    f.stack.layers(f.d.layers, &Block::new().encoder_layer(hidden, f.d.intermediate));
    let fold = c.bool("is_folding_model", false)?;
    f.pooler(f.kind == Kind::Base);
    if fold || !c.has("vocab_size") {
        f.stack.inexact("the file names no vocabulary, or a folding model, whose parts are not counted");
    }
    if f.lm() {
        let head = Block::new()
            .linear("lm_head.dense", Role::TaskHead, hidden, hidden, true)
            .layer_norm("lm_head.layer_norm", hidden)
            .when(!f.tied, |block| block.linear("lm_head.decoder", Role::Head, f.d.vocab, hidden, false))
            .param("lm_head.bias", Role::Head, &[f.d.vocab]);
        f.stack.once("", head);
    } else {
        f.stack.once("", task_head(c, f.kind, hidden, true)?);
    }
    let tied = f.tied && f.lm();
    f.finish(tied, false)
}

/// bert-generation: BERT without kinds of text and without a pooler.
pub fn bert_generation(source: &Source<'_>) -> Result<Parts> {
    let mut f = form(source, Defaults::of([50358, 1024, 4096, 24, 16, 0, 0, 512], true))?;
    f.embeddings(0, true);
    f.stack.layers(f.d.layers, &Block::new().encoder_layer(f.d.hidden, f.d.intermediate));
    let decoder = source.class.ends_with("Decoder");
    let (vocab, hidden, own) = (f.d.vocab, f.d.hidden, !f.tied);
    f.stack.once(
        "",
        Block::new().when(decoder, |block| {
            block.when(own, |block| block.linear("lm_head.decoder", Role::Head, vocab, hidden, false)).param(
                "lm_head.bias",
                Role::Head,
                &[vocab],
            )
        }),
    );
    let (tied, unsure) = (f.tied && decoder, decoder && own);
    f.finish(tied, unsure || source.root.bool("add_cross_attention", false)?)
}

/// squeezebert: the projections are convolutions in groups.
pub fn squeezebert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, BERT)?;
    f.embeddings(c.int("type_vocab_size", 2)?, true);
    let (hidden, width) = (f.d.hidden, f.d.intermediate);
    let grouped =
        |block: Block, name: &str, out: u64, input: u64, groups: u64| block.conv(name, Role::Attention, &[out, input / groups, 1], true);
    let layer = grouped(Block::new(), "attention.query", hidden, hidden, c.divisor("q_groups", 4)?);
    let layer = grouped(layer, "attention.key", hidden, hidden, c.divisor("k_groups", 4)?);
    let layer = grouped(layer, "attention.value", hidden, hidden, c.divisor("v_groups", 4)?);
    let layer = grouped(layer, "post_attention.conv1d", hidden, hidden, c.divisor("post_attention_groups", 1)?);
    let layer = grouped(layer, "intermediate.conv1d", width, hidden, c.divisor("intermediate_groups", 4)?);
    let layer = grouped(layer, "output.conv1d", hidden, width, c.divisor("output_groups", 4)?);
    f.stack.layers(f.d.layers, &layer.layer_norm("post_attention.layernorm", hidden).layer_norm("output.layernorm", hidden));
    f.pooler(true);
    f.end(source, false)
}

/// mobilebert: narrow layers between bottlenecks, several feed-forward parts a layer.
pub fn mobilebert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults::of([30522, 512, 512, 24, 4, 0, 0, 512], true))?;
    let (hidden, width) = (f.d.hidden, f.d.intermediate);
    let narrow_words = c.int("embedding_size", 128)?;
    let bottleneck = c.bool("use_bottleneck", true)?;
    let inner = if bottleneck { c.int("intra_bottleneck_size", 128)? } else { hidden };
    let (share, also) = (c.bool("key_query_shared_bottleneck", true)?, c.bool("use_bottleneck_attention", false)?);
    let parts = c.int("num_feedforward_networks", 4)?;
    let trigram = if c.bool("trigram_input", true)? { 3 } else { 1 };
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, f.d.vocab, narrow_words)
        .embedding("position_embeddings", Role::Position, f.d.positions, hidden)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", 2)?, hidden)
        .linear("embedding_transformation", Role::Projector, hidden, mul(narrow_words, trigram), true)
        .layer_norm("LayerNorm", hidden);
    f.stack.once("embeddings", embedding);
    let with_norm = |block: Block, name: &str, out: u64, input: u64| {
        block.linear(&format!("{name}.dense"), Role::Mlp, out, input, true).layer_norm(&format!("{name}.LayerNorm"), out)
    };
    let value = if also || !bottleneck { inner } else { hidden };
    let layer = Block::new()
        .linear("attention.self.query", Role::Attention, inner, inner, true)
        .linear("attention.self.key", Role::Attention, inner, inner, true)
        .linear("attention.self.value", Role::Attention, inner, value, true);
    let layer = with_norm(layer, "attention.output", inner, inner).linear("intermediate.dense", Role::Mlp, width, inner, true);
    let mut layer = with_norm(layer, "output", inner, width);
    if bottleneck {
        layer = with_norm(layer, "output.bottleneck", hidden, inner);
        layer = with_norm(layer, "bottleneck.input", inner, hidden);
        if share {
            layer = with_norm(layer, "bottleneck.attention", inner, hidden);
        }
    }
    for index in 0..parts.saturating_sub(1).min(64) {
        layer = layer.linear(&format!("ffn.{index}.intermediate.dense"), Role::Mlp, width, inner, true);
        layer = with_norm(layer, &format!("ffn.{index}.output"), inner, width);
    }
    f.stack.layers(f.d.layers, &layer);
    let pools = matches!(f.kind, Kind::Base | Kind::Sequence | Kind::Choice | Kind::NextSentence);
    f.pooler(pools && c.bool("classifier_activation", true)?);
    if c.int("true_hidden_size", inner)? != inner {
        f.stack.inexact("`true_hidden_size` contradicts the sizes of the bottleneck");
    }
    if f.lm() {
        f.stack.inexact("the head of this class is not known");
        return f.finish(true, false);
    }
    f.end(source, false)
}

/// fnet: Fourier transforms instead of attention.
pub fn fnet(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults { vocab: 32000, ..BERT })?;
    f.embeddings(c.int("type_vocab_size", 4)?, true);
    let hidden = f.d.hidden;
    f.stack.once("embeddings", Block::new().linear("projection", Role::Projector, hidden, hidden, true));
    let layer = Block::new()
        .layer_norm("fourier.output.LayerNorm", hidden)
        .plain_mlp("", hidden, f.d.intermediate, ["intermediate.dense", "output.dense"], true)
        .layer_norm("output.LayerNorm", hidden);
    f.stack.layers(f.d.layers, &layer);
    f.pooler(true);
    f.end(source, false)
}

/// xlm and flaubert: names and norms of their own.
pub fn xlm(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults::of([30145, 2048, 0, 12, 16, 0, 0, 512], true))?;
    f.d.hidden = c.int("emb_dim|hidden_size", 2048)?;
    let hidden = f.d.hidden;
    let languages = c.int("n_langs", 1)?;
    let embedding = Block::new()
        .embedding("position_embeddings", Role::Position, f.d.positions, hidden)
        .embedding("embeddings", Role::Embedding, f.d.vocab, hidden)
        .when(languages > 1 && c.bool("use_lang_emb", true)?, |block| block.embedding("lang_embeddings", Role::Position, languages, hidden))
        .layer_norm("layer_norm_emb", hidden);
    f.stack.once("", embedding);
    f.stack.layers(f.d.layers, &Block::new().encoder_layer(hidden, mul(hidden, 4)));
    let vocab = f.d.vocab;
    match f.kind {
        _ if source.class.ends_with("WithLMHeadModel") || f.kind == Kind::MaskedLm => {
            let own = !f.tied;
            f.stack.once(
                "pred_layer",
                Block::new().when(own, |block| block.linear("proj", Role::Head, vocab, hidden, false)).param(
                    "proj.bias",
                    Role::Head,
                    &[vocab],
                ),
            );
        }
        Kind::Base => {}
        // The classifier of texts is the summary's projection.
        Kind::Sequence if !c.bool("summary_use_proj", true)? => {}
        Kind::Token | Kind::Sequence => f.stack.once("", task_head(c, f.kind, hidden, false)?),
        _ => f.stack.inexact("the head of this class is not known"),
    }
    if c.bool("asm", false)? {
        f.stack.inexact("an adaptive softmax is not counted");
    }
    let tied = f.tied && source.class.ends_with("WithLMHeadModel");
    f.finish(tied, false)
}

/// canine: characters in buckets, short layers of characters before and after the deep ones.
pub fn canine(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults { positions: 16384, vocab: 0, ..BERT })?;
    let hidden = f.d.hidden;
    let (functions, buckets) = (c.divisor("num_hash_functions", 8)?.min(64), c.int("num_hash_buckets", 16384)?);
    let block = (0..functions).fold(Block::new(), |block, index| {
        block.embedding(&format!("HashBucketCodepointEmbedder_{index}"), Role::Embedding, buckets, hidden / functions)
    });
    let block = block
        .embedding("char_position_embeddings", Role::Position, buckets, hidden)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", 16)?, hidden)
        .layer_norm("LayerNorm", hidden)
        .conv("chars_to_molecules.conv", Role::Conv, &[hidden, hidden, c.int("downsampling_rate", 4)?], true)
        .layer_norm("chars_to_molecules.LayerNorm", hidden)
        .conv("projection.conv", Role::Conv, &[hidden, mul(hidden, 2), c.int("upsampling_kernel_size", 4)?], true)
        .layer_norm("projection.LayerNorm", hidden);
    f.stack.once("char_embeddings", block);
    f.stack.layers(f.d.layers.saturating_add(2), &Block::new().encoder_layer(hidden, f.d.intermediate));
    f.pooler(true);
    f.stack.once("", task_head(c, f.kind, hidden, false)?);
    f.finish(false, false)
}

/// splinter: BERT without a pooler.
pub fn splinter(source: &Source<'_>) -> Result<Parts> {
    let mut f = form(source, BERT)?;
    f.embeddings(source.root.int("type_vocab_size", 2)?, true);
    f.stack.layers(f.d.layers, &Block::new().encoder_layer(f.d.hidden, f.d.intermediate));
    if f.kind != Kind::Base {
        f.stack.inexact("the head of this class is not known");
    }
    f.finish(false, false)
}

/// gte: rotary positions, a gated feed-forward layer; jina_embeddings_v3: rotary positions.
pub fn rotary(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let gte = source.model_type == "gte";
    let default = if gte {
        Defaults::of([250_048, 768, 3072, 12, 12, 0, 0, 8192], true)
    } else {
        Defaults::of([250_002, 1024, 4096, 24, 16, 0, 0, 8194], true)
    };
    let mut f = form(source, default)?;
    f.embeddings(c.int("type_vocab_size", 1)?, false);
    let (hidden, width) = (f.d.hidden, f.d.intermediate);
    let layer = Block::new()
        .attention_named("self_attn", &Attention::new(hidden, 1, 1, hidden).biases(true, true), ["q_proj", "k_proj", "v_proj", "o_proj"])
        .norm_of(Norm::WeightBias, "post_attention_layernorm", hidden)
        .norm_of(Norm::WeightBias, "post_mlp_layernorm", hidden);
    let layer = if gte {
        // Only the way down has a bias.
        layer.gated_mlp("mlp", hidden, width, false).param("mlp.down_proj.bias", Role::Mlp, &[hidden])
    } else {
        layer.plain_mlp("mlp", hidden, width, ["fc1", "fc2"], true)
    };
    f.stack.layers(f.d.layers, &layer);
    f.pooler(if gte { f.kind == Kind::Sequence } else { f.kind == Kind::Base });
    f.end(source, !gte)
}
