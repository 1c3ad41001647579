//! The processes that an out-of-memory message lists as holders of the card.

use std::sync::LazyLock;

use regex::Regex;

use crate::log::units::{self, Unit};

/// Processes of a list that are kept.
const MOST_HOLDERS: usize = 32;

/// Another process on the card, as the message names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its pid, as the host counts, where it is printed.
    pub pid: Option<u64>,
    /// Bytes that it holds.
    pub bytes: u64,
}

/// The processes behind the first that a message lists: `Process 12 has 3.50 GiB memory in use.`
pub(super) fn listed(texts: &[(String, String)]) -> Vec<Holder> {
    static ENTRY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"Process\s*(\d+)\s*has\s*([\d.,]+\s*(?:[KMGT]i?B|bytes))").ok());
    let Some(form) = ENTRY.as_ref() else { return Vec::new() };
    let lists = texts.iter().filter(|(name, _)| name.ends_with("processes")).flat_map(|(_, text)| form.captures_iter(text));
    let entries = lists.take(MOST_HOLDERS).filter_map(|entry| {
        let bytes = units::read(entry.get(2)?.as_str(), Some(Unit::Size))?.0.bytes()?;
        Some(Holder { pid: entry.get(1)?.as_str().parse().ok(), bytes })
    });
    entries.collect()
}
