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
pub mod json;
pub mod jsonl;
mod markdown;
mod post_mortem;
mod report;
pub mod rules;
mod sarif;
pub mod shared;
pub mod story;
pub mod text;

/// Text of strangers for a terminal: control characters and those that turn the direction of writing are replaced.
///
/// Line feeds stay, since reports have several lines.
pub fn printable(text: &str) -> String {
    let bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if bad(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The same on one line.
pub fn printable_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}
