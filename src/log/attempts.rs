//! Attempts: where a run that failed was started again in the same log.
//!
//! A restart is seen only behind a failure: the line of torchrun's agent, or a step counter that falls back (or goes on)
//! behind a line that resumes from a checkpoint, or that falls back once a launcher or scheduler has ended the run. A
//! counter that merely starts again, as batches do in each epoch, is no restart.
//!
//! A job that Slurm takes away is put back into the queue and writes on into the same file: any sign of a start is one,
//! and so is a second notice of another time. Rising steps alone are not, up to a number: a job may go on for its grace
//! time. A step done once more is, and so are steps that end in a memory error or in a loss that is no number.

use super::finding::Finding;
use super::progress::Steps;
use super::vocabulary::{Cause, Kind, Role, Severity};
use crate::text::floor_border;

/// One start of the run, with what ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// First line, 0-based.
    pub first_line: usize,
    /// Last line, 0-based.
    pub last_line: usize,
    /// The finding that explains its end.
    pub root: Option<usize>,
    /// The last step reported before its end.
    pub last_step: Option<u64>,
}

/// Attempts of one log.
const MOST_ATTEMPTS: usize = 64;
/// Lines read below a failure for a restart ...
const AFTER_LINES: usize = 4000;
/// ... and in the whole text.
const MOST_LINES: usize = 100_000;
/// Lines read above a place for the last step.
const STEP_LINES: usize = 2000;
/// Bytes of a line that are looked at.
const MOST_BYTES: usize = 1024;

/// Lower-case words of a line that takes up an earlier state.
const RESUMES: [&str; 13] = [
    "resuming from",
    "resuming training",
    "resume from",
    "resumed from",
    "resumed epoch",
    "continuing training from",
    "restored all states from",
    "restoring states from",
    "restored from checkpoint",
    "successfully loaded checkpoint",
    "loading the checkpoint",
    "loading checkpoint from",
    "loaded checkpoint",
];

/// Lower-case words of a line that a run writes while it starts.
const STARTS: [&str; 10] = [
    "setting omp_num_threads",
    "***** running training",
    "starting elastic_operator",
    "nccl version ",
    "using world size",
    "initializing distributed",
    "initializing process group",
    "loading checkpoint shards",
    "slurm_restart_count",
    "all distributed processes registered",
];
/// Step lines behind a job's cancellation that are no grace time any more.
const MOST_GRACE_STEPS: usize = 60;
/// Step lines above a cancellation that show whether each step is written once.
const ONCE_STEPS: usize = 16;
/// Minutes between two notices of one cancellation, which each node writes for itself.
const MOST_APART: i64 = 2;

/// The lines at which later attempts begin, rising. `findings` carry the severities of their pages.
pub(super) fn starts(findings: &[Finding], steps: &Steps<'_>) -> Vec<usize> {
    let mut search = Search { steps, starts: Vec::new(), open: None, restart: None, left: MOST_LINES };
    for finding in findings {
        if is_restart(finding) {
            search.read_to(finding.span.line);
            search.restart(finding);
        } else if finding.severity != Severity::Info && !matches!(finding.kind, Kind::Report | Kind::Leak) {
            search.read_to(finding.span.line);
            search.failure(finding);
        }
        if search.starts.len() + 1 >= MOST_ATTEMPTS {
            return search.starts;
        }
    }
    search.read_to(steps.count());
    search.starts
}

/// The attempts that begin at these lines; none when the run was started only once. Their roots are not known yet.
pub(super) fn of(starts: &[usize], count: usize) -> Vec<Attempt> {
    if starts.is_empty() {
        return Vec::new();
    }
    let firsts = std::iter::once(0).chain(starts.iter().copied());
    let ends = starts.iter().copied().chain(std::iter::once(count));
    firsts
        .zip(ends)
        .map(|(first_line, end)| Attempt { first_line, last_line: end.saturating_sub(1), root: None, last_step: None })
        .collect()
}

/// The last step reported in `[first, until]`, near its end.
pub(super) fn last_step(first: usize, until: usize, steps: &Steps<'_>) -> Option<u64> {
    (first.max(until.saturating_sub(STEP_LINES))..=until).rev().find_map(|i| steps.at(i)?.step)
}

