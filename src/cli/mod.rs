//! The terminal's face. One file a command, one file an output format.

pub mod check;
pub mod expected;
pub mod fit;
pub mod fit_flags;
mod fit_input;
mod fit_json;
mod fit_table;
mod github;
pub mod gpus;
mod joined;
pub mod json;
mod json_text;
pub mod jsonl;
mod markdown;
mod post_mortem;
mod report;
pub mod rules;
mod sarif;
pub mod shared;
pub mod story;
pub mod text;

use crate::text::visible;

/// Text of strangers for a terminal: control characters and those that turn the direction of writing are replaced.
///
/// Line feeds stay, since reports have several lines.
pub fn printable(text: &str) -> String {
    visible(text)
}

/// The same on one line.
pub fn printable_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

/// A word longer than this, in characters, is shown by its ends.
const LONG_WORD: usize = 160;
/// A complaint longer than this, in characters, is shown by its ends.
const LONG_COMPLAINT: usize = 1000;

/// A message for standard error: on one line, a path of kilobytes shown by its beginning and end.
pub fn complaint(message: &str) -> String {
    let words: Vec<String> = printable_line(message).split(' ').map(|word| by_its_ends(word, LONG_WORD)).collect();
    by_its_ends(&words.join(" "), LONG_COMPLAINT)
}

fn by_its_ends(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let part: fn(&mut dyn Iterator<Item = char>) -> String = |chars| chars.collect();
    let half = most / 2;
    format!("{}…{}", part(&mut text.chars().take(half)), part(&mut text.chars().skip(count - half + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_one_short_line() {
        let deep = "d/".repeat(5000);
        let said = complaint(&format!("{deep}run.log: cannot\nbe \u{9b}read"));
        assert!(said.chars().count() < 200 && said.starts_with("d/d/") && said.ends_with("run.log: cannot be \u{fffd}read"), "{said}");
        assert!(complaint(&"a b/".repeat(5000)).chars().count() <= LONG_COMPLAINT);
        assert_eq!(complaint("short: no such file"), "short: no such file");
    }
}
