//! A few words behind the keys that decide a model's size.

use super::keys::{self, find};
use super::{CACHE_BYTES, LANGUAGE, View, about, count, method, sequence, size, stored_about};
use crate::explain::texts::fill;
use crate::log::units;
use crate::model::Model;
use crate::model::architectures::decoder::keys as spellings;
use crate::model::json::{Member, Value};
use crate::model::kv_cache::{self, KindSum};

/// Editors cut a hint behind so many characters.
pub const MOST_CHARACTERS: usize = 43;

/// A few words that belong to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The key.
    pub key: String,
    /// Byte of the text behind the key's value; of an object, behind its opening brace.
    pub at: usize,
    /// The words.
    pub text: String,
}

/// The hints of a config.
pub fn of(view: &View, model: &Model) -> Vec<Hint> {
    let language = view.language();
    let mut hints = Vec::new();
    let mut add = |member: Option<&Member>, texts: &[String]| {
        // The fuller text where it is not too long.
        let text = texts.iter().find(|text| text.chars().count() < MOST_CHARACTERS);
        if let (Some(member), Some(text)) = (member, text) {
            let span = &member.node.span;
            let at = if matches!(member.node.value, Value::Object(_)) { span.start + 1 } else { span.end };
            hints.push(Hint { key: member.name.clone(), at, text: text.clone() });
        }
    };
    let guess = || about(model.is_exact());
    let total = || count(model.total());
    if model.active() == model.total() {
        let text = fill(LANGUAGE, "config.hint.parameters", &[("about", guess()), ("total", total())]);
        add(find(language, spellings::LAYERS), &[text]);
    } else {
        let values = [("about", guess()), ("total", total()), ("active", count(model.active()))];
        add(find(language, keys::EXPERTS), &[fill(LANGUAGE, "config.hint.experts", &values)]);
    }
    if model.kv_bytes_per_token(CACHE_BYTES) > 0 {
        add(cached_by(view, model), &kv(model));
        let positions =
            find(language, spellings::POSITIONS).filter(|member| keys::number(&member.node) == Some(model.dimensions.positions));
        if model.dimensions.positions > 0 {
            add(positions, &context(model));
        }
    }
    weights(view, model, add);
    hints
}

/// The key that decides what a token adds to the cache.
fn cached_by<'a>(view: &'a View, model: &Model) -> Option<&'a Member> {
    let language = view.language();
    let latent = kv_cache::kinds(&model.inventory).iter().any(|sum| sum.kind == "latent");
    if latent && let Some(member) = find(language, keys::LATENT) {
        return Some(member);
    }
    find(language, spellings::KV_HEADS).or_else(|| find(language, spellings::HEADS))
}

/// What a token adds to the cache: with the window that bounds it, where one does, and without.
fn kv(model: &Model) -> Vec<String> {
    let values = |tokens: u64| {
        let bytes = size(model.kv_bytes_per_token(CACHE_BYTES));
        [("about", about(model.is_exact())), ("bytes", bytes), ("tokens", units::grouped(tokens))]
    };
    let window = window(model);
    let mut texts: Vec<String> = window.map(|tokens| fill(LANGUAGE, "config.hint.kv-window", &values(tokens))).into_iter().collect();
    texts.push(fill(LANGUAGE, "config.hint.kv", &values(0)));
    texts
}

/// Tokens of the shortest window of a layer that keeps keys and values.
fn window(model: &Model) -> Option<u64> {
    let bounded = |sum: &KindSum| sum.window.filter(|_| sum.per_token > 0);
    kv_cache::kinds(&model.inventory).iter().filter_map(bounded).min()
}

/// The cache at the longest context.
fn context(model: &Model) -> Vec<String> {
    let length = model.dimensions.positions;
    let values = [("about", about(model.is_exact())), ("bytes", size(sequence(model, length))), ("tokens", units::grouped(length))];
    let crosses = kv_cache::kinds(&model.inventory).iter().any(|sum| sum.kind == "cross");
    let key = if crosses { "config.hint.context-decoder" } else { "config.hint.context" };
    vec![fill(LANGUAGE, key, &values)]
}

/// Stored bytes: at the dtype, or at the quantisation, and then what the dtype alone would take.
fn weights(view: &View, model: &Model, mut add: impl FnMut(Option<&Member>, &[String])) {
    let (root, language) = (&view.root, view.language());
    let named = |member: &&Member| matches!(member.node.value, Value::String(_));
    let dtype = find(root, keys::DTYPE).filter(named).or_else(|| find(language, keys::DTYPE).filter(named));
    let read = model.dtype.is_some();
    let object = |member: &&Member| matches!(member.node.value, Value::Object(_));
    let quantised = find(root, keys::QUANTIZATION).filter(object).or_else(|| find(language, keys::QUANTIZATION).filter(object));
    if model.quantization.is_none() {
        if let Some(bytes) = model.weights_bytes().filter(|_| read) {
            add(dtype, &[fill(LANGUAGE, "config.hint.weights", &[("about", about(model.is_exact())), ("bytes", size(bytes))])]);
        }
        return;
    }
    let stored = match model.weights_bytes() {
        Some(bytes) => fill(LANGUAGE, "config.hint.stored", &[("about", stored_about(model)), ("bytes", size(bytes))]),
        None => fill(LANGUAGE, "config.hint.stored-unknown", &[("method", method(model))]),
    };
    add(quantised, &[stored]);
    let whole = model.total().saturating_mul(model.stored_dtype().bytes());
    if read {
        add(dtype, &[fill(LANGUAGE, "config.hint.unquantised", &[("about", about(model.is_exact())), ("bytes", size(whole))])]);
    }
}
