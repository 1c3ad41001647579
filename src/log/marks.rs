//! What the story knows of a finding and its own line does not say: marks by which a page's remedies are chosen.
//!
//! A mark is a text of the finding, and its value may stand in the page's prose.

use super::evaluation;
use super::finding::Finding;
use super::groups::is_non_finite;
use super::serving::{SERVING, TRAINER};
use super::settings::{self, RunSettings, Setting};
use super::story::Story;
use super::units;
use super::vocabulary::{Cause, Kind};
use crate::text::Lines;

/// Live tensors grew steadily up to this out-of-memory error: how much they held at the last.
pub const LEAK: &str = "leak";
/// Loss or gradient norm had left their band before this non-finite value: where, `step 303`.
pub const DIVERGED: &str = "diverged";
/// Steps with finite values followed this non-finite one.
pub const HEALED: &str = "healed";

/// Ranks that never joined the collective in which this one waited: `rank 2`. Set where the ranks are compared.
pub const ABSENT: &str = "absent";
/// The log is of several ranks.
pub const RANKS: &str = "ranks";
/// The run's batch on one GPU, its accumulation steps, and the same product with a smaller batch.
pub const BATCH: [&str; 4] = ["batch", "accumulation", "smaller_batch", "more_accumulation"];
/// The batch is one already.
pub const SINGLE: &str = "single";
/// The address of a card on its bus, as nvidia-smi takes it.
pub const PCI: &str = "pci";
/// Numbers of other Xids of the same card.
pub const NEIGHBOURS: &str = "neighbours";
/// Bytes of the weights, where they alone are more than what is free at the start of a server.
pub const WEIGHTS: &str = "weights";
/// Memory ran out while the weights were being loaded.
pub const LOADING: &str = "loading";
/// Functions of servers and libraries that make or fill the weights of a model.
const LOADERS: [&str; 4] = ["create_weights", "load_model", "initialize_model", "load_weights"];
/// Lines above an error in which its own traceback may stand.
const TRACE_LINES: usize = 200;
/// It was evaluation that ran out of memory: the function.
pub const EVAL: &str = "eval";
/// The run had made steps before it lost a connection: the last one.
pub const STEPPED: &str = "stepped";
/// What a finding keeps where it is written down and read again: only its own log tells these.
pub const KEPT: [&str; 17] = [
    LEAK, HEALED, LOADING, DIVERGED, RANKS, BATCH[0], BATCH[1], BATCH[2], BATCH[3], SINGLE, PCI, NEIGHBOURS, WEIGHTS, EVAL, STEPPED,
    SERVING, TRAINER,
];
/// The text that names the frame that raised something.
const FRAME: &str = "frame";
/// Lines below a failure in which the exception that reports it may stand.
const FRAME_LINES: usize = 400;
/// Xids that are looked at.
const MOST_XIDS: usize = 64;
/// A larger batch or number of steps is no setting of a run.
const MOST_BATCH: u64 = 1 << 20;

/// Marks the findings that a story explains.
pub(super) fn mark(findings: &mut [Finding], story: &Story, lines: &dyn Lines) {
    mark_cards(findings);
    mark_healed(findings, story);
    mark_connections(findings, story);
    if let Some(root) = story.root {
        let several = findings.iter().any(|f| f.rank.is_some_and(|rank| rank > 0));
        let own = [several.then(|| (RANKS, "several".to_owned())), heavy(findings, root).map(|text| (WEIGHTS, text))];
        let frame = frame_below(findings, root).map(|text| (FRAME, text));
        findings[root].texts.extend(own.into_iter().flatten().chain(frame).map(|(name, text)| (name.to_owned(), text)));
    }
    if let Some(root) = story.root.filter(|&root| findings[root].kind == Kind::Oom) {
        let line = findings[root].span.line;
        let own = own_batch(&settings::read(lines, line));
        let eval = evaluation::function_above(lines, line).map(|function| (EVAL, function));
        findings[root].texts.extend(own.into_iter().chain(eval).map(|(name, text)| (name.to_owned(), text)));
        if is_loading(&findings[root], lines) {
            findings[root].texts.push((LOADING.to_owned(), "loading".to_owned()));
        }
    }
    if let Some((root, bytes)) = leak(findings, story) {
        findings[root].texts.push((LEAK.to_owned(), units::binary(bytes)));
    }
    if let Some((onset, divergence)) = story.onset.and_then(|onset| Some((onset.finding, onset.divergence?))) {
        let place = divergence.step.map_or_else(|| format!("line {}", divergence.line + 1), |step| format!("step {step}"));
        let root = story.root.filter(|&root| root != onset && story.group_index.get(root) == story.group_index.get(onset));
        for finding in root.into_iter().chain([onset]) {
            findings[finding].texts.push((DIVERGED.to_owned(), place.clone()));
        }
    }
}

/// Non-finite values that finite steps followed.
fn mark_healed(findings: &mut [Finding], story: &Story) {
    for group in story.groups.iter().filter(|group| group.went_on && group.next_step.is_some()) {
        for &member in &group.members {
            if is_non_finite(&findings[member]) {
                findings[member].texts.push((HEALED.to_owned(), "finite".to_owned()));
            }
        }
    }
}