/// Attempts that the same failure ended, and the steps at which it did, in order; `None` when no other attempt ended so.
pub fn same_failure(attempts: &[Attempt], findings: &[Finding], root: usize) -> Option<(usize, Vec<u64>)> {
    let same = |other: usize| (&findings[other].rule, findings[other].cause) == (&findings[root].rule, findings[root].cause);
    let ended: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.root.is_some_and(same)).collect();
    let steps: Vec<u64> = ended.iter().filter_map(|attempt| attempt.last_step).collect();
    (ended.len() > 1).then(|| (ended.len(), if steps.len() == ended.len() { steps } else { Vec::new() }))
}

/// Is each of the last steps of `[first, until]` written once? Not so where several ranks write.
fn are_written_once(first: usize, until: usize, steps: &Steps<'_>) -> bool {
    let above = (first.max(until.saturating_sub(STEP_LINES))..=until).rev();
    let last: Vec<u64> = above.filter_map(|i| steps.at(i)?.step).take(ONCE_STEPS).collect();
    last.len() > 1 && last.windows(2).all(|pair| pair[0] != pair[1])
}

/// Does it fail for a reason of its own, whatever is taken down around it?
fn fails_by_itself(finding: &Finding) -> bool {
    finding.role == Role::RootCause && finding.severity == Severity::Error && matches!(finding.kind, Kind::Oom | Kind::Nan)
}

/// Does this line say that the run is started again?
fn is_restart(finding: &Finding) -> bool {
    finding.kind == Kind::Launch && finding.cause == Cause::Retry
}

/// Does it say that the run as a whole has ended?
fn ends_the_run(finding: &Finding) -> bool {
    let stopped = matches!(finding.cause, Cause::Preemption | Cause::NodeFailure | Cause::TimeLimit | Cause::Cancelled);
    stopped || (finding.kind == Kind::Launch && matches!(finding.role, Role::Consequence | Role::Confirmation))
}

/// When a scheduler took the job away to run it later, as printed.
fn taken_away(finding: &Finding) -> Option<&str> {
    let requeued = matches!(finding.cause, Cause::Preemption | Cause::NodeFailure);
    finding.text("time").filter(|_| requeued)
}

/// Are two times of the form `2024-05-02T10:00:12` far from each other?
fn far_apart(a: &str, b: &str) -> bool {
    let minute = |time: &str| -> Option<i64> {
        let (hours, rest) = time.split_once('T')?.1.split_once(':')?;
        Some(i64::from(hours.parse::<u16>().ok()?) * 60 + i64::from(rest.split(':').next()?.parse::<u16>().ok()?))
    };
    let day = |time: &str| time.split('T').next().map(str::to_owned);
    match minute(a).zip(minute(b)) {
        Some((x, y)) if day(a) == day(b) => (x - y).abs() > MOST_APART,
        // Around midnight.
        Some((x, y)) => (x - y).rem_euclid(24 * 60).min((y - x).rem_euclid(24 * 60)) > MOST_APART,
        None => false,
    }
}

struct Search<'s> {
    steps: &'s Steps<'s>,
    starts: Vec<usize>,
    open: Option<Open>,
    /// The last restart's message, and whether a failure followed it.
    restart: Option<(String, bool)>,
    left: usize,
}

/// A failure that no step line has followed so far.
struct Open {
    last_step: Option<u64>,
    resumes: Option<usize>,
    ended: bool,
    /// When a scheduler took the job away.
    taken_away: Option<String>,
    /// Step lines behind that, and the first of them.
    grace: usize,
    onward: Option<usize>,
    /// Was each step written once before?
    once: bool,
    /// The line below its last finding.
    below: usize,
}

