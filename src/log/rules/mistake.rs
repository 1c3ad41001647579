//! Mistakes in a page in the words of whoever wrote it: which key, which place of a pattern.

use regex::RegexBuilder;

/// Letters of a pattern that are quoted where it goes wrong.
const QUOTED: usize = 16;
/// Compiled size, in bytes, up to which a pattern is tried once more as it was written.
const MOST_TRIED: usize = 1 << 20;
/// Blanks before the pattern in an error of the `regex` crate (1.x).
const REGEX_INDENT: usize = 4;

/// What is wrong in the front matter, without the names of the types behind it.
pub fn of_front_matter(key: &str, message: &str) -> String {
    let message =
        message.replace('\n', " ").replace("expected u8", "expected a whole number").replace("expected usize", "expected a whole number");
    if key.is_empty() || message.contains(&format!("`{key}`")) { message } else { format!("`{key}`: {message}") }
}

/// What is wrong with a pattern, and where in it.
pub fn of_pattern(pattern: &str, compiled: &regex::Error) -> String {
    // The pattern as it was written: the one that is compiled has other columns.
    let text = RegexBuilder::new(pattern).size_limit(MOST_TRIED).build().err().map_or_else(|| compiled.to_string(), |e| e.to_string());
    let what = text.trim().lines().last().unwrap_or_default().trim_start_matches("error: ");
    let caret = text.lines().find(|line| line.trim_start().starts_with('^')).and_then(|line| line.find('^')?.checked_sub(REGEX_INDENT));
    let rest: String = pattern.chars().skip(caret.unwrap_or_default()).take(QUOTED).collect();
    match caret {
        Some(_) if !rest.is_empty() => format!("not a regular expression at `{rest}`: {what}"),
        _ => format!("not a regular expression: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn a_pattern_is_quoted_where_it_goes_wrong() {
        let pattern = r"\bwaited (?P<1s>\d+) s";
        let said = of_pattern(pattern, &Regex::new(pattern).unwrap_err());
        assert!(said.starts_with("not a regular expression at `1s>"), "{said}");
    }

    #[test]
    fn a_key_is_named_and_no_type() {
        let said = of_front_matter("precedence", "invalid type: string \"eight\", expected u8");
        assert_eq!(said, "`precedence`: invalid type: string \"eight\", expected a whole number");
        assert_eq!(of_front_matter("kind", "unknown field `kind`"), "unknown field `kind`");
    }
}
