//! The pages of a workspace are as untrusted as its logs: what their patterns may take, and what their prose may hold.

use regex::{Regex, RegexBuilder};

use super::page::{Page, ascii, squeeze};
use crate::text::is_unseen;

/// Compiled sizes that are tried one after the other, in bytes; the one that suffices is paid. The last is the most that
/// a pattern may take.
const SIZES: [usize; 4] = [8 << 10, 32 << 10, 256 << 10, 1 << 20];
/// Compiled size of all patterns of all own pages, in bytes.
const ALL_PATTERNS: usize = 16 << 20;
/// What a class of characters costs, in bytes; where case is ignored it has to be folded.
const CLASS: (usize, usize) = (4 << 10, 16 << 10);
/// Bytes of a pattern as it is written.
const MOST_PATTERN: usize = 4 << 10;
/// Bytes of an anchor, and of all anchors of all own pages: the gate grows with them.
const MOST_ANCHOR: usize = 200;
const ALL_ANCHORS: usize = 32 << 10;

/// What to say of a pattern that wraps and cannot be squeezed.
pub const NOT_SQUEEZED: &str = "the pattern is none without its white space: no blanks in character classes";

/// Why a pattern of an own page is not used.
pub enum Refused {
    /// It is no regular expression.
    Wrong(regex::Error),
    /// It is too large by itself, and why.
    Large(String),
    /// The pages before have taken all there is.
    Spent,
}

/// What the pages of a workspace may still take.
pub struct Budget {
    patterns: usize,
    anchors: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { patterns: ALL_PATTERNS, anchors: ALL_ANCHORS }
    }
}

impl Budget {
    /// What to say of a page for which nothing is left.
    pub fn spent() -> String {
        format!(
            "the pages of this workspace have more than {} MiB of compiled patterns or {} KiB of anchors together; this page is left out",
            ALL_PATTERNS >> 20,
            ALL_ANCHORS >> 10
        )
    }

    /// Pays for the anchors of a page.
    ///
    /// # Errors
    /// When one of them or all together are too long.
    pub fn take_anchors(&mut self, anchors: &[String]) -> Result<(), String> {
        if anchors.iter().any(|anchor| anchor.len() > MOST_ANCHOR) {
            return Err(format!("an anchor has at most {MOST_ANCHOR} bytes"));
        }
        let all = anchors.iter().map(String::len).sum();
        self.anchors = self.anchors.checked_sub(all).ok_or_else(Budget::spent)?;
        Ok(())
    }

    /// Compiles a pattern as a page does, and pays for it.
    ///
    /// # Errors
    /// When it is wrong, too large, or nothing is left for it.
    pub fn take(&mut self, pattern: &str, wraps: bool) -> Result<(), Refused> {
        if pattern.len() > MOST_PATTERN {
            return Err(Refused::Large(format!("a pattern has at most {MOST_PATTERN} bytes")));
        }
        self.take_one(pattern)?;
        if !wraps {
            return Ok(());
        }
        self.take_one(&squeeze(pattern)).map_err(|refused| match refused {
            Refused::Wrong(_) => Refused::Large(NOT_SQUEEZED.to_owned()),
            other => other,
        })
    }

    fn take_one(&mut self, pattern: &str) -> Result<(), Refused> {
        let classes = classes(pattern);
        for size in SIZES {
            let price = size.max(classes);
            if price > self.patterns {
                self.patterns = 0;
                return Err(Refused::Spent);
            }
            match RegexBuilder::new(&ascii(pattern, false)).size_limit(size).build() {
                Ok(_) => {
                    self.patterns -= price;
                    return Ok(());
                }
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(e) => return Err(Refused::Wrong(e)),
            }
        }
        self.patterns = self.patterns.saturating_sub(SIZES[SIZES.len() - 1]);
        let most = SIZES[SIZES.len() - 1] >> 10;
        Err(Refused::Large(format!(
            "the pattern takes more than {most} KiB when it is compiled; repeat less, and use `[0-9A-Za-z_]` for `\\w`"
        )))
    }
}

/// What the classes of a pattern cost before anything is compiled.
fn classes(pattern: &str) -> usize {
    let count = pattern.matches('[').count()
        + ["\\w", "\\W", "\\S", "\\s", "\\D", "\\p", "\\P"].iter().map(|class| pattern.matches(class).count()).sum::<usize>();
    let flags = |group: &str| group.split([':', ')']).next().is_some_and(|flags| flags.contains('i') && !flags.contains(['<', 'P']));
    let folds = pattern.split("(?").skip(1).any(flags);
    count * if folds { CLASS.1 } else { CLASS.0 }
}

