//! Keys and values that may be written at a place of a config.
//!
//! The JSON is broken while one types, so the place is told from the text before it alone: strings and brackets, at most
//! [`MOST_LOOKED`] bytes of them.

use std::ops::Range;

use super::LANGUAGE;
use super::keys::{SUBJECTS, Subject};
use crate::explain::texts::{has, text};
use crate::model::architectures::{TEXT, WHOLE};
use crate::text::floor_border;

/// How much of the text before the place is looked at, in bytes.
const MOST_LOOKED: usize = 64 << 10;

/// Something that may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The key or value, without quotes.
    pub name: String,
    /// The text that takes the place of `span`.
    pub insert: String,
    /// Byte range of what is there already, with its quotes.
    pub span: Range<usize>,
    /// What it is, in a few words.
    pub detail: String,
    /// Is it a key?
    pub is_key: bool,
}

/// Values of keys: the key's spellings, and what may stand there.
const VALUES: &[(&str, &str)] = &[
    ("dtype|torch_dtype|bnb_4bit_compute_dtype|bnb_4bit_quant_storage", "bfloat16|float16|float32"),
    ("attn_implementation|_attn_implementation", "sdpa|flash_attention_2|flash_attention_3|flex_attention|eager"),
    ("quant_method", "awq|gptq|bitsandbytes|fp8|compressed-tensors|mxfp4|aqlm|hqq|quanto|torchao|eetq|modelopt"),
    ("rope_type|type", "default|linear|dynamic|yarn|longrope|llama3"),
    ("bnb_4bit_quant_type", "nf4|fp4"),
    ("hidden_act|hidden_activation|activation_function", "silu|gelu|gelu_new|gelu_pytorch_tanh|relu|relu2|swish"),
];
/// The list of the kinds of layers, and its items.
const LAYER_KINDS: (&str, &str) = ("layer_types", "full_attention|sliding_attention|chunked_attention|linear_attention");
/// Keys whose value is true or false.
const FLAGS: &str = "tie_word_embeddings|use_cache|attention_bias|mlp_bias|load_in_4bit|load_in_8bit|bnb_4bit_use_double_quant|desc_act|sym|\
    zero_point";
/// Keys inside an object: the object's spellings, and its keys.
const INSIDE: &[(&str, &str)] = &[
    (
        "rope_scaling|rope_parameters",
        "rope_type|factor|original_max_position_embeddings|low_freq_factor|high_freq_factor|attention_factor|beta_fast|beta_slow|\
         short_factor|long_factor|rope_theta",
    ),
    (
        "quantization_config",
        "quant_method|bits|group_size|desc_act|sym|zero_point|load_in_4bit|load_in_8bit|bnb_4bit_quant_type|bnb_4bit_compute_dtype|\
         bnb_4bit_use_double_quant|modules_to_not_convert|weight_block_size",
    ),
];
/// Objects in which the keys of a config stand too.
const PARTS: &str = super::keys::LANGUAGE_PART;

/// What may be written at a byte of a config.
pub fn at(text: &str, at: usize) -> Vec<Offer> {
    let Some(spot) = spot(text, at) else {
        return Vec::new();
    };
    match &spot.place.key {
        Some(key) => values(key, &spot),
        None => keys(&spot),
    }
}

/// Where something is being written, and what is there already.
pub(super) struct Spot {
    /// Between which keys.
    pub place: Place,
    /// Byte range of what is there, with its quotes.
    pub span: Range<usize>,
    /// The letters before the cursor, in lower case.
    pub typed: String,
    /// What must follow a key.
    pub colon: &'static str,
}

impl Spot {
    /// An offer in place of what is there.
    pub fn offer(&self, name: &str, insert: String, detail: String, is_key: bool) -> Offer {
        Offer { name: name.to_owned(), insert, span: self.span.clone(), detail, is_key }
    }
}

/// The spot at a byte of a text; none where nothing can be told.
pub(super) fn spot(text: &str, at: usize) -> Option<Spot> {
    let at = floor_border(text, at.min(text.len()));
    let from = floor_border(text, at.saturating_sub(MOST_LOOKED));
    let place = place(&text[from..at])?;
    let start = place.start.map_or(at, |start| from + start);
    // The rest of a word that is already closed goes too.
    let rest = &text[at..];
    let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))).unwrap_or(rest.len());
    let quoted = place.start.is_some_and(|_| text[start..].starts_with('"'));
    let end = at + word + usize::from(quoted && rest[word..].starts_with('"'));
    let typed = text[start..at].trim_matches('"').to_ascii_lowercase();
    let colon = if text[end..].trim_start().starts_with(':') { "" } else { ": " };
    Some(Spot { place, span: start..end, typed, colon })
}

