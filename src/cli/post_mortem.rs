//! The post-mortem in a terminal: at most [`MOST_LINES`] lines, a label column, wrapped values.

use std::io::Write;

use super::printable_line;
use crate::explain::post_mortem::Row;
use crate::explain::texts::{Language, text};

/// Lines with the heading at most.
pub const MOST_LINES: usize = 15;
/// Columns of a line, the label's too.
const WIDTH: usize = 100;
/// Lines of one item at most.
const MOST_ITEM_LINES: usize = 3;

/// Writes the rows; nothing when there are none.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, rows: &[Row]) -> std::io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    for line in lines(rows) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The heading and the rows, drawn. The last row stands whatever the others take.
fn lines(rows: &[Row]) -> Vec<String> {
    let column = rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0) + 4;
    let drawn: Vec<Vec<String>> = rows.iter().map(|row| draw(row, column)).collect();
    let last = drawn.last().map_or(0, Vec::len);
    let mut out = vec![format!("{}:", text(Language::English, "post.title"))];
    let body: Vec<String> = drawn[..drawn.len().saturating_sub(1)].concat();
    out.extend(body.into_iter().take(MOST_LINES - 1 - last));
    out.extend(drawn.into_iter().next_back().unwrap_or_default());
    out
}

fn draw(row: &Row, column: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for item in &row.items {
        for line in wrap(&printable_line(item), WIDTH - column) {
            let label = if out.is_empty() { row.label } else { "" };
            out.push(format!("  {label:width$}{line}", width = column - 2));
        }
    }
    out
}

/// Words in lines of a width, later ones indented; past the bound the rest is left out and said so by an ellipsis.
fn wrap(item: &str, width: usize) -> Vec<String> {
    let mut out: Vec<String> = vec![String::new()];
    for word in item.split_whitespace() {
        let first = out.len() == 1;
        let Some(line) = out.last_mut() else { break };
        let used = line.chars().count();
        if used > if first { 0 } else { 2 } && used + 1 + word.chars().count() > width {
            if out.len() == MOST_ITEM_LINES {
                if let Some(line) = out.last_mut() {
                    line.push_str(" …");
                }
                break;
            }
            out.push(format!("  {word}"));
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    // A word without blanks may be as long as a log's line.
    out.into_iter().map(|line| clip(&line, 2 * width)).collect()
}

fn clip(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_fifteen_lines() {
        let long = "word ".repeat(400);
        let rows: Vec<Row> =
            ["Died", "Cause", "Followed", "Before", "Do first"].map(|label| Row { label, items: vec![long.clone(); 4] }).into();
        let lines = lines(&rows);
        assert!(lines.len() <= MOST_LINES, "{}", lines.len());
        assert!(lines.iter().any(|line| line.contains("Do first")));
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH + 2));
    }
}
