//! Findings that other machines wrote as lines of JSON, put together as the files of a run.
//!
//! Reading takes nothing on trust: a line may be cut, hostile or of another version; texts are cut to a bound, unknown
//! fields and words are passed over, and past a number of files and bytes findings are only counted.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::jsonl::TEXTS;
use crate::log::marks::KEPT;
use crate::log::rules::Rules;
use crate::log::run::{self, Part, Place};
use crate::log::story::Group;
use crate::log::units::{Unit, Value};
use crate::log::verdict::{self, Verdict};
use crate::log::vocabulary::{Cause, Confidence, Kind, Role, Severity};
use crate::log::{Analysis, Finding, Number, Span};

/// Bytes of a text that are kept.
const MOST_TEXT: usize = 2048;
/// Numbers of a finding that are kept.
const MOST_NUMBERS: usize = 64;
/// Ranks are below it, as in logs.
const MOST_RANKS: u64 = 1 << 24;
/// Findings of one file that are kept; more of them are counted.
const MOST_OF_A_FILE: usize = 200;
/// Findings that are kept of all files; past it root causes only.
const MOST_FINDINGS: usize = 500_000;
/// Files that are kept; each has one root cause at most.
const MOST_FILES: usize = 100_000;
/// Bytes of text of all findings that are kept.
const MOST_BYTES: usize = 256 << 20;
/// Bytes of a number's name.
const MOST_NAME: usize = 64;

/// The files of a run, put together from lines of findings.
#[derive(Debug, Default)]
pub struct Joined {
    /// In order of their first finding.
    pub parts: Vec<Part>,
    /// Findings read.
    pub findings: usize,
    /// Findings that were only counted, because there were too many.
    pub left_out: usize,
    kept: usize,
    bytes: usize,
    part_of: HashMap<String, usize>,
    /// Members of groups by part, group, rank and collective: a repeat of one that is kept is only counted.
    seen: HashMap<(usize, usize, Option<u32>, Option<i64>), usize>,
}

impl Joined {
    /// Takes in one line: a finding, perhaps behind the label of a launcher (`3: {…}`, `node01<TAB>{…}`).
    ///
    /// # Errors
    /// In words, when the line is no finding.
    pub fn add(&mut self, line: &str, rules: &Rules) -> Result<(), String> {
        let start = line.find('{').ok_or("no JSON object")?;
        let label = line[..start].trim().trim_end_matches(':');
        let object: Map<String, Json> = serde_json::from_str(&line[start..]).map_err(|e| e.to_string())?;
        let (file, finding, went_on) = read(&object, rules)?;
        let name = if label.is_empty() || label == file { file } else { format!("{}:{file}", cut(label)) };
        self.findings += 1;
        let is_known = self.part_of.contains_key(&name);
        if self.bytes >= MOST_BYTES || (self.parts.len() >= MOST_FILES && (!is_known || finding.role == Role::RootCause)) {
            self.left_out += 1;
            return Ok(());
        }
        let mut nth = self.part_named(&name);
        // A second root cause in a file of this name: the same path on another machine.
        if finding.role == Role::RootCause && self.parts[nth].analysis.story.root.is_some() {
            self.part_of.remove(&name);
            nth = self.part_named(&name);
        }
        if let (Role::RootCause, Some(last)) = (finding.role, object.get("last_step")) {
            let whole = |name: &str| last.get(name).and_then(Json::as_u64);
            let line = whole("line").and_then(|line| usize::try_from(line).ok()?.checked_sub(1));
            self.parts[nth].analysis.story.last_step = whole("step").zip(line);
        }
        if let Some(world) = object.get("world_size").and_then(Json::as_u64).filter(|world| *world <= MOST_RANKS) {
            self.parts[nth].analysis.story.ranks.world = u32::try_from(world).ok();
        }
        self.insert(nth, finding, went_on);
        Ok(())
    }

    /// The parts and the root cause of their run, with the roles that they have in it.
    ///
    /// A machine that read several files has told their story already: what it called a repeat of a cause that turns out
    /// to be a consequence is one, too.
    pub fn join(mut parts: Vec<Part>) -> (Vec<Part>, Option<Place>) {
        let root = run::join(&mut parts);
        let Some(place) = root else { return (parts, None) };
        let lead = &parts[place.part].analysis.findings[place.finding];
        let event = (lead.rule.clone(), lead.cause);
        for Analysis { findings, story } in parts.iter_mut().map(|part| &mut part.analysis) {
            for group in &story.groups {
                let lead = &mut findings[group.lead];
                if lead.role == Role::Repeat && (&lead.rule, lead.cause) != (&event.0, event.1) {
                    lead.role = Role::Consequence;
                    lead.severity = lead.severity.max(Severity::Warning);
                }
            }
        }
        (parts, root)
    }