/// Where one stands.
pub(super) struct Place {
    /// Key whose value is being written, or an item of its list; none where a key is.
    pub key: Option<String>,
    /// Name of the object around; none for the outermost.
    pub object: Option<String>,
    /// Keys of that object so far, or items of the list.
    pub written: Vec<String>,
    /// Is it an item of a list?
    pub in_list: bool,
    /// Where the word before the cursor begins, with its quote.
    start: Option<usize>,
}

/// An object or list that is still open.
struct Open {
    name: Option<String>,
    object: bool,
    key: Option<String>,
    written: Vec<String>,
}

fn place(before: &str) -> Option<Place> {
    let mut open: Vec<Open> = Vec::new();
    let mut last: Option<String> = None;
    let mut bytes = before.char_indices();
    let mut word = None;
    while let Some((at, c)) = bytes.next() {
        match c {
            '"' => {
                let Some(end) = closing(before, at + 1) else {
                    word = Some(at);
                    break;
                };
                last = Some(before[at + 1..end].to_owned());
                while bytes.next().is_some_and(|(next, _)| next < end) {}
                word = None;
            }
            '{' | '[' => {
                let name = open.last().and_then(|outer| outer.key.clone());
                open.push(Open { name, object: c == '{', key: None, written: Vec::new() });
                word = None;
            }
            '}' | ']' => {
                open.pop();
                word = None;
            }
            ':' => {
                if let (Some(inner), Some(key)) = (open.last_mut(), last.take()) {
                    inner.written.push(key.clone());
                    inner.key = Some(key);
                }
                word = None;
            }
            ',' => {
                if let Some(inner) = open.last_mut() {
                    inner.key = None;
                    inner.written.extend(last.take().filter(|_| !inner.object));
                }
                last = None;
                word = None;
            }
            '/' if before[at..].starts_with("//") => {
                let line = before[at..].find('\n')?;
                while bytes.next().is_some_and(|(next, _)| next < at + line) {}
            }
            c if c.is_whitespace() => word = None,
            _ => word = word.or(Some(at)),
        }
    }
    let inner = open.pop()?;
    // A string that is closed is written already.
    if last.is_some() && word.is_none() {
        return None;
    }
    if !inner.object {
        let object = open.last().and_then(|outer| outer.name.clone());
        return Some(Place { key: Some(inner.name?), object, written: inner.written, in_list: true, start: word });
    }
    Some(Place { key: inner.key, object: inner.name, written: inner.written, in_list: false, start: word })
}

/// The quote that closes a string; none when it is still open at the end of its line.
fn closing(text: &str, from: usize) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text[from..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(from + at),
            '\n' => return None,
            _ => {}
        }
    }
    None
}

fn one_of(names: &str, name: &str) -> bool {
    names.split('|').any(|one| one == name)
}

fn values(key: &str, spot: &Spot) -> Vec<Offer> {
    let bare = one_of(FLAGS, key);
    if spot.place.in_list != (key == LAYER_KINDS.0) {
        return Vec::new();
    }
    let names: Vec<&str> = if key == "model_type" {
        let mut all: Vec<&str> = TEXT.iter().map(|(name, _)| *name).chain(WHOLE.iter().map(|(name, _)| *name)).collect();
        all.sort_unstable();
        all.dedup();
        all
    } else if bare {
        vec!["true", "false"]
    } else {
        let listed = std::iter::once(&LAYER_KINDS).chain(VALUES).filter(|(keys, _)| one_of(keys, key));
        listed.flat_map(|(_, values)| values.split('|')).collect()
    };
    let offer = |name: &str| {
        let insert = if bare { name.to_owned() } else { format!("\"{name}\"") };
        spot.offer(name, insert, meaning(name).unwrap_or_default().to_owned(), false)
    };
    names.into_iter().filter(|name| name.to_ascii_lowercase().starts_with(&spot.typed)).map(offer).collect()
}

/// What a known value is; none where its name says it.
pub fn meaning(value: &str) -> Option<&'static str> {
    let key = format!("config.value.{value}");
    has(LANGUAGE, &key).then(|| text(LANGUAGE, &key))
}

