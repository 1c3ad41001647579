//! Keys and values that may be written at a place of a file around a model.

use super::{Base, keys};
use crate::explain::config::completion::{Offer, Spot, spot};
use crate::model::adapter::Adapter;
use crate::model::documents::Document;
use crate::model::inventory::Role;

/// What may be written at a byte of such a file, with the modules of the model where one was found.
pub fn at(document: Document, base: Option<&Base>, text: &str, at: usize) -> Vec<Offer> {
    // What programs write nobody completes.
    if matches!(document, Document::TrainerState | Document::WeightsIndex) {
        return Vec::new();
    }
    let Some(spot) = spot(text, at) else {
        return Vec::new();
    };
    match &spot.place.key {
        Some(key) => values(document, base, key, &spot),
        None => names(document, &spot),
    }
}

fn names(document: Document, spot: &Spot) -> Vec<Offer> {
    let inside = spot.place.object.as_deref().unwrap_or("");
    let known = keys::of(document).iter().filter(|key| key.inside == inside);
    let fresh = known.filter(|key| !spot.place.written.iter().any(|one| one == key.name) && key.name.starts_with(&spot.typed));
    fresh
        .map(|key| spot.offer(key.name, format!("\"{}\"{}", key.name, spot.colon), keys::meaning(document, key).to_owned(), true))
        .collect()
}

fn values(document: Document, base: Option<&Base>, key: &str, spot: &Spot) -> Vec<Offer> {
    let inside = spot.place.object.as_deref().unwrap_or("");
    let Some(known) = keys::find(document, inside, key) else {
        return Vec::new();
    };
    let mut names: Vec<(String, String)> = Vec::new();
    if !spot.place.in_list {
        let listed = known.values.split('|').filter(|value| !value.is_empty());
        names.extend(listed.map(|value| (value.to_owned(), keys::value_meaning(value).unwrap_or_default().to_owned())));
    } else if let Some(base) = base.filter(|_| document == Document::AdapterConfig) {
        names = modules(base, known.name);
    }
    let fresh = |(name, _): &(String, String)| {
        !spot.place.written.iter().any(|one| one == name) && name.to_ascii_lowercase().starts_with(&spot.typed)
    };
    let offer = |(name, detail): (String, String)| {
        let bare = matches!(name.as_str(), "true" | "false") || name.parse::<f64>().is_ok();
        spot.offer(&name, if bare { name.clone() } else { format!("\"{name}\"") }, detail, false)
    };
    names.into_iter().filter(fresh).map(offer).collect()
}

/// Modules of the model that may stand in a list of this name, with how often they occur.
fn modules(base: &Base, list: &str) -> Vec<(String, String)> {
    let all_linear = Adapter::new(1, &["all-linear"]);
    let mut out: Vec<(String, u64)> = Vec::new();
    for group in &base.model.inventory.groups {
        for tensor in &group.tensors {
            let fits = match list {
                "target_modules" | "exclude_modules" => all_linear.covers(group, tensor),
                "modules_to_save" => tensor.parameter == "weight" && matches!(tensor.role, Role::Embedding | Role::Head | Role::TaskHead),
                _ => false,
            };
            let many = group.count().saturating_mul(tensor.copies);
            match out.iter_mut().find(|(name, _)| name == tensor.module()) {
                _ if !fits => {}
                Some((_, sum)) => *sum = sum.saturating_add(many),
                None => out.push((tensor.module().to_owned(), many)),
            }
        }
    }
    out.into_iter().map(|(name, many)| (name, format!("{many} × in the model"))).collect()
}
