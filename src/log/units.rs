//! Numbers as messages print them: sizes with their units, bare counts, and how to print a size again.
//!
//! GiB is 2^30, GB is 10^9. Some printers label binary sizes KB, MB or GB; a page says so with [`Unit::Binary`].

use serde::{Deserialize, Serialize};

/// How a captured number is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A number with its unit; KB, MB, GB are decimal.
    Size,
    /// A size whose KB, MB, GB labels are really 2^10, 2^20, 2^30; a bare number counts bytes.
    Binary,
    /// Bare number in units of 2^10 bytes.
    BinaryKb,
    /// Bare number in units of 2^20 bytes.
    BinaryMb,
    /// Bare number in units of 2^30 bytes.
    BinaryGb,
    /// Bare count of bytes.
    Bytes,
    /// A count of things.
    Count,
    /// An ordinal: GPU, rank, process.
    Index,
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
    /// Percent.
    Percent,
}

impl Unit {
    /// Is the value a number of bytes?
    pub fn is_bytes(self) -> bool {
        matches!(self, Unit::Size | Unit::Binary | Unit::BinaryKb | Unit::BinaryMb | Unit::BinaryGb | Unit::Bytes)
    }
}

/// A value read from a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Bytes.
    Bytes(u64),
    /// A whole number.
    Int(i64),
    /// A number with a fraction, or a non-finite one.
    Float(f64),
}

impl Value {
    /// The number of bytes, if it is one.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Value::Bytes(n) => Some(n),
            _ => None,
        }
    }

    /// The value as a float, for comparing.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Bytes(n) => n as f64,
            Value::Int(n) => n as f64,
            Value::Float(x) => x,
        }
    }
}

/// Reads a captured text as the unit says. Without a unit: a size when it carries one, else a count.
///
/// `None` when the text is no such number.
pub fn read(text: &str, unit: Option<Unit>) -> Option<(Value, Unit)> {
    let text = text.trim();
    let split = text
        .char_indices()
        .find(|&(i, c)| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '_') || (i == 0 && matches!(c, '-' | '+')) || is_exponent(text, i)))
        .map_or(text.len(), |(i, _)| i);
    let (digits, label) = (text[..split].trim_end_matches([',', '.']), text[split..].trim());
    if unit == Some(Unit::Count) || unit == Some(Unit::Index) {
        if let Some(hex) = text.strip_prefix("0x") {
            return i64::from_str_radix(hex, 16).ok().map(|n| (Value::Int(n), Unit::Count));
        }
    }
    let number = parse_number(digits)?;
    let scale = match unit {
        None if label.is_empty() => None,
        None => Some(scale_of(label, false)?),
        Some(Unit::Size) if label.is_empty() => return None,
        Some(Unit::Size) => Some(scale_of(label, false)?),
        Some(Unit::Binary) if label.is_empty() => Some(1.0),
        Some(Unit::Binary) => Some(scale_of(label, true)?),
        Some(Unit::Bytes) => Some(1.0),
        Some(Unit::BinaryKb) => Some(1024.0),
        Some(Unit::BinaryMb) => Some(1024.0 * 1024.0),
        Some(Unit::BinaryGb) => Some(1024.0 * 1024.0 * 1024.0),
        Some(_) => None,
    };
    if let Some(scale) = scale {
        let bytes = number * scale;
        let whole = (0.0..=u64::MAX as f64).contains(&bytes);
        return whole.then(|| (Value::Bytes(bytes.round() as u64), unit.unwrap_or(Unit::Size)));
    }
    let unit = unit.unwrap_or(Unit::Count);
    let clean: String = digits.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    match clean.parse::<i64>() {
        Ok(n) => Some((Value::Int(n), unit)),
        Err(_) => Some((Value::Float(number), unit)),
    }
}

fn is_exponent(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    match bytes[at] {
        b'e' | b'E' => at > 0 && digit(at - 1) && (digit(at + 1) || matches!(bytes.get(at + 1), Some(b'+' | b'-')) && digit(at + 2)),
        b'+' | b'-' => at > 0 && matches!(bytes[at - 1], b'e' | b'E'),
        _ => false,
    }
}

/// A decimal number; `1,234,567` has thousands separators, `1900,00` a decimal comma.
fn parse_number(digits: &str) -> Option<f64> {
    let commas = digits.matches(',').count();
    let grouped = commas > 0
        && digits.split(',').skip(1).all(|group| group.split('.').next().is_some_and(|whole| whole.len() == 3))
        && !digits.starts_with('0');
    let plain: String = match (commas, grouped) {
        (0, _) => digits.replace('_', ""),
        (_, true) => digits.replace(',', ""),
        (1, false) if !digits.contains('.') => digits.replace(',', "."),
        _ => return None,
    };
    plain.parse().ok()
}

