//! A document after any edits has the analysis of a fresh one.
//!
//! The input is a text, a byte 0xFF, and edits: a place, a length, and the text behind it up to the next 0xFF.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ropey::Rope;
use trainwreck::log::LogDocument;
use trainwreck::log::rules::Rules;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.split(|&byte| byte == 0xFF);
    let mut rope = Rope::from_str(&String::from_utf8_lossy(parts.next().unwrap_or_default()));
    let rules = Rules::builtin();
    let mut document = LogDocument::new(rules.clone());
    let _ = document.open(&rope, &|| true);
    for edit in parts.take(4).filter(|edit| edit.len() >= 3) {
        let chars = rope.len_chars();
        let from = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (chars + 1);
        let to = (from + usize::from(edit[2])).min(chars);
        let text = String::from_utf8_lossy(&edit[3..]);
        let (first, last) = (rope.char_to_line(from), rope.char_to_line(to));
        rope.remove(from..to);
        rope.insert(from, &text);
        let lines = text.matches('\n').count();
        let _ = document.edit(&rope, first, last - first + 1, lines + 1, &|| true);
        let mut fresh = LogDocument::new(rules.clone());
        let _ = fresh.open(&rope, &|| true);
        assert_eq!(*document.analysis(), *fresh.analysis());
    }
});
