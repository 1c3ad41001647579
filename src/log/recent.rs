//! Records of lines that were read last. Neighbouring findings look at the same lines around them: a message cut on every
//! line, the tracebacks of many ranks that write at once.

use std::rc::Rc;

use super::record::{self, Record};
use crate::text::Lines;

/// Lines that are kept; more than any reader looks away from its own line.
const KEPT: usize = 1024;

/// The records of some lines of one text.
pub struct Recent {
    most_bytes: usize,
    /// Line `i` stands in slot `i % KEPT`.
    slots: Vec<Option<(usize, Rc<Record>)>>,
}

impl Recent {
    /// Nothing read yet; of each line so many bytes will be.
    pub fn new(most_bytes: usize) -> Recent {
        Recent { most_bytes, slots: Vec::new() }
    }

    /// The record of a line: what is seen of it last, when it has carriage returns.
    pub fn line(&mut self, lines: &dyn Lines, i: usize) -> Rc<Record> {
        self.slots.resize(KEPT, None);
        let slot = &mut self.slots[i % KEPT];
        match slot {
            Some((line, record)) if *line == i => record.clone(),
            _ => slot.insert((i, Rc::new(record::last(&lines.line(i), self.most_bytes)))).1.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    #[test]
    fn lines_do_not_stand_for_each_other() {
        let text: String = (0..3 * KEPT).map(|n| format!("[rank{}]: line {n}\n", n % 7)).collect();
        let lines = StrLines::new(&text);
        let mut recent = Recent::new(64);
        for i in [0, KEPT, 0, 1, 2 * KEPT + 1, KEPT + 1, 1, 1] {
            let record = recent.line(&lines, i);
            assert_eq!((record.body.text.as_str(), record.prefix.rank), (format!("line {i}").as_str(), Some((i % 7) as u32)));
        }
    }
}
