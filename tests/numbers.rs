//! Numbers of a text may be of any size: no sum or product of them overflows.
//!
//! Tests run with overflow checks, so that a wrap is a panic.

use proptest::prelude::*;
use trainwreck::explain;
use trainwreck::log::rules::{Rules, excerpts};
use trainwreck::log::{analyze, run};

/// Every number of a text through `new`, which gets its place among them.
fn renumbered(text: &str, new: &dyn Fn(usize, &str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    for nth in 0.. {
        let Some(at) = rest.find(|c: char| c.is_ascii_digit()) else { break };
        let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| at + end);
        out.push_str(&rest[..at]);
        out.push_str(&new(nth, &rest[at..end]));
        rest = &rest[end..];
    }
    out + rest
}

fn read(text: &str) {
    let rules = Rules::builtin();
    let analysis = analyze(text, &rules);
    for index in 0..analysis.findings.len() {
        explain::diagnostic_message(&analysis, index);
        let span = analysis.findings[index].span;
        explain::hover(&analysis, &rules, span.line, span.start, &|_| None);
    }
    let part = |name: &str, rank| run::Part { name: name.to_owned(), rank: Some(rank), analysis: analysis.clone() };
    run::join(&mut [part("rank_0.log", 0), part("rank_1.log", 1)]);
}

fn flagged() -> Vec<String> {
    let rules = Rules::builtin();
    rules.pages().iter().flat_map(|page| excerpts::excerpts(page, "Flagged")).map(|excerpt| excerpt.text).collect()
}

#[test]
fn excerpts_with_the_largest_numbers_are_survived() {
    const MOST: [&str; 3] = ["9223372036854775807", "18446744073709551615", "17592186044415"];
    for text in flagged() {
        for most in MOST {
            // All of them, and only the long ones: a message whose labels are numbers is still read.
            read(&renumbered(&text, &|_, _| most.to_owned()));
            read(&renumbered(&text, &|_, old| if old.len() > 3 { most.to_owned() } else { old.to_owned() }));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_numbers_are_survived(which in any::<prop::sample::Index>(), seed in any::<u64>()) {
        let all = flagged();
        let text = which.get(&all);
        let pick = |nth: usize, old: &str| {
            let roll = seed.rotate_left((nth as u32 * 7) % 64) % 5;
            [old, "9223372036854775807", "18446744073709551615", "18446744073709551614", "0"][roll as usize].to_owned()
        };
        read(&renumbered(text, &pick));
    }
}
