//! What is said of a log: the hover and the post-mortem must be true, agree with each other and name what matters first.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use trainwreck::explain::{self, post_mortem};
use trainwreck::log::rules::Rules;
use trainwreck::log::{Analysis, analyze};
use trainwreck::text::StrLines;

/// The hover of the root cause.
fn root_hover(log: &str) -> String {
    let rules = Rules::builtin();
    let analysis = analyze(log, &rules);
    let span = analysis.findings[analysis.story.root.expect("a root cause")].span;
    explain::hover(&analysis, &rules, span.line, span.start, &|_| None).expect("a hover").markdown
}

/// The items of a row of the post-mortem, joined; empty without such a row.
fn row(log: &str, label: &str) -> String {
    let rules = Rules::builtin();
    let analysis = analyze(log, &rules);
    let rows = rows_of(log, &analysis, &rules);
    rows.into_iter().find(|row| row.label == label).map(|row| row.items.join("\n")).unwrap_or_default()
}

fn rows_of(log: &str, analysis: &Analysis, rules: &Rules) -> Vec<post_mortem::Row> {
    let lines = StrLines::new(log);
    let part = post_mortem::Part { name: None, rank: None, analysis, lines: Some(&lines) };
    post_mortem::rows(&[part], analysis.story.root.map(|root| (0, root)), rules)
}

/// Numbered items below a heading of a hover.
fn items<'h>(hover: &'h str, heading: &str) -> Vec<&'h str> {
    let section = hover.split_once(&format!("**{heading}**\n\n")).map_or("", |(_, rest)| rest);
    section.lines().take_while(|line| !line.is_empty()).collect()
}

fn oom(tried: &str, free: &str, process: &str, allocated: &str, idle: &str) -> String {
    format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 79.15 GiB of which {free} \
         is free. Including non-PyTorch memory, this process has {process} memory in use. Of the allocated memory {allocated} is \
         allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated.\n"
    )
}

#[test]
fn idle_memory_is_spoken_of_in_one_way() {
    let idle = root_hover(&oom("3.91 GiB", "2.88 GiB", "76.27 GiB", "70.14 GiB", "4.40 GiB"));
    assert!(items(&idle, "What to do")[0].contains("expandable_segments:True"), "{idle}");
    assert!(!items(&idle, "What does not help").iter().any(|item| item.contains("expandable_segments")), "{idle}");
    let packed = root_hover(&oom("3.91 GiB", "2.88 GiB", "76.27 GiB", "74.14 GiB", "400.00 MiB"));
    assert!(!items(&packed, "What to do").iter().any(|item| item.contains("expandable_segments")), "{packed}");
    assert!(items(&packed, "What does not help").iter().any(|item| item.contains("expandable_segments")), "{packed}");
    assert_eq!(packed.matches("expandable_segments").count(), 1, "{packed}");
}

#[test]
fn a_trainer_is_not_told_how_to_serve() {
    let error = oom("3.91 GiB", "2.88 GiB", "76.27 GiB", "74.14 GiB", "400.00 MiB");
    assert!(root_hover(&error).contains("When serving"), "nothing says who wrote it");
    assert!(!root_hover(&format!("step 3 loss 2.1\nstep 4 loss 2.0\n{error}")).contains("When serving"));
    let server = root_hover(&format!("INFO vLLM API server version 0.9.2\n{error}"));
    assert!(items(&server, "What to do")[0].contains("When serving"), "{server}");
}
