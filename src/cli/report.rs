//! Writes what `check` found, run by run, in the chosen format.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use super::check::{CheckArgs, Format, Loaded};
use super::expected::{self, Configs};
use super::{github, json, json_text, jsonl, markdown, sarif, text};
use crate::explain::expected::Other;
use crate::explain::post_mortem;
use crate::log::rules::Rules;
use crate::log::run::{self, Part, Place};
use crate::log::settings::{self, RunSettings};
use crate::text::{Lines, StrLines};

/// Other files of a run whose settings are read.
const MOST_OTHERS: usize = 8;

/// What is kept until the last run was written.
pub(super) struct Report<'a> {
    args: &'a CheckArgs,
    rules: &'a Arc<Rules>,
    configs: &'a Configs,
    /// Reports (`json`) or results (`sarif`).
    objects: Vec<serde_json::Value>,
    summary: text::Summary,
    annotations: github::Annotations,
    found: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(args: &'a CheckArgs, rules: &'a Arc<Rules>, configs: &'a Configs) -> Self {
        let (summary, annotations) = Default::default();
        Report { args, rules, configs, objects: Vec::new(), summary, annotations, found: false }
    }

    /// Writes one run: the files of several ranks, or a single file.
    pub(super) fn write(&mut self, out: &mut dyn Write, loaded: Vec<Loaded>) -> std::io::Result<()> {
        let paths: Vec<Option<PathBuf>> = loaded.iter().map(|file| file.path.clone()).collect();
        let quiet: Vec<Option<RunSettings>> = loaded.iter().map(|file| file.settings.clone()).collect();
        let (mut parts, contents): (Vec<Part>, Vec<String>) = loaded.into_iter().map(|file| (file.part, file.content)).unzip();
        let lines: Vec<StrLines<'_>> = contents.iter().map(|content| StrLines::new(content)).collect();
        let root = match parts.as_slice() {
            [] => return Ok(()),
            [only] => only.analysis.story.root.map(|finding| Place { part: 0, finding }),
            _ => run::join(&mut parts),
        };
        let level = self.args.output.level;
        self.found |= parts.iter().flat_map(|part| &part.analysis.findings).any(|f| level.reached_by(f.severity));
        let name = parts[0].name.clone();
        // Places need the file's name only where there are several files.
        let several = parts.len() > 1;
        let views: Vec<post_mortem::Part<'_>> = parts
            .iter()
            .zip(&lines)
            .map(|(part, lines)| post_mortem::Part {
                name: several.then_some(part.name.as_str()),
                rank: part.rank,
                analysis: &part.analysis,
                lines: Some(lines as &dyn Lines),
            })
            .collect();
        let place = root.map(|root| (root.part, root.finding));
        let expected = place.filter(|_| self.args.output.format != Format::Jsonl).and_then(|(part, finding)| {
            let others = || others(part, &parts, &lines, &quiet);
            self.configs.expected(paths[part].as_deref(), &parts[part].analysis, finding, &lines[part], &others)
        });
        let expected_in = |nth: usize| expected.as_ref().filter(|_| place.is_some_and(|(part, _)| part == nth));
        match self.args.output.format {
            Format::Text if several => {
                let root = text::Root { place, expected: expected.as_ref() };
                text::write_run(out, &views, &run_name(&name, true), &root, self.rules, self.args.all, &mut self.summary)
            }
            Format::Text => {
                let page = text::Page {
                    name: &parts[0].name,
                    analysis: &parts[0].analysis,
                    lines: &lines[0],
                    rules: self.rules,
                    expected: expected.as_ref(),
                };
                text::write(out, &page, self.args.all, &mut self.summary)
            }
            Format::Json => {
                for (nth, (part, lines)) in parts.iter().zip(&lines).enumerate() {
                    let mut report = json::report(&part.name, &part.analysis, lines);
                    if let Some(expected) = expected_in(nth) {
                        report["story"]["plan"] = expected::json(expected);
                    }
                    if several {
                        report["run"] = json::run(&parts, root);
                    }
                    self.objects.push(report);
                }
                Ok(())
            }
            Format::Jsonl => parts.iter().zip(&lines).try_for_each(|(part, lines)| jsonl::write(out, &part.name, &part.analysis, lines)),
            Format::Markdown => markdown::write(out, &run_name(&name, several), &views, place, expected.as_ref(), self.rules),
            Format::Sarif => {
                let of_part = |i: usize| sarif::results(&parts[i].name, &parts[i].analysis, &lines[i], expected_in(i));
                self.objects.extend(root_first(parts.len(), root).into_iter().flat_map(of_part));
                Ok(())
            }
            Format::Github => root_first(parts.len(), root)
                .into_iter()
                .try_for_each(|i| self.annotations.write(out, &parts[i].name, &parts[i].analysis, &lines[i], expected_in(i))),
        }
    }

    /// Writes what closes the report; says whether anything reached the level.
    pub(super) fn finish(self, out: &mut dyn Write) -> std::io::Result<bool> {
        let document = match self.args.output.format {
            Format::Json => Some(self.objects.into()),
            Format::Sarif => Some(sarif::document(self.objects, self.rules)),
            Format::Text => {
                self.summary.write(out)?;
                None
            }
            Format::Github => {
                self.annotations.finish(out)?;
                None
            }
            Format::Jsonl | Format::Markdown => None,
        };
        if let Some(document) = document {
            json_text::write_pretty(out, &document)?;
        }
        Ok(self.found)
    }
}

/// The parts of a run, the one with the root cause first: viewers keep the order, and GitHub shows ten annotations.
fn root_first(parts: usize, root: Option<Place>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parts).collect();
    order.sort_by_key(|&part| root.is_none_or(|root| root.part != part));
    order
}

/// What the other files of a run print of themselves: rank 0 first, then the next ones. `quiet` are the settings of files
/// whose text is not kept.
fn others(but: usize, parts: &[Part], lines: &[StrLines<'_>], quiet: &[Option<RunSettings>]) -> Vec<Other> {
    let mut order: Vec<usize> = (0..parts.len()).filter(|&nth| nth != but).collect();
    order.sort_by_key(|&nth| parts[nth].rank != Some(0));
    let read = |nth: usize| {
        let settings = quiet[nth].clone().unwrap_or_else(|| settings::read(&lines[nth], usize::MAX));
        Other { name: parts[nth].name.clone(), settings }
    };
    order.into_iter().take(MOST_OTHERS).map(read).filter(|other| !other.settings.is_empty()).collect()
}

/// What a run is called: the pattern that its files share.
pub(super) fn run_name(first: &str, several: bool) -> String {
    let key = run::membership(first).filter(|_| several).map(|run| run.key.replace("**", "*"));
    key.unwrap_or_else(|| first.to_owned())
}
