//! Memory errors that a program caught: it says what it does instead, and nothing says that it ended.
//!
//! Batch-size finders, trainers that skip a batch and servers that load fewer layers print the error as they go. Where step
//! lines follow, they show that the run went on; here the program's own words do, as long as no failure stands below them.

use super::finding::Finding;
use super::record;
use super::story::Group;
use super::uncaught;
use super::vocabulary::{Kind, Role, Severity};
use crate::text::{Lines, floor_border};

/// Lines below an error that may say what is done about it.
const NEAR_LINES: usize = 12;
/// Lines below an error in which the model may be loaded with fewer layers.
const LOAD_LINES: usize = 400;
/// Bytes of a line that are looked at.
const MOST_BYTES: usize = 512;
/// Groups that are looked at.
const MOST_GROUPS: usize = 64;

/// What is done ...
const DOES: [&str; 16] = [
    "retrying",
    "trying",
    "skipping",
    "skipped",
    "falling back",
    "fell back",
    "reducing",
    "reduced",
    "decreasing",
    "decreased",
    "halving",
    "halved",
    "removed",
    "dropped",
    "recover",
    "moving",
];
/// ... with what.
const WITH: [&str; 7] = ["batch", "oom", "out of memory", "layers", "cpu", "tile", "smaller"];
/// Words that say both.
const DONE: [&str; 4] = ["using batch-size", "using default batch", "using cpu", "will continue with"];
/// Words of advice and of the error itself: nobody did what they say.
const ADVICE: [&str; 10] = ["to allocate", "try ", "consider", "please", "you can", "you may", "you should", "if ", " by ", "before "];

/// Marks the memory errors that were handled, and what only followed from them before they were.
pub(super) fn mark(findings: &[Finding], groups: &mut [Group], lines: &dyn Lines) {
    let last_line = |group: &Group| group.members.last().map_or(0, |&i| findings[i].span.end_line);
    let mut order: Vec<usize> = (0..groups.len()).filter(|&nth| !groups[nth].went_on && fails(&findings[groups[nth].lead])).collect();
    order.sort_by_key(|&nth| std::cmp::Reverse(last_line(&groups[nth])));
    // The last line of what nothing handled, from the end of the log upwards: of any failure, and of one that is no
    // consequence.
    let (mut failed, mut caused): (Option<usize>, Option<usize>) = (None, None);
    let mut handled: Vec<(usize, usize)> = Vec::new();
    for (at, &nth) in order.iter().enumerate() {
        let group = &groups[nth];
        let may_be = at < MOST_GROUPS && findings[group.lead].kind == Kind::Oom;
        let last = group.members.last().map(|&i| &findings[i]).filter(|_| may_be);
        let is_over = |last: &Finding, line: usize| {
            failed.is_none_or(|failed| failed <= line) && caused.is_none_or(|caused| caused <= last.span.end_line)
        };
        match last.and_then(|last| handled_at(last, lines).filter(|&line| is_over(last, line))) {
            Some(line) => {
                handled.push((findings[group.lead].span.line, line));
                groups[nth].went_on = true;
                groups[nth].handled = true;
            }
            None => {
                failed = failed.max(Some(last_line(group)));
                if findings[group.lead].role != Role::Consequence {
                    caused = caused.max(Some(last_line(group)));
                }
            }
        }
    }
    let followed = |group: &Group| {
        let (first, last) = (findings[group.lead].span.line, last_line(group));
        findings[group.lead].role == Role::Consequence && handled.iter().any(|&(from, to)| from <= first && last <= to)
    };
    for group in groups.iter_mut().filter(|group| !group.went_on) {
        group.went_on = followed(group);
        group.handled = group.went_on;
    }
}

/// Does a finding say that something failed or ended?
fn fails(lead: &Finding) -> bool {
    let told = lead.severity != Severity::Info && !matches!(lead.kind, Kind::Report | Kind::Leak);
    told || uncaught::is_exception(lead) || uncaught::is_end(lead)
}

/// The line below (or behind) an error that says what the program does about it.
pub(super) fn handled_at(error: &Finding, lines: &dyn Lines) -> Option<usize> {
    let below = error.span.end_line;
    let near = (below..=below + NEAR_LINES).find(|&i| {
        let line = lines.line(i);
        // Another rank goes on without this one.
        if error.rank.is_some() && i > below && record::last(&line, MOST_BYTES).prefix.rank.is_some_and(|rank| Some(rank) != error.rank) {
            return false;
        }
        let from = if i == below { floor_border(&line, error.span.end) } else { 0 };
        is_handling(&line[from..])
    });
    near.or_else(|| (below + 1..lines.count().min(below + LOAD_LINES)).find(|&i| is_load(&lines.line(i))))
}

fn is_handling(line: &str) -> bool {
    let line = line[..floor_border(line, MOST_BYTES)].to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| line.contains(word));
    (says(&DONE) || (says(&DOES) && says(&WITH))) && !says(&ADVICE)
}

/// llama.cpp, which loads the model once more with other layers: `load_tensors: offloaded 20/33 layers to GPU`.
fn is_load(line: &str) -> bool {
    line.contains("offloaded ") && line.contains(" layers to GPU")
}

#[cfg(test)]
mod tests {
    use super::is_handling;
    use crate::log::analyze;
    use crate::log::rules::Rules;
    use crate::log::vocabulary::{Outcome, Role, Severity};

    const OOM: &str = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 20.00 GiB already allocated; 1.00 GiB free; 21.00 GiB reserved in total by PyTorch)\n";

    fn first(text: &str) -> (Role, Severity, Outcome) {
        let analysis = analyze(text, &Rules::builtin());
        let lead = &analysis.findings[0];
        (lead.role, lead.severity, analysis.story.group_of(0).unwrap().outcome)
    }

    #[test]
    fn what_a_program_says_it_did_is_over() {
        for said in [
            "AutoBatch: Using batch-size 13 for CUDA:0 14.2G/23.69G (60%)",
            "2023-01-01 10:00:00 | WARNING | fairseq.trainer | attempting to recover from OOM in forward/backward pass",
            "Batch size 128 failed, trying batch size 64",
            "Decreasing batch size to: 8.",
            "Prediction on device was unsuccessful, probably due to a lack of memory. Moving results arrays to CPU",
            "batch too large for the card, skipped",
        ] {
            assert_eq!(first(&format!("{OOM}{said}\n")), (Role::Context, Severity::Info, Outcome::Recovered), "{said}");
            let died = format!(
                "{OOM}{said}\nTraceback (most recent call last):\n  File \"/home/user/a.py\", line 3, in f\n    x()\nKeyError: 'text'\n"
            );
            assert_eq!(first(&died).1, Severity::Error, "{said}");
        }
    }

    #[test]
    fn advice_does_nothing() {
        for said in [
            "Please try reducing the batch size before retrying.",
            "Out of memory while trying to allocate 13421772800 bytes.",
            "You can save memory by decreasing the batch size.",
            "Retrying (Retry(total=4)) after connection broken",
            "GPU 0 is using 22 GiB of memory",
        ] {
            assert!(!is_handling(said), "{said}");
            assert_eq!(first(&format!("{OOM}{said}\n")).1, Severity::Error, "{said}");
        }
        let other_rank = format!("[rank3]: {OOM}[rank0]: Batch size 128 failed, trying batch size 64\n");
        assert_eq!(first(&other_rank).1, Severity::Error);
    }
}
