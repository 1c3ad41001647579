//! Where the config of a model lies that another file belongs to: beside it, above it, or in the local cache of models.
//!
//! Only these places are looked at. A path that a file names is never opened, and a name leads nowhere but into the cache.

use std::io::Read;
use std::path::{Path, PathBuf};

/// The name of a model's config.
pub const CONFIG: &str = "config.json";

/// The places of the config that a file belongs to, with the names to show, the nearest first: beside it, in the folder
/// above where that is usual, and that of a model of this name in the cache.
pub fn places(file: &Path, name: Option<&str>, above: bool) -> Vec<(String, PathBuf)> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut places = vec![(CONFIG.to_owned(), folder.join(CONFIG))];
    if above {
        // The parent of a relative folder has no name of its own.
        places.push((format!("../{CONFIG}"), folder.parent().map_or_else(|| folder.join("..").join(CONFIG), |parent| parent.join(CONFIG))));
    }
    let in_cache = name.and_then(|name| Some((format!("{name} in the local cache"), cached(&cache()?, name)?)));
    places.extend(in_cache);
    places
}

/// The text of a regular file that is not larger than a bound; a pipe would wait for ever and a device never end.
pub fn read(file: &Path, most: u64) -> Option<String> {
    let data = std::fs::metadata(file).ok()?;
    if !data.is_file() || data.len() > most {
        return None;
    }
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(most).read_to_string(&mut text).ok()?;
    Some(text)
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
