//! Files for the faces: bytes to text, rule pages of a workspace. The only module beside the faces that reads a disk.

pub mod input;
pub mod models;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::models::CONFIG;
use crate::log::rules::{PageProblem, Rules};

/// The largest user page that is read, in bytes.
const MOST_PAGE_BYTES: u64 = 1 << 20;

/// Bytes of all user pages that are read together.
const MOST_ALL_BYTES: u64 = 4 << 20;

/// Pages of one workspace that are read at most.
const MOST_PAGES: usize = 256;

/// The folder of a workspace that holds its own rule pages.
pub const USER_RULES: &str = ".trainwreck/rules";

/// The built-in rules and those of these workspaces' `.trainwreck/rules` folders, with the mistakes found.
pub fn load_rules(workspaces: &[PathBuf]) -> (Arc<Rules>, Vec<PageProblem>) {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    let mut left = MOST_ALL_BYTES;
    for workspace in workspaces {
        let Ok(entries) = std::fs::read_dir(workspace.join(USER_RULES)) else { continue };
        let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        found.retain(|file| file.extension().is_some_and(|ending| ending == "md"));
        found.sort();
        if found.len() > MOST_PAGES {
            let message = format!("{} pages in this folder; the first {MOST_PAGES} are read", found.len());
            problems.push(PageProblem::mistake(found[MOST_PAGES].to_string_lossy(), 1, message));
            found.truncate(MOST_PAGES);
        }
        for file in found {
            let name = file.to_string_lossy().into_owned();
            match read_page(&file, left) {
                Ok(text) => {
                    left -= text.len() as u64;
                    files.push((name, text));
                }
                Err(message) => problems.push(PageProblem::mistake(name, 1, message)),
            }
        }
    }
    let (rules, more) = Rules::with_user_pages(files);
    problems.extend(more);
    (rules, problems)
}

/// The text of a page, of at most `left` bytes.
fn read_page(file: &Path, left: u64) -> Result<String, String> {
    let problem = |e: std::io::Error| format!("cannot be read: {e}");
    let data = std::fs::metadata(file).map_err(problem)?;
    // A pipe would wait for ever and a device never end.
    if !data.is_file() {
        return Err("is no file".to_owned());
    }
    let mut text = String::new();
    std::fs::File::open(file).map_err(problem)?.take(MOST_PAGE_BYTES.min(left) + 1).read_to_string(&mut text).map_err(problem)?;
    if text.len() as u64 > left {
        return Err(format!("the pages have more than {MOST_ALL_BYTES} bytes together; this one is left out"));
    }
    if text.len() as u64 > MOST_PAGE_BYTES {
        return Err(format!("the page has more than {MOST_PAGE_BYTES} bytes"));
    }
    Ok(text)
}

/// The largest config beside a log that is read, in bytes.
const MOST_CONFIG_BYTES: u64 = 2 << 20;
/// JSON files of a workspace's top folder that are looked at.
const MOST_CONFIGS: usize = 32;

/// Configs of models near a log: `config.json` in its folder and the one above, and those in the top folder of the
/// workspace that holds it, with the names to show. Only these places are looked at, whatever a log names.
pub fn configs_beside(log: &Path, workspaces: &[PathBuf]) -> Vec<(String, String)> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    if let Some(folder) = log.parent() {
        files.push((CONFIG.to_owned(), folder.join(CONFIG)));
        files.push((format!("../{CONFIG}"), folder.join("..").join(CONFIG)));
    }
    for root in workspaces.iter().filter(|root| log.starts_with(root)) {
        let entries = std::fs::read_dir(root).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let mut found: Vec<PathBuf> = entries.filter(|file| file.extension().is_some_and(|ending| ending == "json")).collect();
        found.sort();
        found.truncate(MOST_CONFIGS);
        files.extend(found.into_iter().filter_map(|file| Some((file.file_name()?.to_string_lossy().into_owned(), file))));
    }
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut out = Vec::new();
    for (name, file) in files {
        let Ok(real) = file.canonicalize() else { continue };
        if !seen.contains(&real)
            && let Some(text) = read_config(&real)
        {
            out.push((name, text));
        }
        seen.push(real);
    }
    out
}

/// A small regular file of text.
fn read_config(file: &Path) -> Option<String> {
    let data = std::fs::metadata(file).ok()?;
    (data.is_file() && data.len() <= MOST_CONFIG_BYTES).then(|| std::fs::read_to_string(file).ok())?
}

/// Why bytes are no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binary;

/// The text of a log file: UTF-8, or UTF-16 with its mark (as PowerShell's `>` writes). Invalid bytes become U+FFFD.
///
/// # Errors
/// [`Binary`] when the beginning holds more than a stray NUL byte and no UTF-16 mark.
pub fn decode(bytes: Vec<u8>) -> Result<String, Binary> {
    let utf16 = |swap: bool| {
        let units = bytes[2..].chunks_exact(2).map(|pair| {
            let unit = [pair[0], pair[1]];
            if swap { u16::from_be_bytes(unit) } else { u16::from_le_bytes(unit) }
        });
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>()
    };
    match bytes.as_slice() {
        [0xff, 0xfe, ..] => return Ok(utf16(false)),
        [0xfe, 0xff, ..] => return Ok(utf16(true)),
        _ => {}
    }
    if is_binary(&bytes) {
        return Err(Binary);
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// Are these bytes, or the beginning of them, no text? NUL bytes stand there, and no mark of UTF-16.
///
/// A log may hold single ones: PyTorch 2.1 to 2.3 print the number of the GPU in an out-of-memory message as a byte.
fn is_binary(bytes: &[u8]) -> bool {
    let marked = matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    let head = &bytes[..bytes.len().min(8192)];
    let zeros = memchr::memchr_iter(0, head).count();
    if marked || zeros == 0 {
        return false;
    }
    let broken: usize = head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    zeros > head.len() / 64 || broken > head.len() / 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text() {
        assert_eq!(decode(b"a\xffb".to_vec()), Ok("a\u{fffd}b".to_owned()));
        assert_eq!(decode(vec![0xff, 0xfe, b'a', 0, b'\n', 0]), Ok("a\n".to_owned()));
        assert_eq!(decode(vec![0x7f, b'E', b'L', b'F', 0, 0]), Err(Binary));
        assert_eq!(decode(vec![0xff, 0xfe, b'a']), Ok(String::new()));
        let line = b"CUDA out of memory. Tried to allocate 1.96 GiB. GPU \0 has a total capacity of 31.74 GiB.\n";
        assert_eq!(decode(line.to_vec()).as_deref(), Ok(std::str::from_utf8(line).unwrap()));
        let packed: Vec<u8> = (0u32..4096).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        assert!(packed.contains(&0) && decode(packed) == Err(Binary));
    }
}
