//! Markdown and plain text: picking the parts of a page's prose that fit, with the values of a finding.

pub use super::escape::{code, escape, escape_all, quoted};
use crate::log::Finding;
use crate::log::serving::SERVING;
use crate::log::vocabulary::Cause;

/// Markdown for a terminal: without emphasis; commands keep their quotes.
pub fn plain(markdown: &str) -> String {
    markdown.replace("**", "")
}

/// The word of an item that is left out where a serving engine wrote the log.
const TRAINING: &str = "training";

/// An item of a list in a page's prose.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The causes it is for; empty: all.
    pub causes: Vec<Cause>,
    /// Whether it is for training alone.
    pub training: bool,
    /// Its text, continuation lines too, without the mark.
    pub text: String,
}

/// The items of a section's list. Text in front of the list is left out.
pub fn items(section: &str) -> Vec<Item> {
    let mut out: Vec<Item> = Vec::new();
    for line in section.lines() {
        match item_start(line) {
            Some(text) => {
                let (causes, training, text) = causes_of(text);
                out.push(Item { causes, training, text: text.to_owned() });
            }
            None => {
                if let Some(item) = out.last_mut() {
                    item.text.push('\n');
                    item.text.push_str(line);
                }
            }
        }
    }
    for item in &mut out {
        item.text.truncate(item.text.trim_end().len());
    }
    out
}

fn item_start(line: &str) -> Option<&str> {
    if let Some(text) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return Some(text);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| line[digits..].strip_prefix(". ")).flatten()
}

/// `[device-full, training] text` → causes, whether it is for training alone, and text.
fn causes_of(text: &str) -> (Vec<Cause>, bool, &str) {
    let plain = (Vec::new(), false, text);
    let Some((inside, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) else { return plain };
    let words = || inside.split([',', ' ']).filter(|word| !word.is_empty());
    let training = words().any(|word| word == TRAINING);
    let causes: Option<Vec<Cause>> = words().filter(|word| *word != TRAINING).map(Cause::parse).collect();
    match causes {
        Some(causes) if training || !causes.is_empty() => (causes, training, rest.trim_start()),
        _ => plain,
    }
}

/// The items that fit a finding, with the finding's values filled in. An item that names a value the finding does not
/// have is for others.
pub fn fitting(section: &str, finding: &Finding) -> Vec<String> {
    items(section)
        .into_iter()
        .filter(|item| item.causes.is_empty() || item.causes.contains(&finding.cause))
        .filter(|item| !item.training || finding.text(SERVING).is_none())
        .map(|item| values(&item.text, finding))
        .filter(|text| !has_placeholder(text))
        .collect()
}

/// Prose with the placeholders that the finding knows filled in.
pub fn values(text: &str, finding: &Finding) -> String {
    // A page of a workspace may capture anything under this name.
    let is_variable = |name: &&str| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let variable = finding.text("alloc_conf").filter(is_variable).unwrap_or("PYTORCH_CUDA_ALLOC_CONF");
    let mut out = text.replace("{alloc_conf}", variable);
    for number in &finding.numbers {
        out = out.replace(&format!("{{{}}}", number.name), &escape(&number.shown()));
    }
    out
}

/// Is a `{name}` left?
fn has_placeholder(text: &str) -> bool {
    let is_name =
        |name: &str| name.starts_with(|c: char| c.is_ascii_lowercase()) && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    text.split('{').skip(1).any(|rest| rest.split_once('}').is_some_and(|(name, _)| is_name(name)))
}

/// Splits prose behind its first sentence.
pub fn split_sentence(prose: &str) -> (&str, &str) {
    let end = prose
        .match_indices(['.', '!', '?'])
        .map(|(at, _)| at + 1)
        .find(|&at| prose[at..].starts_with([' ', '\n']) && !prose[..at].ends_with("e.g.") && !prose[..at].ends_with("i.e."))
        .unwrap_or(prose.len());
    (prose[..end].trim(), prose[end..].trim())
}

/// The first sentence of prose.
pub fn first_sentence(prose: &str) -> &str {
    split_sentence(prose).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_items_with_causes() {
        let section = "Some words.\n\n1. [fragmentation] Set it:\n   `x=1`\n2. [link](y) Other.\n- [device-full, training] plain\n";
        let all = items(section);
        assert_eq!(all.len(), 3);
        assert!(all[2].training && all[2].causes == [Cause::DeviceFull] && all[2].text == "plain");
        assert_eq!(all[0], Item { causes: vec![Cause::Fragmentation], training: false, text: "Set it:\n   `x=1`".to_owned() });
        assert!(all[1].causes.is_empty() && all[1].text.starts_with("[link]"));
    }

    #[test]
    fn placeholders_are_told_from_code() {
        assert!(has_placeholder("set `--max-model-len {largest_model_len}`"));
        assert!(!has_placeholder(r#"`--limit-mm-per-prompt '{"image": 1}'`, `${x`, {}"#));
    }
}
