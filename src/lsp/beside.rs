//! Files that lie beside an open one: read when they are there, kept while they stay as they are.
//!
//! Only names that this program knows are looked for, in the folder of the open file, in the one above, and in the local
//! cache of models. A path in a document is never opened. Files that are no regular files, or too large, count as not there.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use super::convert::DocumentUri;
use crate::explain::config::kin::Base;
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
    let file = uri.file()?;
    let folder = file.parent()?;
    let mut places = vec![(CONFIG.to_owned(), folder.join(CONFIG))];
    places.extend(folder.parent().filter(|_| above).map(|parent| (format!("../{CONFIG}"), parent.join(CONFIG))));
    places.extend(
        name.and_then(|name| cached(&cache()?, name)).map(|path| (format!("{} in the local cache", name.unwrap_or_default()), path)),
    );
    places.into_iter().find_map(|(place, path)| kept(&KEPT, (&path, &place), |text| Base::read(place.clone(), text)))
}

/// The config of a model in the cache of Hugging Face. Only a plain `organisation/model` names one: nothing in it can lead
/// out of the cache.
fn cached(cache: &Path, name: &str) -> Option<PathBuf> {
    let (organisation, model) = name.split_once('/')?;
    let safe = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    if !safe(organisation) || !safe(model) {
        return None;
    }
    let folder = cache.join(format!("models--{organisation}--{model}"));
    let main = folder.join("refs/main");
    let revision = std::fs::metadata(&main)
        .ok()
        .filter(|data| data.is_file() && data.len() <= 64)
        .and_then(|_| std::fs::read_to_string(&main).ok())?;
    let revision = revision.trim();
    revision.chars().all(|c| c.is_ascii_hexdigit()).then(|| folder.join("snapshots").join(revision).join(CONFIG))
}

/// Where the hub keeps what it has loaded.
fn cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HF_HUB_CACHE")
        .or_else(|| set("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/huggingface/hub")))
}

/// What a file says, under the name it is shown by; read again only when it has changed.
fn kept<T>(kept: &Kept<T>, (file, place): (&Path, &str), read: impl Fn(&str) -> Option<T>) -> Option<Arc<T>> {
    let data = std::fs::metadata(file).ok()?;
    // A pipe would wait for ever and a device never end.
    if !data.is_file() || data.len() > MOST_BYTES {
        return None;
    }
    let stamp = (data.modified().ok(), data.len());
    let key = (file.to_owned(), place.to_owned());
    let known = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key).filter(|(then, _)| *then == stamp).cloned();
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
    all.insert(key, (stamp, value.clone()));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_leads_into_the_cache_and_none_out_of_it() {
        let cache = std::env::temp_dir().join(format!("trainwreck-cache-{}", std::process::id()));
        let folder = cache.join("models--org--base-7B.v1");
        std::fs::create_dir_all(folder.join("refs")).unwrap();
        std::fs::write(folder.join("refs/main"), "0123abcd\n").unwrap();
        assert_eq!(cached(&cache, "org/base-7B.v1"), Some(folder.join("snapshots/0123abcd/config.json")));
        std::fs::write(folder.join("refs/main"), "../../../secret").unwrap();
        for name in ["org/base-7B.v1", "org/other", "../x/y", "org/..", "/etc/passwd", "a", "org/a/b", "org/a\\b", ""] {
            assert_eq!(cached(&cache, name), None, "{name}");
        }
        std::fs::remove_dir_all(&cache).unwrap();
    }
}