    fn part_named(&mut self, name: &str) -> usize {
        if let Some(&nth) = self.part_of.get(name) {
            return nth;
        }
        let rank = run::membership(name).and_then(|run| run.rank);
        self.parts.push(Part { name: name.to_owned(), rank, analysis: Analysis::default() });
        self.part_of.insert(name.to_owned(), self.parts.len() - 1);
        self.parts.len() - 1
    }

    fn insert(&mut self, nth: usize, finding: Finding, went_on: bool) {
        let Analysis { findings, story } = &mut self.parts[nth].analysis;
        let same = |group: &Group| {
            let lead: &Finding = &findings[group.lead];
            lead.kind == finding.kind && lead.cause == finding.cause && (lead.rule == finding.rule || finding.kind == Kind::Nan)
        };
        let group = match finding.role {
            Role::Repeat => story.groups.iter().rposition(same),
            _ => None,
        };
        let seq = finding.number("seq").map(|number| number.value.as_f64() as i64);
        let key = |group: usize| (nth, group, finding.rank, seq);
        if let Some(&member) = group.and_then(|group| self.seen.get(&key(group))) {
            if let Some(group) = group {
                story.groups[group].members.push(member);
            }
            return;
        }
        let full = findings.len() >= MOST_OF_A_FILE || self.kept >= MOST_FINDINGS;
        if full && finding.role != Role::RootCause {
            self.left_out += 1;
            return;
        }
        self.kept += 1;
        self.bytes += size(&finding);
        let at = findings.len();
        // Most files have one: room for a few more of these large things would be most of the memory.
        if at == 0 {
            findings.reserve_exact(1);
            story.groups.reserve_exact(1);
        }
        let group = group.unwrap_or_else(|| {
            story.groups.push(Group { lead: at, went_on, ..Group::default() });
            story.groups.len() - 1
        });
        self.seen.insert(key(group), at);
        story.groups[group].members.push(at);
        if let Some(rank) = finding.rank {
            let ranks = &mut story.groups[group].ranks;
            if let Err(place) = ranks.binary_search(&rank) {
                ranks.insert(place, rank);
            }
        }
        story.group_index.push(group);
        if finding.role == Role::RootCause {
            story.root = Some(at);
        }
        findings.push(finding);
    }
}

/// A finding from its object: the file's name, the finding, and whether the run went on after it.
///
/// Columns count characters, as the line itself is not at hand.
fn read(object: &Map<String, Json>, rules: &Rules) -> Result<(String, Finding, bool), String> {
    let text = |name: &str| object.get(name).and_then(Json::as_str);
    let must = |name: &str| text(name).ok_or_else(|| format!("no field `{name}`"));
    let whole = |name: &str| object.get(name).and_then(Json::as_u64);
    let place = |name: &str, least: usize| whole(name).and_then(|n| usize::try_from(n).ok()?.checked_sub(1)).unwrap_or(least);
    let unknown = |name: &str| format!("unknown word in `{name}`");
    let (file, rule) = (cut(must("file")?), cut(must("rule")?));
    let page = rules.page(&rule);
    let kind = Kind::parse(must("kind")?).ok_or_else(|| unknown("kind"))?;
    let severity = Severity::parse(must("severity")?).ok_or_else(|| unknown("severity"))?;
    let role = Role::parse(must("role")?).ok_or_else(|| unknown("role"))?;
    let cause = Cause::parse(must("cause")?).unwrap_or_default();
    let line = whole("line").and_then(|n| usize::try_from(n).ok()?.checked_sub(1)).ok_or("no field `line`")?;
    let start = place("column", 0);
    let numbers = numbers(object, page.map(|page| &page.front.numbers));
    let marked = |name: &str| object.get("marks")?.get(name)?.as_str();
    let own = TEXTS.iter().filter_map(|name| Some((*name, text(name)?)));
    let marks = KEPT.iter().filter_map(|name| Some((*name, marked(name)?)));
    let texts: Vec<(String, String)> = own.chain(marks).map(|(name, text)| (name.to_owned(), cut(text))).collect();
    let verdict = match page.and_then(|page| page.front.verdict.as_deref()) {
        Some("device-oom") => verdict::device_oom::judge(&numbers, &texts).filter(|oom| oom.cause == cause).map(Verdict::DeviceOom),
        _ => None,
    };
    let finding = Finding {
        title: page.map_or_else(|| Arc::from(rule.as_str()), |page| page.title.clone()),
        rule: page.map_or_else(|| Arc::from(rule.as_str()), |page| page.id.clone()),
        kind,
        cause,
        severity,
        confidence: text("confidence").and_then(Confidence::parse).unwrap_or(Confidence::Low),
        role,
        precedence: page.map_or_else(|| usual_precedence(kind), |page| page.front.precedence),
        message: cut(must("message")?),
        span: Span { line, start, end_line: place("end_line", line).max(line), end: place("end_column", start) },
        numbers,
        texts,
        rank: whole("rank").filter(|rank| *rank < MOST_RANKS).and_then(|rank| u32::try_from(rank).ok()),
        step: whole("step"),
        time: text("time").map(cut),
        host: text("host").map(cut),
        verdict,
    };
    Ok((file, finding, object.get("went_on").and_then(Json::as_bool).unwrap_or(false)))
}