fn keys(spot: &Spot) -> Vec<Offer> {
    let place = &spot.place;
    let object = place.object.as_deref();
    let inside = object.and_then(|object| INSIDE.iter().find(|(names, _)| one_of(names, object)));
    let known: Vec<(&str, String)> = match (inside, object) {
        (Some((_, names)), _) => names.split('|').map(|name| (name, inner(name))).collect(),
        (None, Some(object)) if !one_of(PARTS, object) => Vec::new(),
        _ => SUBJECTS.iter().filter(|subject| !is_written(subject, place)).flat_map(spelled).collect(),
    };
    let fresh = |(name, _): &(&str, String)| !place.written.iter().any(|one| one == name) && name.starts_with(&spot.typed);
    let offer = |(name, detail): (&str, String)| spot.offer(name, format!("\"{name}\"{}", spot.colon), detail, true);
    known.into_iter().filter(fresh).map(offer).collect()
}

/// Is the subject in the object already, whatever its spelling? What adds nothing may stand in several spellings.
fn is_written((_, _, spellings): &(Subject, &str, &str), place: &Place) -> bool {
    place.written.iter().any(|written| one_of(spellings, written))
}

fn spelled((_, name, spellings): &(Subject, &'static str, &'static str)) -> Vec<(&'static str, String)> {
    let detail = text(LANGUAGE, &format!("config.key.{name}")).to_owned();
    spellings.split('|').map(|spelling| (spelling, detail.clone())).collect()
}

/// What a key inside a known object is; nothing where its name says it.
fn inner(name: &str) -> String {
    let key = format!("config.inner.{name}");
    if has(LANGUAGE, &key) { text(LANGUAGE, &key).to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is offered at the `|`, as it would be written.
    fn offered(marked: &str) -> Vec<String> {
        let cursor = marked.find('|').unwrap();
        let text = marked.replacen('|', "", 1);
        at(&text, cursor).into_iter().map(|offer| offer.insert).collect()
    }

    #[test]
    fn values_of_known_keys() {
        assert_eq!(offered("{\"torch_dtype\": \"b|\"}"), ["\"bfloat16\""]);
        assert_eq!(offered("{\"torch_dtype\": |").len(), 3);
        assert_eq!(offered("{\n  \"tie_word_embeddings\": t|\n}"), ["true"]);
        assert!(offered("{\"model_type\": \"qwen|").contains(&"\"qwen3\"".to_owned()));
        assert_eq!(offered("{\"rope_scaling\": {\"type\": \"ya|"), ["\"yarn\""]);
        assert_eq!(offered("{\"hidden_size\": 4|"), Vec::<String>::new());
        assert_eq!(offered("{\"layer_types\": [\"full_attention\", \"sl|"), ["\"sliding_attention\""]);
    }

    #[test]
    fn keys_that_are_not_written_yet() {
        assert_eq!(offered("{\"num_key|\"}"), ["\"num_key_value_heads\": "]);
        assert_eq!(offered("{\"num_key|\": 8}"), ["\"num_key_value_heads\""]);
        assert_eq!(offered("{\"torch_dtype\": \"float16\", \"torch_d|"), Vec::<String>::new());
        assert!(offered("{\n  // \"quote\n  |\n}").contains(&"\"model_type\": ".to_owned()));
        assert_eq!(offered("{\"rope_scaling\": {\"low|"), ["\"low_freq_factor\": "]);
        assert_eq!(offered("{\"id2label\": {\"|"), Vec::<String>::new());
        assert_eq!(offered("{\"architectures\": [\"|"), Vec::<String>::new());
        assert_eq!(offered("|"), Vec::<String>::new());
    }

    #[test]
    fn what_is_there_is_replaced_with_its_quotes() {
        let text = "{\"dtype\": \"bflo\", \"x\": 1}";
        let cursor = text.find("lo").unwrap();
        assert_eq!(&text[at(text, cursor)[0].span.clone()], "\"bflo\"");
    }

    #[test]
    fn values_that_stand_in_the_table_have_a_meaning() {
        for (_, names) in &VALUES[..5] {
            assert!(names.split('|').all(|name| meaning(name).is_some()), "{names}");
        }
    }

    #[test]
    fn no_text_is_too_strange() {
        for text in ["{\"\\", "\"", "}}]]", "{\"é\": \"é", "//", "{,,::\"a\"\"b\":"] {
            for cursor in 0..=text.len() + 2 {
                let _ = at(text, cursor);
            }
        }
    }
}
