//! A memory plan in a hover: every term with its formula.

use super::{LANGUAGE, size};
use crate::explain::markdown;
use crate::explain::texts::fill;
use crate::model::plan::{Plan, Term};

/// The plan of a run that is called so.
pub fn table(what: &str, plan: &Plan) -> String {
    let rows: Vec<String> = plan.terms.iter().map(row).collect();
    let values = [
        ("what", markdown::escape(what)),
        ("total", size(plan.total)),
        ("low", size(plan.total_low)),
        ("high", size(plan.total_high)),
        ("phase", plan.peak_phase.to_owned()),
        ("rows", rows.join("\n")),
    ];
    fill(LANGUAGE, "kin.use.plan", &values)
}

fn row(term: &Term) -> String {
    let formula = markdown::escape(&term.formula);
    fill(LANGUAGE, "kin.use.term", &[("name", term.name.to_owned()), ("bytes", size(term.bytes)), ("formula", formula)])
}

/// One term, with its formula; none when it is not held at the peak.
pub fn one(plan: &Plan, name: &str) -> Option<String> {
    let term = plan.terms.iter().find(|term| term.name == name)?;
    Some(format!("{} = {}.", markdown::escape(&term.formula), size(term.bytes)))
}
