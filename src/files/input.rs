//! What a user names to be read: logs and configs, with a bound on each.
//!
//! A log is a regular file or a pipe. A device never ends, and a binary file is known by its beginning: neither is read.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::{Binary, decode, is_binary};

/// The largest log, in bytes.
pub const MOST_LOG: u64 = 4 << 30;
/// The most that is read from a pipe, which does not say how long it is, in bytes.
pub const MOST_PIPE: u64 = 1 << 30;
/// The largest config, in bytes.
const MOST_CONFIG: u64 = 64 << 20;
/// The beginning of a log by which a binary file is known, in bytes.
const HEAD: u64 = 64 << 10;

/// What is said while a pipe has no other end.
pub const WAITING: &str = "nobody writes into this pipe yet; waiting for its other end";
/// How long a pipe may stay without another end before that is said.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why there is no text.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is no text.
    Binary,
    /// What stands in the way, in words.
    Because(String),
}

/// The text of a log. `waiting` is called when nobody has opened the other end of a pipe yet: that may take for ever.
///
/// # Errors
/// When it cannot be read, is longer than the bound, or is no log by its kind.
pub fn log(path: &Path, waiting: &dyn Fn()) -> Result<String, Unread> {
    let data = std::fs::metadata(path).map_err(unreadable)?;
    let most = if data.is_file() { MOST_LOG } else { MOST_PIPE };
    if data.is_dir() {
        return Err(Unread::Because("is a folder".to_owned()));
    }
    if !data.is_file() && !is_pipe(&data) {
        return Err(Unread::Because("is a device, and devices do not end; give a file, or a pipe".to_owned()));
    }
    if data.len() > most {
        return Err(too_long(most));
    }
    let file = if data.is_file() { File::open(path) } else { open_pipe(path, waiting) };
    log_from(file.map_err(unreadable)?, most)
}

/// A file or pipe to be read line by line, from which no bound need be kept. `waiting` as for [`log`].
///
/// # Errors
/// In words, when it is a folder or a device, or cannot be opened.
pub fn stream(path: &Path, waiting: &dyn Fn()) -> Result<File, String> {
    let unreadable = |e: std::io::Error| format!("cannot be read: {e}");
    let data = std::fs::metadata(path).map_err(unreadable)?;
    if data.is_file() {
        return File::open(path).map_err(unreadable);
    }
    if !is_pipe(&data) {
        return Err("is a folder or a device; give a file, or a pipe".to_owned());
    }
    open_pipe(path, waiting).map_err(unreadable)
}

/// Opening a pipe waits for the other end.
fn open_pipe(path: &Path, waiting: &dyn Fn()) -> std::io::Result<File> {
    let (opened, outcome) = mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || opened.send(File::open(path)));
    outcome.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        waiting();
        outcome.recv().unwrap_or_else(|e| Err(std::io::Error::other(e)))
    })
}

/// The text of a log that comes through a pipe or a file, up to a bound.
///
/// # Errors
/// When it cannot be read, is longer than the bound, or no text.
pub fn log_from(mut input: impl Read, most: u64) -> Result<String, Unread> {
    let mut bytes = Vec::new();
    (&mut input).take(HEAD).read_to_end(&mut bytes).map_err(unreadable)?;
    if is_binary(&bytes) {
        return Err(Unread::Binary);
    }
    input.take((most + 1).saturating_sub(bytes.len() as u64)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(too_long(most));
    }
    decode(bytes).map_err(|Binary| Unread::Binary)
}

/// The text of a config that was named: a regular file, or a pipe that the shell handed over.
///
/// # Errors
/// In words, when it is something else, too large, or cannot be read.
pub fn config(path: &Path) -> Result<String, String> {
    let unreadable = |e: std::io::Error| format!("cannot be read: {e}");
    let data = std::fs::metadata(path).map_err(unreadable)?;
    // A named pipe may wait for ever and a device never end; a pipe that is open already has another end.
    let is_open = ["/dev/fd", "/dev/stdin", "/proc/self/fd"].iter().any(|place| path.starts_with(place)) && is_pipe(&data);
    if !data.is_file() && !is_open {
        return Err("cannot be read: a config is a regular file, no folder, named pipe or device".to_owned());
    }
    let mut text = String::new();
    File::open(path).map_err(unreadable)?.take(MOST_CONFIG + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MOST_CONFIG {
        return Err(format!("cannot be read: a config has at most {} MiB", MOST_CONFIG >> 20));
    }
    Ok(text)
}

fn unreadable(e: std::io::Error) -> Unread {
    Unread::Because(format!("cannot be read: {e}"))
}

fn too_long(most: u64) -> Unread {
    Unread::Because(format!("is longer than {} GiB and was left out; give a part of it, such as its end (`tail -c 500M`)", most >> 30))
}

#[cfg(unix)]
fn is_pipe(data: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&data.file_type())
}

/// Elsewhere a pipe has no kind of its own.
#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the same byte for ever, and counts what was taken.
    struct Endless(u8, u64);

    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            into.fill(self.0);
            self.1 += into.len() as u64;
            Ok(into.len())
        }
    }

    #[test]
    fn an_endless_log_is_read_to_its_bound_and_a_binary_one_not_beyond_its_head() {
        let mut letters = Endless(b'a', 0);
        assert_eq!(log_from(&mut letters, 1 << 20), Err(too_long(1 << 20)));
        assert!(letters.1 <= (1 << 20) + 1, "{}", letters.1);
        let mut zeros = Endless(0, 0);
        assert_eq!(log_from(&mut zeros, 1 << 20), Err(Unread::Binary));
        assert!(zeros.1 <= HEAD, "{}", zeros.1);
        assert_eq!(log_from(&b"abc"[..], 3), Ok("abc".to_owned()));
        assert_eq!(log_from(&b"abcd"[..], 3), Err(too_long(3)));
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_folders_are_refused() {
        for path in ["/dev/zero", "/dev/full", "/"] {
            assert!(matches!(log(Path::new(path), &|| {}), Err(Unread::Because(_))), "{path}");
            assert!(config(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_sparse_file_is_known_by_its_head_and_an_endless_one_by_its_length() {
        let path = std::env::temp_dir().join(format!("trainwreck-sparse-{}.log", std::process::id()));
        File::create(&path).and_then(|file| file.set_len(3 << 30)).unwrap();
        assert_eq!(log(&path, &|| {}), Err(Unread::Binary));
        File::create(&path).and_then(|file| file.set_len(MOST_LOG + 1)).unwrap();
        assert_eq!(log(&path, &|| {}), Err(too_long(MOST_LOG)));
        assert!(config(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