fn scale_of(label: &str, binary: bool) -> Option<f64> {
    let power = match label.trim_end_matches(['.', ';', ')', ',']) {
        "B" | "b" | "byte" | "bytes" | "Bytes" => return Some(1.0),
        "KiB" | "kiB" | "K" | "k" | "Ki" => return Some(1024.0),
        "MiB" | "M" | "Mi" => return Some(1024f64.powi(2)),
        "GiB" | "G" | "Gi" => return Some(1024f64.powi(3)),
        "TiB" | "T" | "Ti" => return Some(1024f64.powi(4)),
        "PiB" => return Some(1024f64.powi(5)),
        "KB" | "kB" | "kb" => 1,
        "MB" | "mb" | "Mb" => 2,
        "GB" | "gb" | "Gb" => 3,
        "TB" | "tb" => 4,
        _ => return None,
    };
    Some(if binary { 1024f64.powi(power) } else { 1000f64.powi(power) })
}

/// A size in binary units with two decimals, as PyTorch prints it: `546.00 MiB`, `4.18 GiB`, `512 bytes`.
pub fn binary(bytes: u64) -> String {
    const STEPS: [(&str, f64); 4] = [("TiB", 40.0), ("GiB", 30.0), ("MiB", 20.0), ("KiB", 10.0)];
    for (label, power) in STEPS {
        let scaled = bytes as f64 / power.exp2();
        if scaled >= 1.0 {
            return format!("{scaled:.2} {label}");
        }
    }
    format!("{bytes} bytes")
}

/// A whole number with thousands separators.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Milliseconds in words a reader can place: `600000 ms` is `10 min`.
pub fn duration(ms: f64) -> String {
    match ms {
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 120_000.0 => format!("{:.0} s", ms / 1000.0),
        ms if ms < 7_200_000.0 => format!("{:.0} min", ms / 60_000.0),
        ms => format!("{:.1} h", ms / 3_600_000.0),
    }
}

/// Fills in what a template says of a name: `{name}` is its value, `{name:file|files}` the word that goes with it, the
/// first one where the value is 1.
pub fn fill_in(template: &str, name: &str, value: &str) -> String {
    let mut out = template.replace(&format!("{{{name}}}"), value);
    let choice = format!("{{{name}:");
    while let Some(start) = out.find(&choice) {
        let inside = start + choice.len();
        let Some(end) = out[inside..].find('}').map(|end| inside + end) else { return out };
        let (one, many) = out[inside..end].split_once('|').unwrap_or((&out[inside..end], &out[inside..end]));
        let word = if value == "1" { one } else { many }.to_owned();
        out.replace_range(start..=end, &word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let of = |value: &str| fill_in("{n} {n:file|files} read, {n:it was|they were} {m}", "n", value);
        assert_eq!(of("1"), "1 file read, it was {m}");
        assert_eq!(of("21"), "21 files read, they were {m}");
        assert_eq!(fill_in("{n:a", "n", "1"), "{n:a");
    }

    fn bytes(text: &str) -> Option<u64> {
        read(text, None).and_then(|(value, _)| value.bytes())
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("2.00 GiB"), Some(2 << 30));
        assert_eq!(bytes("546.00MiB"), Some(546 << 20));
        assert_eq!(bytes("0 bytes"), Some(0));
        assert_eq!(bytes("38.5 MB"), Some(38_500_000));
        assert_eq!(bytes("1900,00 MiB"), Some(1900 << 20));
        assert_eq!(bytes("1,900 MiB"), Some(1900 << 20));
        assert_eq!(bytes("17.34G"), Some((17.34 * f64::from(1 << 30)).round() as u64));
        assert_eq!(read("9.07 GB", Some(Unit::Binary)).map(|r| r.0), Some(Value::Bytes((9.07 * f64::from(1 << 30)).round() as u64)));
        assert_eq!(read("123kB", Some(Unit::Binary)).map(|r| r.0), Some(Value::Bytes(123 * 1024)));
    }

    #[test]
    fn counts() {
        assert_eq!(read("12,345", None).map(|r| r.0), Some(Value::Int(12345)));
        assert_eq!(read("-9", None).map(|r| r.0), Some(Value::Int(-9)));
        assert_eq!(read("1.2e-05", None).map(|r| r.0), Some(Value::Float(1.2e-5)));
        assert_eq!(read("600000", Some(Unit::Ms)), Some((Value::Int(600_000), Unit::Ms)));
        assert_eq!(read("ALLREDUCE", None), None);
        assert_eq!(read("2 apples", None), None);
    }

    #[test]
    fn printing() {
        assert_eq!(binary(546 << 20), "546.00 MiB");
        assert_eq!(binary(512), "512 bytes");
        assert_eq!(grouped(1_073_741_824), "1,073,741,824");
        assert_eq!(duration(600_000.0), "10 min");
    }
}
