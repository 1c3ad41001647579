//! `adapter_config.json`: what is trained, and how large it is.

use super::{Base, Kin, Said, hint};
use crate::explain::config::marks::Mark;
use crate::explain::config::{LANGUAGE, count, plain, size};
use crate::explain::texts::{fill, text};
use crate::log::units::grouped;
use crate::log::vocabulary::Severity;
use crate::model::adapter::{self, Adapter, Targets};
use crate::model::config::Section;

/// Names of modules that are written out.
const MOST_NAMES: usize = 7;

pub(super) fn say(kin: &Kin, base: Option<&Base>) -> Said {
    let adapter = match adapter::read(Section::new(&kin.root)) {
        Ok(adapter) => adapter,
        // Other kinds of adapters exist and are none of a mistake.
        Err(error) if error.key == "peft_type" => return Said::default(),
        Err(error) => {
            let message = fill(LANGUAGE, "kin.value", &[("what", plain(&error.message))]);
            let mark = Mark { span: error.span, code: "config-value", severity: Severity::Warning, message };
            return Said { marks: vec![mark], ..Said::default() };
        }
    };
    let kind = if adapter.dora { "DoRA" } else { "LoRA" };
    let values = [("kind", kind.to_owned()), ("rank", grouped(adapter.rank)), ("targets", targets(&adapter))];
    let mut said = Said { lens: vec![fill(LANGUAGE, "kin.adapter", &values)], ..Said::default() };
    let Some(base) = base else {
        let name = adapter.base.as_deref().map(plain).unwrap_or_default();
        let key = if name.is_empty() { "kin.adapter.no-base-named" } else { "kin.adapter.no-base" };
        said.lens.push(fill(LANGUAGE, key, &[("name", name)]));
        return said;
    };
    let trained = u64::try_from(adapter.trainable(&base.model.inventory)).unwrap_or(u64::MAX);
    if trained == 0 {
        said.lens.push(fill(LANGUAGE, "kin.adapter.no-target", &[("place", plain(&base.place))]));
        return said;
    }
    let share = format!("{:.2} %", trained as f64 * 100.0 / base.model.total() as f64);
    said.lens.push(fill(
        LANGUAGE,
        "kin.adapter.trained",
        &[("count", count(trained)), ("share", share), ("total", count(base.model.total()))],
    ));
    let bytes = |element: u64| size(trained.saturating_mul(element));
    said.lens.push(fill(LANGUAGE, "kin.adapter.bytes", &[("full", bytes(4)), ("half", bytes(2))]));
    said.lens.push(fill(LANGUAGE, "kin.base", &[("place", plain(&base.place))]));
    if let Some(rank) = kin.member("r") {
        said.hints.push(hint(rank, fill(LANGUAGE, "kin.adapter.hint", &[("count", count(trained))])));
    }
    said
}

fn targets(adapter: &Adapter) -> String {
    match &adapter.targets {
        Targets::AllLinear => text(LANGUAGE, "kin.adapter.all-linear").to_owned(),
        Targets::Matching(pattern) => plain(pattern.as_str()),
        Targets::Named(names) => {
            let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| plain(name)).collect();
            if names.len() > MOST_NAMES { format!("{} …", shown.join(", ")) } else { shown.join(", ") }
        }
    }
}
