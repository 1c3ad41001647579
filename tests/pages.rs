//! Every excerpt of every built-in rule page, and the form of every page.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use std::borrow::Cow;
use std::path::Path;

use trainwreck::log::rules::{BUILTIN_PAGES, Page, Rules, excerpts};

#[test]
fn every_page_is_well_formed() {
    let mut problems = Vec::new();
    for (file, text) in BUILTIN_PAGES {
        match Page::parse(file, Cow::Borrowed(text)) {
            Ok(page) => problems.extend(page.verify(text, None).err().unwrap_or_default()),
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

/// The handbook for page authors lists every cause, and its example is a page that works.
#[test]
fn the_handbook_is_true() {
    let handbook = include_str!("../docs/rules.md");
    for cause in trainwreck::log::vocabulary::Cause::ALL {
        assert!(handbook.contains(&format!("| `{cause}` |")), "docs/rules.md does not explain the cause {cause}");
    }
    let example = handbook.split("````markdown\n").nth(1).and_then(|rest| rest.split("````").next()).expect("the complete page");
    let workspace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("handbook");
    let folder = workspace.join(".trainwreck/rules");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("feature-store-down.md"), example).unwrap();
    let (rules, problems) = trainwreck::files::load_rules(&[workspace]);
    assert!(problems.is_empty(), "{problems:?}");
    let problems = excerpts::check(rules.page("feature-store-down").unwrap(), &rules);
    assert!(problems.is_empty(), "{problems:?}");
}
