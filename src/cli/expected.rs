//! What a memory plan expects of the run in a log, for the report and for JSON.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::explain::expected::{self, Around, Candidate, Copies, Expected, Fits, Origin, Other, Part, is_model};
use crate::explain::texts::Language;
use crate::files;
use crate::log::Analysis;
use crate::log::settings::At;
use crate::model::training::Task;
use crate::text::Lines;
use crate::text::redact::Redactor;

/// Where configs of models are looked for.
#[derive(Debug, Default)]
pub struct Configs {
    named: Option<Candidate>,
    workspaces: Vec<PathBuf>,
    redactor: Option<Redactor>,
}

impl Configs {
    /// The config that the user named, else those beside each log and in the workspace.
    ///
    /// # Errors
    /// When the named file cannot be read or is no model's config.
    pub fn new(named: Option<&Path>, workspace: &Path) -> Result<Configs, String> {
        let workspaces = workspace.canonicalize().into_iter().collect();
        let Some(path) = named else { return Ok(Configs { workspaces, ..Configs::default() }) };
        let text = files::input::config(path).map_err(|why| format!("{}: {why}", path.display()))?;
        if !is_model(&text) {
            return Err(format!("{}: is no config of a model that can be counted; `trainwreck fit` says why", path.display()));
        }
        Ok(Configs { named: Some(Candidate { origin: Origin::Named, text }), workspaces, redactor: None })
    }

    /// Masks what is read of a config, from now on and in the one that was named.
    pub fn mask(&mut self, redactor: &mut Redactor) {
        if let Some(named) = &mut self.named {
            redactor.learn(&named.text);
            named.text = redactor.apply(&named.text);
        }
        self.redactor = Some(redactor.clone());
    }

    /// What is expected of a finding of a log; none where it is no device out-of-memory error or no model is known.
    ///
    /// `others` reads what the other files of the run print of themselves.
    pub fn expected(
        &self,
        log: Option<&Path>,
        analysis: &Analysis,
        finding: usize,
        lines: &dyn Lines,
        others: &dyn Fn() -> Vec<Other>,
    ) -> Option<Expected> {
        let finding = analysis.findings.get(finding)?;
        let around = Around { named: self.named.as_ref(), beside: &|| self.beside(log), others };
        expected::of_finding(analysis, finding, lines, around)
    }

    fn beside(&self, log: Option<&Path>) -> Vec<Candidate> {
        let Some(log) = log.and_then(|log| log.canonicalize().ok()) else { return Vec::new() };
        let found = files::configs_beside(&log, &self.workspaces).into_iter();
        let masked = |text: String| self.redactor.as_ref().map_or(text.clone(), |redactor| redactor.apply(&text));
        found.map(|(name, text)| Candidate { origin: Origin::Beside(masked(name)), text: masked(text) }).collect()
    }
}

/// A message with what a memory plan expects below it.
pub fn told_with(message: &str, expected: &Expected) -> String {
    let lines = expected::lines(expected, Language::English);
    std::iter::once(message.to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
}

/// The object `plan` of a story.
pub fn json(expected: &Expected) -> Json {
    let part = |part: &Part| json!({"name": part.name, "low": part.low, "high": part.high});
    let (origin, at) = match &expected.origin {
        Origin::Printed(at) => ("printed", Some(*at)),
        Origin::Arguments(at) => ("arguments", Some(*at)),
        Origin::Beside(_) => ("beside", None),
        Origin::Named => ("named", None),
    };
    // The name of the file stands there only when it is another one.
    let file = |at: At| at.file.and_then(|file| expected.files.get(usize::from(file)));
    let facts = expected.run.read.iter().map(|fact| {
        let mut out = json!({"name": fact.name, "value": fact.value.replace(',', ""), "line": fact.line.line + 1});
        if let Some(file) = file(fact.line) {
            out["file"] = file.as_str().into();
        }
        out
    });
    let setup = expected.run.setups.first();
    let whole = expected.whole.as_ref();
    json!({
        "model": {
            "architecture": expected.architecture,
            "parameters": expected.parameters,
            "exact": expected.exact,
            "origin": origin,
            "line": at.map(|at| at.line + 1),
            "file": at.and_then(file),
        },
        "task": expected.run.task.map(|task| match task {
            Task::Inference => "inference",
            Task::Full => "full",
            Task::Lora => "lora",
            Task::Qlora => "qlora",
        }),
        "batch": setup.filter(|_| expected.run.has_batch).map(|setup| setup.batch),
        "seq": setup.filter(|_| expected.run.has_length).map(|setup| setup.seq),
        "read": facts.collect::<Vec<_>>(),
        "assumed": expected.run.assumed,
        "missing": expected.run.missing,
        "complete": whole.is_some(),
        "terms": whole.map_or(&expected.states, |whole| &whole.parts).iter().map(part).collect::<Vec<_>>(),
        "largest_term": whole.and_then(|whole| whole.largest),
        "allocated_low": whole.map(|whole| whole.allocated.low),
        "allocated_high": whole.map(|whole| whole.allocated.high),
        "total_bytes": whole.and_then(|whole| whole.middle),
        "total_low": whole.map(|whole| whole.total.low),
        "total_high": whole.map(|whole| whole.total.high),
        "card_bytes": expected.card,
        "fits": whole.and_then(|whole| whole.fits).map(|fits| match fits {
            Fits::Yes => "yes",
            Fits::No => "no",
            Fits::Open => "open",
        }),
        "max_batch": whole.and_then(|whole| whole.max_batch),
        "twice_the_weights": expected.copies.map(|copies| match copies {
            Copies::Two => "two-copies",
            Copies::TwoOrWide => "two-copies-or-32-bits",
        }),
    })
}