/// Bytes that a finding holds beside its own.
fn size(finding: &Finding) -> usize {
    let texts: usize = finding.texts.iter().map(|(name, text)| name.len() + text.len()).sum();
    let one = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    finding.message.len() + texts + finding.numbers.len() * size_of::<Number>() + one(&finding.time) + one(&finding.host)
}

fn numbers(object: &Map<String, Json>, units: Option<&std::collections::BTreeMap<String, Unit>>) -> Vec<Number> {
    let Some(Json::Object(numbers)) = object.get("numbers") else { return Vec::new() };
    let read = |(name, value): (&String, &Json)| {
        let unit = units.and_then(|units| units.get(name)).copied().unwrap_or(Unit::Count);
        let value = match (value.as_u64(), value.as_i64(), value.as_f64()) {
            (Some(bytes), ..) if unit.is_bytes() => Value::Bytes(bytes),
            (_, Some(n), _) => Value::Int(n),
            (Some(n), None, _) => Value::Bytes(n),
            (None, None, Some(x)) => Value::Float(x),
            _ => return None,
        };
        Some(Number { name: name[..crate::text::floor_border(name, MOST_NAME)].to_owned(), value, unit, text: String::new(), span: None })
    };
    numbers.iter().take(MOST_NUMBERS).filter_map(read).collect()
}

/// Where a kind of event stands among causes, for rules whose page is not at hand.
fn usual_precedence(kind: Kind) -> u8 {
    match kind {
        Kind::Hardware => 1,
        Kind::HostOom => 2,
        Kind::Oom => 4,
        Kind::CudaError => 5,
        Kind::Crash => 6,
        Kind::Nan => 7,
        Kind::Launch => 8,
        Kind::Nccl => 10,
        Kind::Leak | Kind::Report => 11,
    }
}

