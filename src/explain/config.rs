//! What an editor says about a model's config: hints at its keys, a lens over it, words for each key, marks.
//!
//! Everything is drawn from one [`View`] of a text. A text that is no JSON, or JSON of another kind, has none. Places
//! are byte ranges of that text. Limit: a text above [`MOST_BYTES`] is not looked at, unless it is an index of
//! weights or the history of a run.

pub mod budget;
pub mod completion;
mod contribution;
mod duplicates;
mod fits;
mod hints;
mod hover;
pub mod keys;
pub mod kin;
mod marks;
pub mod pages;
mod terms;

use std::ops::Range;

use super::seen::Card;
use super::texts::{Language, fill};
use crate::log::units;
use crate::model::architectures::decoder::keys as spellings;
use crate::model::checks::Around;
use crate::model::config::{ConfigError, Section};
use crate::model::documents::{self, Document};
use crate::model::json::{self, Node};
use crate::model::kv_cache::{self, Engine};
use crate::model::{self, Model};
use crate::text::floor_border;

pub use budget::Choice;
pub use hints::{Hint, MOST_CHARACTERS};
pub use hover::KeyText;
pub use kin::Kin;
pub use marks::Mark;

/// Longer texts are no configs that anybody edits, and reading them at every keystroke would cost too much.
pub const MOST_BYTES: usize = 2 << 20;
/// An index of weights or the history of a run is longer.
const MOST_LISTING: usize = 32 << 20;
/// How much of the beginning of a long text is searched for the key of such a list, in bytes.
pub const HEAD_BYTES: usize = 64 << 10;
/// The context for which a cache is named over a file.
const USUAL_CONTEXT: u64 = 8192;
/// Bytes of an element of the cache: engines keep it in 16 bits.
const CACHE_BYTES: u64 = 2;
/// Bytes of an element of a recurrent state: transformers keeps it in 32 bits.
const STATE_BYTES: u64 = 4;
/// Words are in this language.
const LANGUAGE: Language = Language::English;

/// What a text is.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A model's config.
    Config(Box<View>),
    /// A file around a model.
    Kin(Box<Kin>),
    /// No JSON, at least not now.
    Broken,
    /// JSON of another kind, or too large.
    Other,
}

/// A model's config and what it describes.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    root: Node,
    document: Document,
    model: Result<Model, ConfigError>,
}

/// Whether a text of so many bytes is too long to be looked at, by its first [`HEAD_BYTES`].
pub fn is_too_long(bytes: usize, head: &str) -> bool {
    let lists = || ["\"weight_map\"", "\"log_history\""].iter().any(|key| head.contains(key));
    bytes > MOST_BYTES && (bytes > MOST_LISTING || !lists())
}

/// Reads a text.
pub fn read(text: &str) -> Outcome {
    if is_too_long(text.len(), &text[..floor_border(text, HEAD_BYTES.min(text.len()))]) {
        return Outcome::Other;
    }
    let Ok(root) = json::parse(text) else {
        return Outcome::Broken;
    };
    let document = documents::recognise(Section::new(&root));
    if !matches!(document, Document::ModelConfig | Document::OriginalParams) {
        return Kin::of(root, document).map_or(Outcome::Other, |kin| Outcome::Kin(Box::new(kin)));
    }
    let model = model::from_section(Section::new(&root));
    Outcome::Config(Box::new(View { root, document, model }))
}

impl View {
    /// The few words that stand behind lines.
    pub fn hints(&self) -> Vec<Hint> {
        self.model.as_ref().map_or_else(|_| Vec::new(), |model| hints::of(self, model))
    }

    /// What stands over the file: parameters, weights, KV cache. Where nothing can be counted, why.
    pub fn lens(&self) -> Vec<String> {
        match &self.model {
            Ok(model) => lens(self, model),
            Err(error) => vec![fill(LANGUAGE, "config.lens.none", &[("why", plain(&error.message))])],
        }
    }

    /// Whether the model fits a card that an open log speaks of, in one line over the file.
    pub fn fits(&self, card: &Card) -> Option<String> {
        fits::lens(self, card)
    }

    /// Whether the usual tasks fit, one line each.
    pub fn tasks(&self, choice: &Choice) -> Vec<String> {
        budget::lines(self, choice)
    }

    /// What a key means here, for the key or value at a byte of the text.
    pub fn hover(&self, at: usize) -> Option<KeyText> {
        self.hover_for(&Choice::default(), at)
    }

    /// The same with the plans of a task that was chosen.
    pub fn hover_for(&self, choice: &Choice, at: usize) -> Option<KeyText> {
        hover::at(self, choice, at)
    }

    /// What is wrong, also beside the index of weights and a card of so many bytes.
    pub fn marks(&self, around: &Around<'_>) -> Vec<Mark> {
        marks::of(self, around)
    }

