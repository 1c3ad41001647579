//! Files that lie beside an open one: read when they are there, kept while they stay as they are.
//!
//! Only names that this program knows are looked for, in the folder of the open file and around it. A path in a
//! document is never opened. Files that are no regular files, or too large, count as not there.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use super::convert::DocumentUri;
use crate::model::beside::{WeightsIndex, weights_index};
use crate::model::config::Section;
use crate::model::json;

/// The largest file that is read, in bytes: an index of some hundred thousand tensors.
const MOST_BYTES: u64 = 24 << 20;
/// Files that are kept; when there are more, all are forgotten.
const MOST_KEPT: usize = 64;
/// The only name beside which an index is taken to belong to the config.
const CONFIG: &str = "config.json";
const INDEX: &str = "model.safetensors.index.json";

type Stamp = (Option<SystemTime>, u64);
type Kept<T> = LazyLock<Mutex<HashMap<PathBuf, (Stamp, Option<Arc<T>>)>>>;

/// The index of the weights of an open `config.json`.
pub fn index(uri: &DocumentUri) -> Option<Arc<WeightsIndex>> {
    static KEPT: Kept<WeightsIndex> = LazyLock::new(Mutex::default);
    if uri.name() != CONFIG {
        return None;
    }
    let file = uri.file()?.with_file_name(INDEX);
    kept(&KEPT, &file, |text| weights_index(Section::new(&json::parse(text).ok()?)).ok())
}

/// What a file says, read again only when it has changed.
fn kept<T>(kept: &Kept<T>, file: &Path, read: impl Fn(&str) -> Option<T>) -> Option<Arc<T>> {
    let data = std::fs::metadata(file).ok()?;
    // A pipe would wait for ever and a device never end.
    if !data.is_file() || data.len() > MOST_BYTES {
        return None;
    }
    let stamp = (data.modified().ok(), data.len());
    let known = kept.lock().unwrap_or_else(PoisonError::into_inner).get(file).filter(|(then, _)| *then == stamp).cloned();
    if let Some((_, value)) = known {
        return value;
    }
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let value = read(&text).map(Arc::new);
    let mut all = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= MOST_KEPT {
        all.clear();
    }
    all.insert(file.to_owned(), (stamp, value.clone()));
    value
}
