//! What a key contributes to parameters, bytes and cache, with the numbers put in.
//!
//! A product is printed only when it gives the number beside it: sums come from the inventory, never from a formula
//! that might not hold for the family.

use super::keys::Subject;
use super::{CACHE_BYTES, LANGUAGE, count, method, sequence, size};
use crate::explain::markdown;
use crate::explain::texts::{fill, text};
use crate::log::units::grouped;
use crate::model::Model;
use crate::model::inventory::{Part, Role, Tensor};
use crate::model::kv_cache::{self, Cache};

/// What a key contributes; none where nothing certain can be said.
pub fn contribution(model: &Model, subject: Subject) -> Vec<String> {
    match subject {
        Subject::ModelType | Subject::Class => whole(model),
        Subject::Hidden => embedding(model).into_iter().collect(),
        Subject::Layers => layers(model).into_iter().collect(),
        Subject::Heads => queries(model).into_iter().chain(share_of(model, &[Role::Attention])).collect(),
        Subject::KvHeads => keys_and_values(model).into_iter().chain(cache(model)).chain(grouped_heads(model)).collect(),
        Subject::HeadDim => cache(model),
        Subject::Intermediate => share_of(model, &[Role::Mlp]).into_iter().collect(),
        Subject::Vocab => embedding(model).into_iter().chain(head(model)).collect(),
        Subject::Tied => head(model).into_iter().collect(),
        Subject::Positions => context(model).into_iter().chain(share_of(model, &[Role::Position])).collect(),
        Subject::Dtype => dtype(model).into_iter().collect(),
        Subject::Experts | Subject::ExpertWidth => share_of(model, &[Role::Expert]).into_iter().chain(active(model)).collect(),
        Subject::ActiveExperts => active(model).into_iter().collect(),
        Subject::SharedExperts => share_of(model, &[Role::SharedExpert]).into_iter().collect(),
        Subject::Window | Subject::Latent | Subject::LatentRotary => cache(model),
        Subject::Quantization => stored(model).into_iter().collect(),
        Subject::Attention => Vec::new(),
        Subject::Free(_) => vec![text(LANGUAGE, "config.use.free").to_owned()],
    }
}

fn whole(model: &Model) -> Vec<String> {
    let key = if model.active() == model.total() { "config.use.whole" } else { "config.use.whole-active" };
    let values = [("class", markdown::code(&model.architecture)), ("total", grouped(model.total())), ("active", grouped(model.active()))];
    let notes = model.notes.iter().map(|note| markdown::escape(note));
    std::iter::once(fill(LANGUAGE, key, &values)).chain(notes).collect()
}

fn embedding(model: &Model) -> Option<String> {
    let d = &model.dimensions;
    let product = d.vocab.checked_mul(d.hidden).filter(|&product| product > 0 && product == model.embedding())?;
    let values = [
        ("vocab", grouped(d.vocab)),
        ("hidden", grouped(d.hidden)),
        ("product", grouped(product)),
        ("share", share(model, product.into())),
    ];
    Some(fill(LANGUAGE, "config.use.embedding", &values))
}

fn head(model: &Model) -> Option<String> {
    let d = &model.dimensions;
    if model.tied {
        let saved = d.vocab.checked_mul(d.hidden).filter(|&saved| saved > 0 && saved == model.embedding())?;
        return Some(fill(LANGUAGE, "config.use.tied", &[("saved", grouped(saved)), ("bytes", at_dtype(model, saved))]));
    }
    let head = model.head();
    (head > 0).then(|| fill(LANGUAGE, "config.use.head", &[("head", grouped(head)), ("bytes", at_dtype(model, head))]))
}

/// The bytes of parameters in the stored dtype.
fn at_dtype(model: &Model, parameters: u64) -> String {
    size(parameters.saturating_mul(model.stored_dtype().bytes()))
}

