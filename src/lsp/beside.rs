//! Files that lie beside an open one: read when they are there, kept while they stay as they are.
//!
//! Only names that this program knows are looked for, in the folder of the open file, in the one above, and in the local
//! cache of models. A path in a document is never opened. Files that are no regular files, or too large, count as not there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use super::convert::DocumentUri;
use crate::explain::config::kin::Base;
use crate::files::models::{self, CONFIG};
use crate::model::beside::{WeightsIndex, weights_index};
use crate::model::config::Section;
use crate::model::json;

/// The largest file that is read, in bytes: an index of some hundred thousand tensors.
const MOST_BYTES: u64 = 24 << 20;
/// Files that are kept; when there are more, all are forgotten.
const MOST_KEPT: usize = 64;
const INDEX: &str = "model.safetensors.index.json";

type Stamp = (Option<SystemTime>, u64);
type Kept<T> = LazyLock<Mutex<HashMap<(PathBuf, String), (Stamp, Option<Arc<T>>)>>>;

/// The index of the weights of an open `config.json`.
pub fn index(uri: &DocumentUri) -> Option<Arc<WeightsIndex>> {
    static KEPT: Kept<WeightsIndex> = LazyLock::new(Mutex::default);
    if uri.name() != CONFIG {
        return None;
    }
    let file = uri.file()?.with_file_name(INDEX);
    kept(&KEPT, (&file, INDEX), |text| weights_index(Section::new(&json::parse(text).ok()?)).ok())
}

/// The config of the model that an open file belongs to: beside it, in the folder above where that is usual, or of a
/// model of this name in the local Hugging Face cache.
pub fn base(uri: &DocumentUri, name: Option<&str>, above: bool) -> Option<Arc<Base>> {
    static KEPT: Kept<Base> = LazyLock::new(Mutex::default);
    let places = models::places(&uri.file()?, name, above);
    places.into_iter().find_map(|(place, path)| kept(&KEPT, (&path, &place), |text| Base::read(place.clone(), text)))
}

/// What a file says, under the name it is shown by; read again only when it has changed.
fn kept<T>(kept: &Kept<T>, (file, place): (&Path, &str), read: impl Fn(&str) -> Option<T>) -> Option<Arc<T>> {
    let data = std::fs::metadata(file).ok()?;
    let stamp = (data.modified().ok(), data.len());
    let key = (file.to_owned(), place.to_owned());
    let known = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key).filter(|(then, _)| *then == stamp).cloned();
    if let Some((_, value)) = known {
        return value;
    }
    let value = read(&models::read(file, MOST_BYTES)?).map(Arc::new);
    let mut all = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= MOST_KEPT {
        all.clear();
    }
    all.insert(key, (stamp, value.clone()));
    value
}
