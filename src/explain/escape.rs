//! Text of a stranger in Markdown: a code span, or words in which nothing is live.
//!
//! Live is what some renderer acts on: Markdown, HTML, and what an issue tracker makes a link of by itself (addresses,
//! `@name`, `#1`). No code span holds a `|`, so that one rule does for prose and for the cells of tables.

use crate::text::is_unseen;

/// Characters of a text that a hover shows at most, between words.
const MOST_ESCAPED: usize = 400;
/// Characters of inline code at most.
const MOST_CODE: usize = 200;

/// A text as inline code: nothing in it can become Markdown, HTML or a link.
pub fn code(text: &str) -> String {
    span(&text.chars().take(MOST_CODE).collect::<String>())
}

/// A text between Markdown words; a long one is cut.
pub fn escape(text: &str) -> String {
    let end = text.char_indices().nth(MOST_ESCAPED).map_or(text.len(), |(at, _)| at);
    escape_all(&text[..end])
}

/// A text between Markdown words, whole. Its words that a tracker would link become code.
pub fn escape_all(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for piece in text.split_inclusive(|c: char| c == '|' || c.is_whitespace()) {
        let word = piece.trim_end_matches(|c: char| c == '|' || c.is_whitespace());
        if is_live(word) {
            join(&mut out, &span(word));
        } else {
            escape_into(&mut out, word);
        }
        escape_into(&mut out, &piece[word.len()..]);
    }
    out
}

/// A text with quotes of its own (`` `--flag` ``): those stay code, the rest is escaped. On one line.
pub fn quoted(text: &str) -> String {
    let mut out = String::new();
    let (mut plain, mut at) = (0, 0);
    while let Some((open, length)) = run(text, at) {
        at = open + length;
        let Some((close, _)) = runs(text, at).find(|run| run.1 == length) else { continue };
        join(&mut out, &escape_all(&text[plain..open]));
        for (nth, part) in text[at..close].split('|').enumerate() {
            if nth > 0 {
                out.push_str("\\|");
            }
            if !part.trim().is_empty() {
                join(&mut out, &span(part));
            }
        }
        at = close + length;
        plain = at;
    }
    join(&mut out, &escape_all(&text[plain..]));
    out
}

/// Adds a piece of Markdown. Backticks that touch would be one run: a blank keeps them apart.
fn join(out: &mut String, piece: &str) {
    if out.ends_with('`') && piece.starts_with('`') {
        out.push(' ');
    }
    out.push_str(piece);
}

/// A code span whose fence is longer than any run of backticks in it.
fn span(text: &str) -> String {
    let clean: String = text.chars().map(seen).collect();
    let clean = clean.trim();
    if clean.is_empty() {
        return "` `".to_owned();
    }
    let fence = "`".repeat(longest_run(clean) + 1);
    let blank = if clean.starts_with('`') || clean.ends_with('`') { " " } else { "" };
    format!("{fence}{blank}{clean}{blank}{fence}")
}

fn escape_into(out: &mut String, text: &str) {
    for c in text.chars().map(seen) {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '!' | '~' | '&') {
            out.push('\\');
        }
        out.push(c);
    }
}

/// What stands for a character: a blank for a control, a mark for what would turn the direction of writing.
fn seen(c: char) -> char {
    match c {
        c if c.is_control() => ' ',
        c if is_unseen(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// Would an issue tracker or an editor make a link or a mention of this word?
fn is_live(word: &str) -> bool {
    let number_after =
        |mark: &str| word.match_indices(mark).any(|(at, _)| word[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()));
    let lower = || word.to_ascii_lowercase();
    word.contains('@')
        || word.contains("://")
        || (word.contains('.') && lower().contains("www."))
        || number_after("#")
        || number_after("GH-")
        || number_after("gh-")
}

/// The longest run of backticks.
pub fn longest_run(text: &str) -> usize {
    runs(text, 0).map(|(_, length)| length).max().unwrap_or(0)
}

/// Runs of backticks from `at` on: offset and length.
fn runs(text: &str, mut at: usize) -> impl Iterator<Item = (usize, usize)> {
    std::iter::from_fn(move || {
        let (start, length) = run(text, at)?;
        at = start + length;
        Some((start, length))
    })
}

fn run(text: &str, at: usize) -> Option<(usize, usize)> {
    let start = at + text[at..].find('`')?;
    Some((start, text[start..].bytes().take_while(|b| *b == b'`').count()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, Tag};

    use super::*;

    #[test]
    fn text_cannot_become_markdown() {
        assert_eq!(code("a`b\n[x](command:y)"), "``a`b [x](command:y)``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(escape("<img>[x](y)"), "\\<img\\>\\[x\\](y)");
        assert_eq!(escape("a \u{202e}b\u{9b}c\u{2066}"), "a \u{fffd}b c\u{fffd}");
    }

    #[test]
    fn what_a_tracker_links_is_code() {
        assert_eq!(
            escape("ask @ops or a@b.c, see #12 (https://x.y/_z_|www.q.de)"),
            "ask `@ops` or `a@b.c,` see `#12` `(https://x.y/_z_`\\|`www.q.de)`"
        );
        assert_eq!(escape("rank #a of #"), "rank \\#a of \\#");
    }

    #[test]
    fn quotes_of_a_text_stay_code() {
        assert_eq!(quoted("set `a|b` and ``c`d`` to ` it"), "set `a`\\|`b` and ``c`d`` to \\` it");
        assert_eq!(quoted("```<img>`"), "\\`\\`\\`\\<img\\>\\`");
        assert_eq!(quoted("`a`@b"), "`a` `@b`");
    }

    /// What a renderer of issues sees in a text: everything but plain words and code.
    fn live(markdown: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut words = String::new();
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
            match event {
                Event::Text(text) => words.push_str(&text),
                Event::Code(_) => words.push('\u{0}'),
                Event::Start(Tag::Table(_) | Tag::TableHead | Tag::TableRow | Tag::TableCell | Tag::Paragraph | Tag::Strong)
                | Event::End(_)
                | Event::SoftBreak => words.push(' '),
                other => found.push(format!("{other:?}")),
            }
        }
        found.extend(words.split_whitespace().filter(|word| word.split('\u{0}').any(is_live)).map(str::to_owned));
        found
    }

    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "`",
            "``",
            "```",
            "````",
            "\\",
            "|",
            "<img src=x>",
            "<!--",
            "[x](command:y)",
            "![a](http://b)",
            "@me",
            "#1",
            "a@b.c",
            "www.x.y",
            "https://e.f",
            " ",
            "\n",
            "\n\n",
            "*",
            "_",
            "~~",
            "&lt;",
            "&#60;b>",
            "a",
            "\u{202e}",
            "\t",
            "- ",
            "GH-7",
        ]);
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn nothing_is_live(a in hostile(), b in hostile()) {
            for (a, b) in [(quoted(&a), quoted(&b)), (escape_all(&a), escape_all(&b)), (code(&a), escape(&b))] {
                let prose = format!("**x** {a} {b}\n\nend");
                prop_assert_eq!(live(&prose), Vec::<String>::new(), "{}", prose);
            }
            let table = format!("| | |\n| --- | --- |\n| {} | {} |\n", quoted(&a), escape_all(&b));
            prop_assert_eq!(live(&table), Vec::<String>::new(), "{}", table);
            let cells = Parser::new_ext(&table, Options::ENABLE_TABLES).filter(|event| matches!(event, Event::Start(Tag::TableCell))).count();
            prop_assert_eq!(cells, 4, "{}", table);
        }
    }
}