fn layers(model: &Model) -> Option<String> {
    let inside = |group: &&crate::model::inventory::Group| group.layer && matches!(group.part, Part::Text | Part::Encoder | Part::Decoder);
    let sum = model.inventory.groups.iter().filter(inside).map(|group| group.sum(|tensor| tensor.copies)).fold(0, u128::saturating_add);
    let values = [
        ("layers", grouped(model.dimensions.layers)),
        ("sum", grouped(narrow(sum))),
        ("total", grouped(model.total())),
        ("share", share(model, sum)),
    ];
    (sum > 0).then(|| fill(LANGUAGE, "config.use.layers", &values))
}

/// `heads x width` of the queries, where a projection of the attention has this width.
fn queries(model: &Model) -> Option<String> {
    let d = &model.dimensions;
    let product = d.heads.checked_mul(d.head_dim).filter(|&product| product > 0)?;
    let wide = |tensor: &Tensor| tensor.out_in().is_some_and(|(out, input)| out == product || input == product);
    let made = |tensor: &Tensor| tensor.role == Role::Attention && wide(tensor);
    let holds = model.inventory.groups.iter().flat_map(|group| &group.tensors).any(made);
    holds.then(|| heads_times_width("config.use.heads", d.heads, d.head_dim, product))
}

/// The same of keys and values, where every layer caches them in this width.
fn keys_and_values(model: &Model) -> Option<String> {
    let d = &model.dimensions;
    let product = d.kv_heads.checked_mul(d.head_dim).filter(|&product| product > 0)?;
    let uniform = every_cache(model, |heads, key, value| heads == d.kv_heads && key == product && value == product);
    uniform.then(|| heads_times_width("config.use.kv-heads", d.kv_heads, d.head_dim, product))
}

fn heads_times_width(key: &str, heads: u64, width: u64, product: u64) -> String {
    fill(LANGUAGE, key, &[("heads", grouped(heads)), ("width", grouped(width)), ("product", grouped(product))])
}

/// Are there layers that keep keys and values, and is it so for heads, key width and value width of each?
fn every_cache(model: &Model, holds: impl Fn(u64, u64, u64) -> bool) -> bool {
    let mut caches = model.inventory.groups.iter().flat_map(|group| &group.caches).peekable();
    caches.peek().is_some()
        && caches.all(|cache| match *cache {
            Cache::Full { heads, key, value } | Cache::Sliding { heads, key, value, .. } | Cache::Chunked { heads, key, value, .. } => {
                holds(heads, key, value)
            }
            _ => false,
        })
}

fn share_of(model: &Model, roles: &[Role]) -> Option<String> {
    let sum = model.inventory.sum(|tensor| if roles.contains(&tensor.role) { tensor.copies } else { 0 });
    let key = match roles.first()? {
        Role::Attention => "config.use.attention",
        Role::Mlp => "config.use.mlp",
        Role::Position => "config.use.position",
        Role::SharedExpert => "config.use.shared-experts",
        _ => "config.use.experts",
    };
    let values = [("sum", grouped(narrow(sum))), ("total", grouped(model.total())), ("share", share(model, sum))];
    (sum > 0).then(|| fill(LANGUAGE, key, &values))
}

fn active(model: &Model) -> Option<String> {
    if model.active() == model.total() {
        return None;
    }
    let d = &model.dimensions;
    let values = [
        ("active", grouped(model.active())),
        ("total", grouped(model.total())),
        ("of", grouped(d.active_experts)),
        ("experts", grouped(d.experts)),
    ];
    let key = if d.experts > 0 && d.active_experts > 0 { "config.use.active" } else { "config.use.active-plain" };
    Some(fill(LANGUAGE, key, &values))
}

