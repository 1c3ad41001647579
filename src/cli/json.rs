//! Machine-readable findings: `jsonl` prints one object a finding, `json` adds the story.
//!
//! The form is stable: lines and columns are 1-based, columns count characters of the original line, sizes are integer
//! bytes. Every finding is listed, repeats too.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::log::attempts::Attempt;
use crate::log::collectives::Collective;
use crate::log::divergence::Quantity;
use crate::log::run::{Part, Place};
use crate::log::story::Group;
use crate::log::units::Value;
use crate::log::{Analysis, Finding};
use crate::text::Lines;

/// One finding as an object.
pub fn finding(file: &str, f: &Finding, lines: &dyn Lines) -> Json {
    let mut out = Map::new();
    out.insert("file".into(), file.into());
    out.insert("line".into(), (f.span.line + 1).into());
    out.insert("column".into(), column(&lines.line(f.span.line), f.span.start).into());
    out.insert("end_line".into(), (f.span.end_line + 1).into());
    out.insert("end_column".into(), column(&lines.line(f.span.end_line), f.span.end).into());
    out.insert("rule".into(), Json::from(&*f.rule));
    out.insert("kind".into(), f.kind.as_str().into());
    out.insert("cause".into(), f.cause.as_str().into());
    out.insert("severity".into(), f.severity.as_str().into());
    out.insert("confidence".into(), f.confidence.as_str().into());
    out.insert("role".into(), f.role.as_str().into());
    out.insert("message".into(), f.message.as_str().into());
    let numbers: Map<String, Json> = f.numbers.iter().map(|n| (n.name.clone(), number(n.value))).collect();
    out.insert("numbers".into(), numbers.into());
    let known = [
        ("rank", f.rank.map(Json::from)),
        ("step", f.step.map(Json::from)),
        ("time", f.time.as_deref().map(Json::from)),
        ("host", f.host.as_deref().map(Json::from)),
        ("exception", f.text("exception").map(Json::from)),
        ("frame", f.text("frame").map(Json::from)),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            out.insert(name.into(), value);
        }
    }
    out.into()
}

/// Bytes as an integer, other numbers as they are; non-finite ones as a word, since JSON has none.
fn number(value: Value) -> Json {
    match value {
        Value::Bytes(n) => n.into(),
        Value::Int(n) => n.into(),
        Value::Float(x) if x.is_finite() => x.into(),
        Value::Float(x) => x.to_string().into(),
    }
}

/// The 1-based column of a byte, counted in characters.
pub fn column(line: &str, byte: usize) -> usize {
    let head: Cow<'_, str> = match line.get(..byte) {
        Some(head) => Cow::Borrowed(head),
        None => Cow::Owned(String::from_utf8_lossy(&line.as_bytes()[..byte.min(line.len())]).into_owned()),
    };
    head.chars().count() + 1
}

/// The run that a file is a part of: how many files it has, and where its root cause stands.
pub fn run(parts: &[Part], root: Option<Place>) -> Json {
    let root = root.map(|root| json!({"file": parts[root.part].name, "finding": root.finding}));
    let collective = parts.first().and_then(|part| part.analysis.story.of_run.as_deref());
    json!({"files": parts.len(), "root_cause": root, "collective": collective.map(collective_object)})
}

/// What the ranks did at the collective that timed out.
fn collective_object(collective: &Collective) -> Json {
    let calls: Vec<Json> = collective
        .calls
        .iter()
        .map(|(call, ranks)| json!({"op": call.op, "numel_in": call.numel.map(|n| n.0), "numel_out": call.numel.map(|n| n.1), "ranks": ranks}))
        .collect();
    let behind: Vec<Json> = collective.behind.iter().map(|(rank, last)| json!({"rank": rank, "last_enqueued": last})).collect();
    // Ranks that had come equally far stand together.
    let mut progress: BTreeMap<(i64, Option<i64>, bool), Vec<u32>> = BTreeMap::new();
    for one in &collective.progress {
        progress.entry((one.enqueued, one.completed, one.waits())).or_default().push(one.rank);
    }
    let progress: Vec<Json> = progress
        .into_iter()
        .map(|((enqueued, completed, waits), ranks)| json!({"last_enqueued": enqueued, "last_completed": completed, "waits": waits, "ranks": ranks}))
        .collect();
    json!({
        "world_size": collective.world,
        "group": collective.group,
        "seq": collective.seq,
        "calls": calls,
        "desynchronised": collective.is_desynchronised(),
        "missing": collective.missing,
        "absent": collective.absent,
        "unexplained": collective.unexplained,
        "silent": collective.silent,
        "behind": behind,
        "progress": progress,
    })
}

/// The findings and the story of one file.
pub fn report(file: &str, analysis: &Analysis, lines: &dyn Lines) -> Json {
    let story = &analysis.story;
    let findings: Vec<Json> = analysis.findings.iter().map(|f| finding(file, f, lines)).collect();
    let group = |g: &Group| {
        json!({
            "lead": g.lead,
            "members": g.members,
            "ranks": g.ranks,
            "went_on": g.went_on,
            "outcome": g.outcome.as_str(),
            "attempt": g.attempt + 1,
        })
    };
    let groups: Vec<Json> = story.groups.iter().map(group).collect();
    let attempt =
        |a: &Attempt| json!({"first_line": a.first_line + 1, "last_line": a.last_line + 1, "root_cause": a.root, "last_step": a.last_step});
    let attempts: Vec<Json> = story.attempts.iter().map(attempt).collect();
    let onset = story.onset.map(|o| {
        json!({
            "finding": o.finding,
            "step": o.step,
            "last_finite_step": o.last_finite_step,
            "last_finite_line": o.last_finite_line.map(|l| l + 1),
            "divergence": o.divergence.map(|d| json!({
                "quantity": match d.quantity { Quantity::Loss => "loss", Quantity::GradNorm => "grad_norm" },
                "line": d.line + 1,
                "step": d.step,
                "value": d.value,
                "typical": d.typical,
                "limit": d.limit,
            })),
        })
    });
    json!({
        "file": file,
        "findings": findings,
        "story": {
            "root_cause": story.root,
            "groups": groups,
            "onset": onset,
            "collective": story.collective.as_ref().map(collective_object),
            "attempts": attempts,
            "memory": story.memory.map(|m| json!({
                "only_reserved": m.only_reserved,
                "of_free": m.of_free,
                "first_line": m.first_line + 1,
                "last_line": m.last_line + 1,
                "first": m.first,
                "last": m.last,
                "a_step": m.a_step,
            })),
            "last_step": story.last_step.map(|(step, line)| json!({"step": step, "line": line + 1})),
        },
    })
}