    /// The object that describes the language model: the file itself, or the part of it that does.
    fn language(&self) -> &Node {
        let Some(inner) = keys::find(&self.root, keys::LANGUAGE_PART).map(|member| &member.node) else {
            return &self.root;
        };
        if !matches!(inner.value, json::Value::Object(_)) {
            return &self.root;
        }
        match inner.get("text_config") {
            Some(text) if matches!(text.value, json::Value::Object(_)) => text,
            _ => inner,
        }
    }
}

fn lens(view: &View, model: &Model) -> Vec<String> {
    let about = about(model.is_exact());
    let mut out = vec![match model.active() == model.total() {
        true => fill(LANGUAGE, "config.lens.parameters", &[("about", about), ("total", count(model.total()))]),
        false => {
            fill(LANGUAGE, "config.lens.experts", &[("about", about), ("total", count(model.total())), ("active", count(model.active()))])
        }
    }];
    out.push(match model.weights_bytes() {
        Some(bytes) => fill(LANGUAGE, "config.lens.weights", &[("about", stored_about(model)), ("bytes", size(bytes))]),
        None => fill(LANGUAGE, "config.lens.weights-unknown", &[("method", method(model))]),
    });
    // A default that the file does not name bounds nothing here.
    let named = keys::find(view.language(), spellings::POSITIONS).and_then(|member| keys::number(&member.node));
    let length = named.filter(|&length| length > 0).map_or(USUAL_CONTEXT, |length| length.min(USUAL_CONTEXT));
    if model.kv_bytes_per_token(CACHE_BYTES) > 0 {
        let tokens = if length == USUAL_CONTEXT { "8k".to_owned() } else { units::grouped(length) };
        let crosses = kv_cache::kinds(&model.inventory).iter().any(|sum| sum.kind == "cross");
        let key = if crosses { "config.lens.kv-decoder" } else { "config.lens.kv" };
        let values = [("about", self::about(model.is_exact())), ("bytes", size(sequence(model, length))), ("tokens", tokens)];
        out.push(fill(LANGUAGE, key, &values));
    }
    out
}

/// Bytes that transformers keeps of one sequence, without what an encoder adds.
fn sequence(model: &Model, length: u64) -> u64 {
    let bytes = kv_cache::bytes_per_sequence(&model.inventory, Engine::Transformers, length, CACHE_BYTES, STATE_BYTES, 0);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The method of quantisation, as it may be shown.
fn method(model: &Model) -> String {
    model.quantization.as_ref().map_or_else(String::new, |one| plain(&one.method))
}

/// The word in front of a number that is an estimate, with its blank.
fn about(exact: bool) -> String {
    if exact { String::new() } else { fill(LANGUAGE, "config.about", &[]) }
}

/// The same for stored bytes, which a format may make uncertain.
fn stored_about(model: &Model) -> String {
    about(model.is_exact() && model.quantization.as_ref().is_none_or(|one| one.exact))
}

/// A size in binary units, without decimals where there are none: `128 KiB`, `14.96 GiB`.
fn size(bytes: u64) -> String {
    units::binary(bytes).replace(".00 ", " ")
}

/// A number of parameters: `8.03 B`, `124 M`.
fn count(number: u64) -> String {
    const STEPS: [(&str, f64); 4] = [("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)];
    // The step counts that the rounded number reaches, so that 999.99 M is 1.00 B.
    let step = STEPS.iter().find(|(_, one)| number as f64 / one >= 0.9995);
    let Some((unit, one)) = step else {
        return number.to_string();
    };
    match number as f64 / one {
        n if n >= 99.95 => format!("{n:.0} {unit}"),
        n if n >= 9.995 => format!("{n:.1} {unit}"),
        n => format!("{n:.2} {unit}"),
    }
}

/// Text of a file where no Markdown is read: no control characters, none of an editor's marks for icons.
fn plain(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() || c == '$' { ' ' } else { c }).collect()
}

/// The byte range from a key to the end of its value.
fn whole(member: &json::Member) -> Range<usize> {
    member.name_span.start..member.node.span.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([count(12), count(999_990_000), count(8_030_261_248), count(671_026_419_200)], ["12", "1.00 B", "8.03 B", "671 B"]);
        assert_eq!([size(131_072), size(16_060_522_496), size(0)], ["128 KiB", "14.96 GiB", "0 bytes"]);
    }

    #[test]
    fn other_texts_have_no_view() {
        assert_eq!(read("{\"name\": \"left-pad\"}"), Outcome::Other);
        assert_eq!(read("[1, 2"), Outcome::Broken);
        assert_eq!(read(&format!("{{\"a\": \"{}\"}}", "x".repeat(MOST_BYTES))), Outcome::Other);
    }

    #[test]
    fn an_index_of_a_large_model_is_read() {
        let tensors: Vec<String> = (0..30_000)
            .map(|i| format!("\"model.layers.{i}.mlp.experts.255.down_proj.weight\": \"model-00001-of-00163.safetensors\""))
            .collect();
        let text = format!("{{\"metadata\": {{\"total_size\": 688586727753}}, \"weight_map\": {{{}}}}}", tensors.join(", "));
        assert!(text.len() > MOST_BYTES && matches!(read(&text), Outcome::Kin(_)));
    }
}
