//! Markdown and plain text: picking the parts of a page's prose that fit, with the values of a finding.

use super::conditions::{self, Wanted};
pub use super::escape::{code, escape, escape_all, quoted};
use crate::log::Finding;
use crate::log::marks::BATCH;
use crate::log::vocabulary::Cause;

/// Bytes of a text that stands in a page's prose.
const MOST_PLAIN: usize = 120;

/// Markdown for a terminal: without emphasis; commands keep their quotes.
pub fn plain(markdown: &str) -> String {
    markdown.replace("**", "")
}

/// An item of a list in a page's prose.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The causes it is for; empty: all.
    pub causes: Vec<Cause>,
    /// What else must hold.
    pub conditions: Vec<Wanted>,
    /// Its text, continuation lines too, without the mark.
    pub text: String,
}

/// The items of a section's list. Text in front of the list is left out.
pub fn items(section: &str) -> Vec<Item> {
    let mut out: Vec<Item> = Vec::new();
    for line in section.lines() {
        match item_start(line) {
            Some(text) => {
                let (causes, conditions, text) = brackets(text);
                out.push(Item { causes, conditions, text: text.to_owned() });
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

/// `[device-full, training] text` → causes, conditions and text. Brackets with other words are part of the text.
fn brackets(text: &str) -> (Vec<Cause>, Vec<Wanted>, &str) {
    let plain = (Vec::new(), Vec::new(), text);
    let Some((inside, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) else { return plain };
    let (mut causes, mut wanted) = (Vec::new(), Vec::new());
    for word in inside.split([',', ' ']).filter(|word| !word.is_empty()) {
        match (conditions::parse(word), Cause::parse(word)) {
            (Some(condition), _) => wanted.push(condition),
            (None, Some(cause)) => causes.push(cause),
            (None, None) => return plain,
        }
    }
    if causes.is_empty() && wanted.is_empty() { plain } else { (causes, wanted, rest.trim_start()) }
}

/// The items that fit a finding, with the finding's values filled in. An item that names a value the finding does not
/// have is for others.
pub fn fitting(section: &str, finding: &Finding) -> Vec<String> {
    items(section)
        .into_iter()
        .filter(|item| conditions::fits(&item.causes, finding))
        .filter(|item| item.conditions.iter().all(|&wanted| conditions::holds(wanted, finding)))
        .map(|item| values(&item.text, finding))
        .filter(|text| !has_placeholder(text))
        .collect()
}

/// What an example trades where the run did not print its own settings, in the order of [`BATCH`].
const EXAMPLE_BATCH: [&str; 4] = ["8", "4", "4", "8"];

/// Prose with the placeholders that the finding knows filled in.
pub fn values(text: &str, finding: &Finding) -> String {
    // A page of a workspace may capture anything under this name.
    let is_variable = |name: &&str| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let mut out = match finding.text("alloc_conf").filter(is_variable) {
        Some(name) => text.replace("{alloc_conf}", name),
        None => text.to_owned(),
    };
    for number in &finding.numbers {
        out = out.replace(&format!("{{{}}}", number.name), &escape(&number.shown()));
    }
    for (name, text) in finding.texts.iter().filter(|(_, text)| is_plain(text)) {
        out = out.replace(&format!("{{{name}}}"), text);
    }
    examples(&out)
}

/// Prose with usual values in the placeholders that have one.
pub fn examples(text: &str) -> String {
    let mut out = text.replace("{alloc_conf}", "PYTORCH_CUDA_ALLOC_CONF").replace("{node}", "NODE");
    for (name, example) in BATCH.into_iter().zip(EXAMPLE_BATCH) {
        out = out.replace(&format!("{{{name}}}"), example);
    }
    out
}

/// Can a text stand between words and inside a command, without being escaped?
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | ',' | ':' | '/' | '-' | '×');
    !text.is_empty() && text.len() <= MOST_PLAIN && text.chars().all(plain)
}

/// Is a `{name}` left?
pub fn has_placeholder(text: &str) -> bool {
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
        let section =
            "Some words.\n\n1. [fragmentation] Set it:\n   `x=1`\n2. [link](y) Other.\n- [device-full, training, no-idle] plain\n";
        let all = items(section);
        assert_eq!(all.len(), 3);
        let wanted = |word| conditions::parse(word).unwrap();
        assert_eq!((&all[2].causes, &all[2].conditions), (&vec![Cause::DeviceFull], &vec![wanted("training"), wanted("no-idle")]));
        assert_eq!(all[2].text, "plain");
        assert_eq!(all[0], Item { causes: vec![Cause::Fragmentation], conditions: Vec::new(), text: "Set it:\n   `x=1`".to_owned() });
        assert!(all[1].causes.is_empty() && all[1].text.starts_with("[link]"));
    }

    #[test]
    fn placeholders_are_told_from_code() {
        assert!(has_placeholder("set `--max-model-len {largest_model_len}`"));
        assert!(!has_placeholder(r#"`--limit-mm-per-prompt '{"image": 1}'`, `${x`, {}"#));
    }
}