/// Does the traceback above an error name a function that loads weights?
fn is_loading(error: &Finding, lines: &dyn Lines) -> bool {
    for i in (error.span.line.saturating_sub(TRACE_LINES)..error.span.line).rev() {
        let line = lines.line(i);
        if line.contains("Traceback (most recent call last)") {
            return false;
        }
        let function = line.contains("File \"").then(|| line.trim_end().rsplit_once(", in ")).flatten();
        if function.is_some_and(|(_, function)| LOADERS.contains(&function)) {
            return true;
        }
    }
    false
}

/// The address and the other Xids of each card.
fn mark_cards(findings: &mut [Finding]) {
    let xids: Vec<(usize, String, String)> = findings
        .iter()
        .enumerate()
        .filter(|(_, f)| f.kind == Kind::Hardware)
        .filter_map(|(i, f)| Some((i, f.text("bus")?.to_owned(), f.number("xid")?.text.clone())))
        .take(MOST_XIDS)
        .collect();
    for (i, bus, xid) in &xids {
        let mut others: Vec<&str> =
            xids.iter().filter(|(_, at, other)| at == bus && other != xid).map(|(_, _, xid)| xid.as_str()).collect();
        others.sort_unstable();
        others.dedup();
        // The kernel leaves out the function of the device.
        let address = if bus.contains('.') { bus.clone() } else { format!("{bus}.0") };
        findings[*i].texts.push((PCI.to_owned(), address));
        if !others.is_empty() {
            findings[*i].texts.push((NEIGHBOURS.to_owned(), others.join(", ")));
        }
    }
}

/// Connections to a peer that were lost by a run that had made steps since it was started.
fn mark_connections(findings: &mut [Finding], story: &Story) {
    let Some((step, line)) = story.last_step else { return };
    for (i, finding) in findings.iter_mut().enumerate() {
        let refused = finding.text("reason").is_some() || finding.number("attempts").is_some();
        if finding.kind != Kind::Nccl || finding.cause != Cause::Connection || !refused || finding.span.line < line {
            continue;
        }
        let attempt = story.group_of(i).and_then(|group| story.attempts.get(group.attempt));
        if attempt.is_none_or(|attempt| attempt.first_line <= line) {
            finding.texts.push((STEPPED.to_owned(), step.to_string()));
        }
    }
}

/// The frame of the exception that reports a root cause further down, where its own lines name none.
fn frame_below(findings: &[Finding], root: usize) -> Option<String> {
    let cause = &findings[root];
    if cause.text(FRAME).is_some() || cause.kind != Kind::CudaError {
        return None;
    }
    let below = findings[root + 1..].iter().take_while(|f| f.span.line <= cause.span.line + FRAME_LINES);
    let reports = below.filter(|f| f.kind == cause.kind && (f.rank.is_none() || cause.rank.is_none() || f.rank == cause.rank));
    reports.filter_map(|f| f.text(FRAME)).next().map(str::to_owned)
}

/// The weights of the model, where a server that lacks memory at its start could not even load them into what is free.
fn heavy(findings: &[Finding], root: usize) -> Option<String> {
    let free = findings[root].number("largest_utilization").and(findings[root].bytes("free"))?;
    let weights = findings.iter().filter_map(|f| f.bytes("weights")).max()?;
    (weights >= free).then(|| units::binary(weights))
}

/// The run's own batch and accumulation, where it printed them, and how they could be traded.
fn own_batch(settings: &RunSettings) -> Vec<(&'static str, String)> {
    let number = |setting| settings.number(setting).map(|told| told.value).filter(|value| (1..=MOST_BATCH).contains(value));
    let (batch, accumulation) = (number(Setting::Batch), number(Setting::Accumulation));
    match (batch, accumulation) {
        (Some(1), _) => vec![(SINGLE, "1".to_owned())],
        (Some(batch), Some(accumulation)) => {
            // An odd batch has no half: one sequence at a time keeps the product as well.
            let factor = if batch % 2 == 0 { 2 } else { batch };
            let values = [batch, accumulation, batch / factor, accumulation * factor];
            BATCH.into_iter().zip(values.map(|value| value.to_string())).collect()
        }
        _ => Vec::new(),
    }
}

/// The out-of-memory error that is the end of a leak, and what live tensors held before it.
///
/// A limit, others on the card or one huge request explain an error whatever grew before.
fn leak(findings: &[Finding], story: &Story) -> Option<(usize, u64)> {
    let root = story.root?;
    let error = &findings[root];
    if error.kind != Kind::Oom || !matches!(error.cause, Cause::DeviceFull | Cause::Fragmentation | Cause::Unknown) {
        return None;
    }
    if let Some(trend) = story.memory {
        return (!trend.only_reserved).then_some((root, trend.last));
    }
    // A series of the allocator's own numbers; other lines may speak of the host's memory.
    let attempt = story.group_of(root)?.attempt;
    let series = story.groups.iter().filter(|group| group.attempt == attempt).map(|group| &findings[group.lead]);
    let grown = |f: &&Finding| f.kind == Kind::Leak && f.cause == Cause::MemoryGrowth && f.span.line < error.span.line;
    let held = series.filter(grown).find_map(|f| f.bytes("reserved").and(f.bytes("used")))?;
    Some((root, held))
}