impl Search<'_> {
    fn failure(&mut self, finding: &Finding) {
        if let Some((_, failed)) = &mut self.restart {
            *failed = true;
        }
        let now = taken_away(finding);
        let again = |open: &Open| now.zip(open.taken_away.as_deref()).is_some_and(|(now, before)| far_apart(now, before));
        if let Some(open) = self.open.take_if(|open| again(open)) {
            self.starts.push(open.below);
        }
        if fails_by_itself(finding) {
            let onward = self.open.as_mut().and_then(|open| open.onward.take());
            if let Some(start) = onward {
                self.starts.push(start);
                (self.restart, self.open) = (None, None);
            }
        }
        let first = self.starts.last().copied().unwrap_or(0);
        let line = finding.span.line;
        let open = self.open.get_or_insert_with(|| {
            let last_step = (line > 0).then(|| last_step(first, line - 1, self.steps)).flatten();
            let once = now.is_some() && line > 0 && are_written_once(first, line - 1, self.steps);
            Open { last_step, resumes: None, ended: false, taken_away: None, grace: 0, onward: None, once, below: 0 }
        });
        open.ended |= ends_the_run(finding);
        if let Some(now) = now {
            open.taken_away = Some(now.to_owned());
        }
        open.below = open.below.max(finding.span.end_line + 1);
    }

    /// The agent of each node announces the same restart.
    fn restart(&mut self, finding: &Finding) {
        let again = self
            .restart
            .as_ref()
            .is_some_and(|(message, failed)| !failed || (*message == finding.message && finding.number("left").is_some()));
        if !again {
            self.starts.push(finding.span.end_line + 1);
        }
        self.restart = Some((finding.message.clone(), false));
        self.open = None;
    }

    /// Reads on below the last failure, up to this line.
    fn read_to(&mut self, until: usize) {
        let Some(open) = &mut self.open else { return };
        for i in open.below..until.min(open.below + AFTER_LINES) {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let Some(step) = self.steps.at(i).and_then(|now| now.step) else {
                let line = self.steps.lines.line(i);
                let begins = open.taken_away.is_some() && says(&line, &STARTS);
                if open.resumes.is_none() && (begins || says(&line, &RESUMES)) {
                    open.resumes = Some(i);
                }
                if begins {
                    self.starts.extend(open.resumes.filter(|start| self.starts.last().is_none_or(|last| start > last)));
                    self.open = None;
                    return;
                }
                continue;
            };
            let fell = open.last_step.is_some_and(|last| step < last || (open.once && step == last));
            open.grace += usize::from(open.taken_away.is_some());
            open.onward = open.onward.or(open.taken_away.is_some().then_some(i));
            if open.taken_away.is_some() && !fell && open.resumes.is_none() && open.grace < MOST_GRACE_STEPS {
                continue;
            }
            let goes_on = open.grace >= MOST_GRACE_STEPS;
            let start = open.resumes.or(((fell && open.ended) || goes_on).then_some(open.below));
            if let Some(start) = start.filter(|start| self.starts.last().is_none_or(|last| start > last)) {
                self.starts.push(start);
                self.restart = None;
            }
            self.open = None;
            return;
        }
        open.below = until.max(open.below);
    }
}

fn says(line: &str, any: &[&str]) -> bool {
    let head = line[..floor_border(line, MOST_BYTES)].to_ascii_lowercase();
    any.iter().any(|words| head.contains(words))
}

#[cfg(test)]
mod tests {
    use crate::log::rules::Rules;
    use crate::log::{Analysis, analyze};

    const OOM: &str = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process has 78.02 GiB memory in use. Of the allocated memory 74.91 GiB is allocated by PyTorch, and 1.21 GiB is reserved by PyTorch but unallocated.\n";

    fn steps(from: u32, to: u32) -> String {
        (from..=to).map(|step| format!("step {step} loss 2.{step}\n")).collect()
    }

    fn told(text: &str) -> Analysis {
        analyze(text, &Rules::builtin())
    }

    #[test]
    fn a_resumed_run_has_two_attempts() {
        let text = format!("{}{OOM}Resuming from checkpoint /home/user/ckpt-40\n{}{OOM}", steps(30, 45), steps(41, 47));
        let analysis = told(&text);
        let attempts = &analysis.story.attempts;
        assert_eq!(attempts.len(), 2, "{attempts:?}");
        assert_eq!((attempts[0].first_line, attempts[0].last_line, attempts[0].last_step), (0, 16, Some(45)));
        assert_eq!((attempts[1].first_line, attempts[1].last_step), (17, Some(47)));
        assert_eq!(analysis.story.root, Some(1));
        assert_eq!(super::same_failure(attempts, &analysis.findings, 1), Some((2, vec![45, 47])));
    }

    #[test]
    fn the_agent_restarts_before_any_step() {
        let again =
            "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 1/1 attempts left; will restart worker group\n";
        // Two nodes announce one restart.
        let text = format!("{OOM}{again}{again}{OOM}");
        let analysis = told(&text);
        assert_eq!(analysis.story.attempts.len(), 2, "{:?}", analysis.story.attempts);
        assert_eq!(analysis.findings[analysis.story.root.unwrap()].span.line, 3);
        // Nothing follows the restart: the failure above it still explains the log.
        let text = format!("{OOM}{again}");
        assert_eq!(told(&text).story.root, Some(0));
    }

