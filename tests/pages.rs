//! Every excerpt of every built-in rule page, and the form of every page.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use std::borrow::Cow;

use trainwreck::log::rules::{BUILTIN_PAGES, Page, Rules, excerpts};

#[test]
fn every_page_is_well_formed() {
    let mut problems = Vec::new();
    for (file, text) in BUILTIN_PAGES {
        match Page::parse(file, Cow::Borrowed(text)) {
            Ok(page) => problems.extend(page.verify(text).err().unwrap_or_default()),
            Err(problem) => problems.push(problem),
        }
    }
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    assert!(Rules::builtin().pages().len() == BUILTIN_PAGES.len(), "two pages have one id");
}

#[test]
fn every_excerpt_holds() {
    let rules = Rules::builtin();
    let problems: Vec<String> = rules.pages().iter().flat_map(|page| excerpts::check(page, &rules)).map(|p| p.to_string()).collect();
    assert!(problems.is_empty(), "\n{} problems\n{}", problems.len(), problems.join("\n"));
}
