//! What a number of a message counts: the hover over it.

use super::texts::{Language, fill};
use super::{device_oom, markdown};
use crate::log::finding::{Finding, Number};
use crate::log::rules::Page;
use crate::log::units::{self, Unit, Value};

/// What a number counts.
pub(super) fn number_hover(number: &Number, finding: &Finding, page: &Page, language: Language) -> String {
    let mut out = format!("**{}** · `{}`", markdown::escape(&number.text), number.name);
    if let Value::Bytes(bytes) = number.value {
        // A number printed with two decimals is not known to the byte; the other unit says as much as it does.
        let exact = number.unit == Unit::Bytes || !number.text.contains('.');
        let other = if exact { fill(language, "number.bytes", &[("bytes", units::grouped(bytes))]) } else { other_unit(number, bytes) };
        out.push_str(&format!(" · {other}"));
        // Bare bytes and kB say little of their size.
        if exact && bytes >= 1 << 20 && !number.text.contains("iB") {
            out.push_str(&format!(" · {}", units::binary(bytes)));
        }
        if number.name != "total" {
            if let Some(total) = finding.bytes("total").filter(|&total| total >= bytes) {
                let values = [("share", device_oom::percent(bytes, total)), ("total", units::binary(total))];
                out.push_str(&format!(" · {}", fill(language, "number.share", &values)));
            }
        }
    }
    if number.unit == Unit::Ms {
        out.push_str(&format!(" · {}", units::duration(number.value.as_f64())));
    }
    if let Some(meaning) = number_meaning(page, &number.name) {
        out.push_str("\n\n");
        out.push_str(&markdown::values(&meaning, finding));
    }
    out.push_str(&format!("\n\n{}", super::answer(finding, page, language)));
    out
}

/// The same size in decimal units where the message uses binary ones, and the other way round.
fn other_unit(number: &Number, bytes: u64) -> String {
    let binary_label = number.text.contains("iB") || matches!(number.unit, Unit::Binary);
    if binary_label { decimal(bytes) } else { units::binary(bytes) }
}

/// The page's entry for a number.
fn number_meaning(page: &Page, name: &str) -> Option<String> {
    let mark = format!("`{name}`");
    markdown::items(page.section("The numbers"))
        .into_iter()
        .find_map(|item| Some(item.text.strip_prefix(&mark)?.trim_start_matches([':', ' ', '—', '-']).to_owned()))
}

/// A size in decimal units: `38.5 MB`.
pub(super) fn decimal(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        b => format!("{b:.0} bytes"),
    }
}