/// Takes out of a page what an editor would act on: HTML, images, links that are none of the web, unseen characters. Its
/// excerpts stay as they are: they are logs, and never shown.
pub fn neutralise(page: &mut Page) {
    page.front.title = neutral(&page.front.title);
    page.title = page.front.title.as_str().into();
    let mut out = String::with_capacity(page.body.len());
    let (mut fenced, mut excerpt) = (false, false);
    for line in page.body.split_inclusive('\n') {
        fenced ^= line.trim_start().starts_with("```");
        if let Some(heading) = line.strip_prefix("## ").filter(|_| !fenced) {
            excerpt = matches!(heading.trim(), "Flagged" | "Not flagged");
        }
        if excerpt { out.push_str(line) } else { out.push_str(&neutral(line)) }
    }
    page.body = out.into();
}

/// A line of prose in which nothing is live, whatever stands around it: it may be cut anywhere and put into a list.
fn neutral(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 8);
    let mut open = false;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let tail = &rest[c.len_utf8()..];
        match c {
            '<' if !tail.starts_with([' ', '=', '<', '\r', '\n'])
                && !tail.starts_with(|c: char| c.is_ascii_digit())
                && !tail.is_empty() =>
            {
                open = true;
                out.push('‹');
            }
            '>' if open => {
                open = false;
                out.push('›');
            }
            '!' if tail.starts_with('[') => out.push_str("! "),
            ']' if tail.starts_with(':') => out.push_str("] "),
            ']' if tail.starts_with('(') && !["(https://", "(http://"].iter().any(|web| tail.starts_with(web)) => out.push_str("] "),
            '\r' | '\n' | '\t' => out.push(c),
            c if is_unseen(c) => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
        rest = tail;
    }
    out
}

/// The pattern of an own page, with a smaller memory while it searches.
pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&ascii(pattern, false)).size_limit(SIZES[SIZES.len() - 1]).dfa_size_limit(SIZES[2]).build()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Parser, Tag};

    use super::*;

    #[test]
    fn links_to_the_web_and_words_in_angles_stay_readable() {
        assert_eq!(
            neutral("see [a](https://b/c) or `x < 3`, `--n <count> <= 4`\n"),
            "see [a](https://b/c) or `x < 3`, `--n ‹count› <= 4`\n"
        );
        assert_eq!(
            neutral("[a](command:b) ![c](https://d) <img src=x> [e]: f\u{202e}"),
            "[a] (command:b) ! [c](https://d) ‹img src=x› [e] : f\u{fffd}"
        );
    }

    /// HTML, images and links of other schemes in a text.
    fn live(markdown: &str) -> Vec<String> {
        let is_live = |event: &Event<'_>| match event {
            Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Image { .. }) => true,
            Event::Start(Tag::Link { dest_url, .. }) => !dest_url.starts_with("https://") && !dest_url.starts_with("http://"),
            _ => false,
        };
        Parser::new(markdown).filter(is_live).map(|event| format!("{event:?}")).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn prose_is_harmless_also_when_it_is_cut(pieces in prop::collection::vec(prop::sample::select(vec![
            "`", "```", "~~~", "\\", "<img src=x>", "<a href=x>", "<!-- x -->", "<script>", "</p>", "[x](command:y)", "![a](http://b)", "[a](https://b)", "[x]", "[y]:",
            " command:z", "(", ")", "]", "[", "!", "<", ">", "<command:a>", "\n", "\n\n", "- ", "    ", "   ", "&lt;", "a", "? ", "1. ", "{n}", "<<",
        ]), 0..14), cut in any::<prop::sample::Index>()) {
            let text = neutral_lines(&pieces.concat());
            let cut = crate::text::floor_border(&text, cut.index(text.len() + 1));
            for part in [&text[..], &text[cut..], &text[..cut], &format!("1. {text}\n2. {}", &text[cut..])] {
                prop_assert_eq!(live(part), Vec::<String>::new(), "{}", part);
            }
        }
    }

    fn neutral_lines(text: &str) -> String {
        text.split_inclusive('\n').map(neutral).collect()
    }

    #[test]
    fn patterns_are_paid_until_nothing_is_left() {
        let mut budget = Budget::default();
        assert!(budget.take(r"error at (?P<step>\d+)", true).is_ok());
        assert!(matches!(budget.take(r"(\w{40}){40}", false), Err(Refused::Large(_))));
        assert!(matches!(budget.take("(", false), Err(Refused::Wrong(_))));
        assert!(matches!(budget.take(&"x".repeat(MOST_PATTERN + 1), false), Err(Refused::Large(_))));
        let taken = (0..1000).take_while(|_| budget.take(r"\w{20}x", false).is_ok()).count();
        assert!((10..100).contains(&taken), "{taken}");
        assert!(matches!(budget.take(r"\w{20}x", false), Err(Refused::Spent)));
    }
}
