//! Numbers to cause: what text alone cannot say.
//!
//! A page names its verdict in the front matter; the verdict reads the page's captures and returns a cause and the facts
//! behind it. Words are made elsewhere (`explain`).

pub mod device_oom;
pub mod holders;
pub mod memory_series;
pub mod serving;
pub mod tensor_shape;

pub use device_oom::DeviceOom;
pub use tensor_shape::TensorShape;

use super::finding::Number;
use super::units::{self, Unit, Value};
use super::vocabulary::Cause;

/// The verdicts that pages may name.
pub const NAMES: &[&str] = &["device-oom", "tensor-shape", "kv-cache", "startup-memory", "line-growth", "imbalance", "bank-memory"];

/// Verdicts without which there is no finding: the page only says where to look.
pub const CONDITIONS: &[&str] = &["line-growth", "imbalance"];

/// Placeholders that verdicts give to message templates.
pub const PLACEHOLDERS: &[&str] = &[
    "tensor_bytes",
    "bytes_per_token",
    "missing",
    "largest_model_len",
    "held",
    "largest_utilization",
    "used",
    "growth",
    "free",
    "samples_left",
    "gpu",
    "total",
    "others",
    "holder_pid",
    "holder_in_use",
];

/// What the numbers of a finding add up to.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// An allocator message with an account of the card.
    DeviceOom(DeviceOom),
    /// A tensor whose shape and type give its size.
    TensorShape(TensorShape),
}

/// Calls the verdict of this name. New numbers may be added to `numbers`; some verdicts are only these numbers and a cause.
///
/// `None` when there is no such verdict or the captures do not suffice.
pub fn judge(name: &str, numbers: &mut Vec<Number>, texts: &[(String, String)], page_cause: Cause) -> Option<(Cause, Option<Verdict>)> {
    let text = |name: &str| texts.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str());
    match name {
        "device-oom" => {
            let verdict = device_oom::judge(numbers, texts)?;
            let largest = verdict.holders.first().and_then(|holder| Some((holder.pid?, holder.bytes)));
            if let Some((pid, bytes)) = largest.filter(|_| verdict.cause == Cause::OtherProcess) {
                let value = Value::Int(i64::try_from(pid).unwrap_or(i64::MAX));
                numbers.push(computed("holder_pid", value, Unit::Count, pid.to_string()));
                numbers.push(computed("holder_in_use", Value::Bytes(bytes), Unit::Bytes, units::binary(bytes)));
            }
            let cause = if verdict.cause == Cause::Unknown { page_cause } else { verdict.cause };
            Some((cause, Some(Verdict::DeviceOom(verdict))))
        }
        "tensor-shape" => {
            let verdict = tensor_shape::judge(texts)?;
            if numbers.iter().all(|number| number.name != "tried") {
                numbers.push(verdict.as_number());
            }
            Some((verdict.cause, Some(Verdict::TensorShape(verdict))))
        }
        "kv-cache" => {
            serving::kv_cache(numbers);
            Some((page_cause, None))
        }
        "line-growth" => {
            memory_series::line_growth(text("rows")?, numbers)?;
            Some((page_cause, None))
        }
        "imbalance" => {
            memory_series::imbalance(text("rows")?, numbers)?;
            Some((page_cause, None))
        }
        // Enough is free in a bank of the device, but not in one piece.
        "bank-memory" => {
            let of = |name: &str| numbers.iter().find(|number| number.name == name).map(|number| number.value.as_f64());
            let scattered = of("free").zip(of("needed")).is_some_and(|(free, needed)| free >= needed);
            Some((if scattered { Cause::Fragmentation } else { page_cause }, None))
        }
        "startup-memory" => Some((serving::startup_memory(numbers)?, None)),
        _ => None,
    }
}

/// A number that no message prints.
fn computed(name: &str, value: Value, unit: Unit, text: String) -> Number {
    Number { name: name.to_owned(), value, unit, text, span: None }
}