fn cut(text: &str) -> String {
    text[..crate::text::floor_border(text, MOST_TEXT)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::jsonl;
    use super::*;
    use crate::log::analyze;
    use crate::text::StrLines;

    fn joined(lines: &[&str]) -> (Joined, Vec<String>) {
        let mut joined = Joined::default();
        let rules = Rules::builtin();
        let problems = lines.iter().filter_map(|line| joined.add(line, &rules).err()).collect();
        (joined, problems)
    }

    #[test]
    fn what_was_written_is_read_again() {
        let text = "{'loss': 2.0, 'step': 7}\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a \
                    total capacity of 79.15 GiB of which 1.12 GiB is free. Process 77 has 78.03 GiB memory in use. Of the allocated memory \
                    74.91 GiB is allocated by PyTorch, and 1.48 GiB is reserved by PyTorch but unallocated.\n";
        let analysis = analyze(text, &Rules::builtin());
        let mut out = Vec::new();
        jsonl::write(&mut out, "logs/rank_3.log", &analysis, &StrLines::new(text)).unwrap();
        let line = String::from_utf8(out).unwrap();
        let (found, problems) = joined(&[line.trim()]);
        assert_eq!(problems, [""; 0]);
        let (was, is) = (&analysis.findings[0], &found.parts[0].analysis.findings[0]);
        assert_eq!((&was.rule, was.cause, was.role, was.precedence, was.rank), (&is.rule, is.cause, is.role, is.precedence, is.rank));
        assert_eq!(was.numbers.iter().map(|n| n.value).collect::<Vec<_>>(), is.numbers.iter().map(|n| n.value).collect::<Vec<_>>());
        assert_eq!(was.verdict, is.verdict);
        assert_eq!((found.parts[0].rank, found.parts[0].analysis.story.root), (Some(3), Some(0)));
    }

    #[test]
    fn hostile_lines_are_told_and_passed_over() {
        let nested = format!("{}{}", "{\"a\":[".repeat(5000), "1");
        let (found, problems) = joined(&[
            "",
            "no object",
            "{",
            "{}",
            &nested,
            r#"{"file":"a","line":0,"rule":"x","kind":"oom","severity":"error","role":"root-cause","message":"m"}"#,
            r#"{"file":"a","line":1,"rule":"x","kind":"no such kind","severity":"error","role":"root-cause","message":"m"}"#,
            r#"{"file":[],"line":1,"rule":"x","kind":"oom","severity":"error","role":"root-cause","message":"m"}"#,
        ]);
        assert_eq!((found.parts.len(), problems.len()), (0, 8));
        let wild = r#"{"file":"a","line":18446744073709551615,"column":18446744073709551615,"end_line":1,"rule":"cuda-oom","kind":"oom",
            "cause":"device-full","severity":"error","role":"root-cause","message":"m","rank":4294967295,"step":18446744073709551615,
            "numbers":{"tried":18446744073709551615,"total":-1,"free":1e308,"allocated":"x","process_in_use":18446744073709551615},
            "last_step":[],"unknown":{"more":[1,2]}}"#;
        let (mut found, problems) = joined(&[wild, wild]);
        assert_eq!(problems, [""; 0]);
        assert_eq!(found.parts.len(), 2, "two root causes in files of one name");
        assert!(run::join(&mut found.parts).is_some());
        assert_eq!(found.parts[0].analysis.findings[0].rank, None);
    }

    #[test]
    fn a_cause_elsewhere_makes_repeats_consequences() {
        let line = |file: &str, rule: &str, kind: &str, cause: &str, role: &str| {
            format!(
                r#"{{"file":"{file}","line":9,"rule":"{rule}","kind":"{kind}","cause":"{cause}","severity":"error","role":"{role}","message":"m"}}"#
            )
        };
        // Two machines; each has told the story of its own files.
        let (found, _) = joined(&[
            &line("rank_0.log", "nccl-watchdog-timeout", "nccl", "timeout", "root-cause"),
            &line("rank_1.log", "nccl-watchdog-timeout", "nccl", "timeout", "repeat"),
            &line("rank_2.log", "cuda-oom", "oom", "device-full", "root-cause"),
        ]);
        let (parts, root) = Joined::join(found.parts);
        assert_eq!(root.map(|place| place.part), Some(2));
        let roles: Vec<_> = parts.iter().map(|part| (part.analysis.findings[0].role, part.analysis.findings[0].severity)).collect();
        let follows = (Role::Consequence, Severity::Warning);
        assert_eq!(roles, [follows, follows, (Role::RootCause, Severity::Error)]);
    }

    #[test]
    fn remedies_are_those_of_the_machine_that_read_the_log() {
        let text = "[rank17]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n";
        let rules = Rules::builtin();
        let analysis = analyze(text, &rules);
        let mut out = Vec::new();
        jsonl::write(&mut out, "rank_17.log", &analysis, &StrLines::new(text)).unwrap();
        let (found, _) = joined(&[String::from_utf8(out).unwrap().trim()]);
        let remedies = |finding: &Finding| crate::explain::remedies(finding, &rules, 3);
        let read = remedies(&found.parts[0].analysis.findings[0]);
        assert_eq!(read, remedies(&analysis.findings[0]));
        assert!(read[0].contains("--exclude=NODE"), "{read:?}");
    }

    #[test]
    fn repeats_are_counted_and_not_kept() {
        let line = |role: &str, line: usize| {
            format!(
                r#"{{"file":"a.log","line":{line},"rule":"loss-nan","kind":"nan","cause":"nan-onset","severity":"error","role":"{role}","message":"m"}}"#
            )
        };
        let lines: Vec<String> = std::iter::once(line("root-cause", 1)).chain((2..2000).map(|n| line("repeat", n))).collect();
        let (found, _) = joined(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let story = &found.parts[0].analysis.story;
        assert_eq!((story.groups.len(), story.groups[0].members.len()), (1, 1999));
        assert_eq!(found.parts[0].analysis.findings.len(), 1);
    }

    #[test]
    fn too_many_files_are_counted_and_their_memory_is_small() {
        let line = |n: usize, more: &str| {
            format!(
                r#"{{"file":"r{n}.log","line":1,"rule":"cuda-oom","kind":"oom","cause":"device-full","severity":"error","role":"root-cause","message":"m{more}"}}"#
            )
        };
        let rules = Rules::builtin();
        let mut many = Joined::default();
        (0..MOST_FILES + 5).for_each(|n| many.add(&line(n % (MOST_FILES + 2), ""), &rules).unwrap());
        assert_eq!((many.findings, many.parts.len(), many.left_out), (MOST_FILES + 5, MOST_FILES, 5));
        let room = |part: &Part| part.analysis.findings.capacity() + part.analysis.story.groups.capacity();
        assert!(many.parts.iter().all(|part| room(part) == 2));
        let mut long = Joined { bytes: MOST_BYTES - 3000, ..Joined::default() };
        (0..9).for_each(|n| long.add(&line(n, &"x".repeat(1999)), &rules).unwrap());
        assert_eq!((long.parts.len(), long.left_out), (2, 7));
    }
}