/// What a token adds to the cache, by kind of layer.
fn cache(model: &Model) -> Vec<String> {
    let per_token = model.kv_bytes_per_token(CACHE_BYTES);
    if per_token == 0 {
        return Vec::new();
    }
    let d = &model.dimensions;
    let kinds = kv_cache::kinds(&model.inventory);
    let kept: Vec<_> = kinds.iter().filter(|sum| sum.per_token > 0 && !matches!(sum.kind, "indexer" | "cross")).collect();
    let factors = [2, d.kv_heads, d.head_dim, CACHE_BYTES];
    let formula = match kept.as_slice() {
        [one] if one.kind != "latent" => {
            factors.iter().try_fold(one.layers, |product, &factor| product.checked_mul(factor)) == Some(per_token)
        }
        _ => false,
    };
    let one_kind = kept.first().map_or(0, |sum| sum.layers);
    let values = [
        ("layers", grouped(one_kind)),
        ("heads", grouped(d.kv_heads)),
        ("width", grouped(d.head_dim)),
        ("product", grouped(per_token)),
        ("bytes", size(per_token)),
    ];
    let mut out = vec![fill(LANGUAGE, if formula { "config.use.kv" } else { "config.use.kv-sum" }, &values)];
    if kept.len() > 1 || kept.iter().any(|sum| sum.window.is_some()) || !formula {
        let line = |sum: &&kv_cache::KindSum| {
            let bytes = size(sum.per_token.saturating_mul(CACHE_BYTES));
            let values = [
                ("layers", grouped(sum.layers)),
                ("kind", sum.kind.to_owned()),
                ("bytes", bytes),
                ("tokens", grouped(sum.window.unwrap_or(0))),
            ];
            fill(LANGUAGE, if sum.window.is_some() { "config.use.kv-kind-window" } else { "config.use.kv-kind" }, &values)
        };
        out.push(kept.iter().map(line).collect::<Vec<_>>().join("\n"));
    }
    out
}

/// How much smaller grouped heads make the cache.
fn grouped_heads(model: &Model) -> Option<String> {
    let d = &model.dimensions;
    let uniform = every_cache(model, |heads, _, _| heads == d.kv_heads);
    if !uniform || d.kv_heads == 0 || d.heads <= d.kv_heads || !d.heads.is_multiple_of(d.kv_heads) {
        return None;
    }
    let values = [("group", grouped(d.heads / d.kv_heads)), ("heads", grouped(d.heads))];
    Some(fill(LANGUAGE, "config.use.grouped", &values))
}

fn context(model: &Model) -> Option<String> {
    let length = model.dimensions.positions;
    let per_token = model.kv_bytes_per_token(CACHE_BYTES);
    let bytes = sequence(model, length);
    let product = per_token.checked_mul(length).filter(|&product| product > 0)?;
    let values = [("tokens", grouped(length)), ("per", grouped(per_token)), ("bytes", size(bytes))];
    Some(fill(LANGUAGE, if product == bytes { "config.use.context" } else { "config.use.context-bounded" }, &values))
}

fn dtype(model: &Model) -> Option<String> {
    let dtype = model.stored_dtype();
    if model.quantization.is_some() {
        return Some(text(LANGUAGE, "config.use.dtype-quantised").to_owned());
    }
    let bytes = model.weights_bytes()?;
    let values =
        [("total", grouped(model.total())), ("element", dtype.bytes().to_string()), ("product", grouped(bytes)), ("bytes", size(bytes))];
    model.dtype.is_some().then(|| fill(LANGUAGE, "config.use.dtype", &values))
}

fn stored(model: &Model) -> Option<String> {
    let quantization = model.quantization.as_ref()?;
    let name = markdown::code(&method(model));
    let Some(bytes) = model.weights_bytes() else {
        return Some(fill(LANGUAGE, "config.use.stored-unknown", &[("method", name)]));
    };
    let plain = model.total().saturating_mul(model.stored_dtype().bytes());
    let values = [
        ("method", name),
        ("summary", markdown::escape(&quantization.summary)),
        ("bytes", size(bytes)),
        ("plain", size(plain)),
        ("dtype", model.stored_dtype().name().to_owned()),
        ("bits", format!("{:.2}", bytes as f64 * 8.0 / model.total() as f64)),
        ("total", count(model.total())),
    ];
    Some(fill(LANGUAGE, if quantization.exact { "config.use.stored" } else { "config.use.stored-about" }, &values))
}

/// A part of all parameters, in per cent.
fn share(model: &Model, part: u128) -> String {
    format!("{:.1} %", part as f64 * 100.0 / model.total() as f64)
}

fn narrow(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}