    const REQUEUED: &str = "slurmstepd: error: *** JOB 120455 ON node01 CANCELLED AT 2024-05-02T10:00:12 DUE TO PREEMPTION ***\n\
        slurmstepd: error: *** STEP 120455.0 ON node01 CANCELLED AT 2024-05-02T10:00:12 DUE TO PREEMPTION ***\n\
        srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n";

    #[test]
    fn a_requeued_job_is_started_again() {
        // It goes on behind the last step, and says of no checkpoint.
        let text = format!("{}{REQUEUED}{}{OOM}", steps(30, 45), steps(46, 120));
        let analysis = told(&text);
        let attempts = &analysis.story.attempts;
        assert_eq!(attempts.len(), 2, "{attempts:?}");
        assert_eq!((attempts[0].last_step, attempts[1].first_line), (Some(45), 18));
        assert_eq!(&*analysis.findings[analysis.story.root.unwrap()].rule, "cuda-oom");
        // It fails before its first step.
        let start = "NCCL version 2.21.5+cuda12.4\n";
        let text = format!("{}{REQUEUED}{start}{OOM}", steps(30, 45));
        let analysis = told(&text);
        assert_eq!(analysis.story.attempts.len(), 2, "{:?}", analysis.story.attempts);
        assert_eq!(&*analysis.findings[analysis.story.root.unwrap()].rule, "cuda-oom");
        // It is taken away twice.
        let again = REQUEUED.replace("10:00:12", "12:30:00");
        let text = format!("{}{REQUEUED}loading data\n{again}", steps(30, 45));
        assert_eq!(told(&text).story.attempts.len(), 2);
        // It runs: nothing has failed.
        let text = format!("{}{REQUEUED}{start}{}", steps(30, 45), steps(41, 60));
        assert_eq!((told(&text).story.attempts.len(), told(&text).story.root), (2, None));
        // It was not started again.
        let text = format!("{}{REQUEUED}[rank1]: Traceback (most recent call last):\nSIGTERM received\n", steps(30, 45));
        assert!(told(&text).story.attempts.is_empty());
        // It went on for its grace time only.
        let text = format!("{}{REQUEUED}{}", steps(30, 45), steps(46, 55));
        let analysis = told(&text);
        assert_eq!((analysis.story.attempts.len(), analysis.story.root), (0, Some(0)));
    }

    #[test]
    fn steps_behind_a_requeue_may_tell_that_the_job_was_started_again() {
        let told = |text: &str| {
            let analysis = told(text);
            let root = analysis.story.root.map(|root| analysis.findings[root].rule.to_string());
            (analysis.story.attempts.len(), root.unwrap_or_default())
        };
        // They end in a failure of their own.
        assert_eq!(told(&format!("{}{REQUEUED}{}{OOM}", steps(30, 45), steps(46, 49))), (2, "cuda-oom".to_owned()));
        // The last step is done once more.
        let exits = "srun: error: node02: task 0: Exited with exit code 1\n";
        let fails =
            format!("Traceback (most recent call last):\n  File \"/home/user/train.py\", line 3, in f\n    x\nKeyError: 'text'\n{exits}");
        assert_eq!(told(&format!("{}{REQUEUED}{}{fails}", steps(30, 45), steps(45, 48))), (2, "python-exception".to_owned()));
        // Another rank writes the same step.
        let twice: String = (30..=45).map(|step| format!("step {step} loss 2.1\n").repeat(2)).collect();
        let (above, below) = twice.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(told(&format!("{above}\n{REQUEUED}{below}\n")), (0, "preempted".to_owned()));
    }

    #[test]
    fn an_epoch_is_no_attempt() {
        let text = format!("{}{OOM}epoch 2\n{}{OOM}", steps(30, 45), steps(1, 20));
        assert!(told(&text).story.attempts.is_empty());
        let text = format!("{}Resuming from checkpoint /home/user/ckpt-40\n{}", steps(30, 45), steps(41, 47));
        assert!(told(&text).story.attempts.is_empty());
    }
}
