//! DeepSpeed's configuration: who holds which states, and what that is on one GPU.
//!
//! Only the states of the model are counted: weights, gradients, the 32-bit copy and Adam's two moments. They follow
//! from stage and precision alone. Activations and buffers come on top, and the line says so.

use super::{Base, Kin, Said};
use crate::explain::config::budget::Choice;
use crate::explain::config::marks::Mark;
use crate::explain::config::{LANGUAGE, plain, size};
use crate::explain::texts::{fill, text};
use crate::log::units::grouped;
use crate::log::vocabulary::Severity;
use crate::model::beside::{DeepSpeed, deepspeed};
use crate::model::config::Section;

/// GPUs for which states are named when the file does not tell how many there are.
const USUAL: [u64; 3] = [1, 4, 8];
/// The most GPUs that are looked at for a number that fits.
const MOST_GPUS: u64 = 4096;

pub(super) fn say(kin: &Kin, base: Option<&Base>, choice: &Choice) -> Said {
    let root = Section::new(&kin.root);
    let settings = match deepspeed(root) {
        Ok(settings) => settings,
        Err(error) => {
            let message = fill(LANGUAGE, "kin.value", &[("what", plain(&error.message))]);
            let mark = Mark { span: error.span, code: "config-value", severity: Severity::Warning, message };
            return Said { marks: vec![mark], ..Said::default() };
        }
    };
    let gpus = gpus(root, &settings);
    let mut said = Said { lens: vec![summary(&settings, gpus)], ..Said::default() };
    let Some(base) = base.filter(|base| base.model.quantization.is_none()) else {
        return said;
    };
    let parameters = base.model.total();
    let some = gpus.map_or_else(|| USUAL.to_vec(), |gpus| vec![gpus]);
    let shares: Vec<String> = some
        .iter()
        .map(|&gpus| {
            fill(LANGUAGE, "kin.deepspeed.share", &[("bytes", size(states(&settings, parameters, gpus))), ("gpus", grouped(gpus))])
        })
        .collect();
    said.tasks.push(fill(LANGUAGE, "kin.deepspeed.states", &[("shares", shares.join(", "))]));
    if let Some(card) = choice.card() {
        let fits = (1..=MOST_GPUS).find(|&gpus| states(&settings, parameters, gpus) <= card.memory);
        let key = if fits.is_some() { "kin.deepspeed.fits" } else { "kin.deepspeed.lacks" };
        let values = [("gpus", grouped(fits.unwrap_or(MOST_GPUS))), ("gpu", plain(&card.id)), ("memory", size(card.memory))];
        said.tasks.push(fill(LANGUAGE, key, &values));
    }
    said.lens.push(fill(LANGUAGE, "kin.base", &[("place", plain(&base.place))]));
    said
}

/// GPUs of the run, where the batch sizes tell.
fn gpus(root: Section<'_>, settings: &DeepSpeed) -> Option<u64> {
    let whole = root.int_opt("train_batch_size").ok().flatten()?;
    let one = settings.micro_batch?.checked_mul(settings.accumulation.unwrap_or(1)).filter(|&one| one > 0)?;
    whole.is_multiple_of(one).then_some(whole / one).filter(|&gpus| gpus > 0)
}

fn summary(settings: &DeepSpeed, gpus: Option<u64>) -> String {
    let mut parts =
        vec![fill(LANGUAGE, "kin.deepspeed", &[("stage", settings.stage.to_string()), ("precision", settings.precision.to_owned())])];
    if settings.offload_optimizer {
        parts.push(text(LANGUAGE, "kin.deepspeed.offload-optimizer").to_owned());
    }
    if settings.offload_parameters {
        parts.push(text(LANGUAGE, "kin.deepspeed.offload-parameters").to_owned());
    }
    let mut number = |key: &str, value: Option<u64>| parts.extend(value.map(|value| fill(LANGUAGE, key, &[("count", grouped(value))])));
    number("kin.deepspeed.micro", settings.micro_batch);
    number("kin.deepspeed.accumulation", settings.accumulation);
    number("kin.deepspeed.gpus", gpus);
    parts.join(", ")
}

/// Bytes of the states on one of so many GPUs.
///
/// In 16 bits a parameter has 2 bytes of weight, 2 of gradient and 12 of 32-bit copy and moments; in 32 bits 4, 4 and 8.
/// Stage 1 shares the last out, stage 2 the gradients too, stage 3 the weights too. What is offloaded is not on the GPU;
/// gradients follow the optimiser to the host from stage 2 on.
fn states(settings: &DeepSpeed, parameters: u64, gpus: u64) -> u64 {
    let (weight, gradient, optimizer) = if settings.precision == "fp32" { (4, 4, 8) } else { (2, 2, 12) };
    let share = |bytes: u64, from: u64| {
        let whole = u128::from(parameters) * u128::from(bytes);
        if settings.stage >= from { whole.div_ceil(u128::from(gpus.max(1))) } else { whole }
    };
    let weights = if settings.offload_parameters && settings.stage == 3 { 0 } else { share(weight, 3) };
    let gradients = if settings.offload_optimizer && settings.stage >= 2 { 0 } else { share(gradient, 2) };
    let states = if settings.offload_optimizer && settings.stage >= 1 { 0 } else { share(optimizer, 1) };
    u64::try_from(weights + gradients + states).unwrap_or(u64::MAX)
}
