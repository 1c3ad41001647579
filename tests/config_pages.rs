//! The pages about configs: form, and every excerpt.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

use trainwreck::explain::config::kin::Base;
use trainwreck::explain::config::{self, Choice, Outcome, pages};
use trainwreck::log::vocabulary::Severity;
use trainwreck::model::beside::{WeightsIndex, weights_index};
use trainwreck::model::checks::Around;
use trainwreck::model::config::Section;
use trainwreck::model::json;

/// A config of a page, its chosen card, the index beside it, and what must be marked: line and code.
struct Excerpt {
    text: String,
    gpu_bytes: Option<u64>,
    index: Option<WeightsIndex>,
    base: Option<Base>,
    expected: Vec<(usize, String)>,
}

fn excerpts(section: &str) -> Vec<Excerpt> {
    let mut out = Vec::new();
    let (mut index, mut base) = (None, None);
    let mut blocks = section.split("```");
    blocks.next();
    while let Some(block) = blocks.next() {
        blocks.next();
        let (info, body) = block.split_once('\n').unwrap();
        let words: Vec<&str> = info.split_whitespace().collect();
        if words.contains(&"index") {
            index = Some(weights_index(Section::new(&json::parse(body).unwrap())).unwrap());
            continue;
        }
        if words.contains(&"base") {
            base = Some(Base::read("config.json".to_owned(), body).unwrap());
            continue;
        }
        let gpu_bytes = words.iter().find_map(|word| word.strip_prefix("gpu=")).map(|bytes| bytes.parse().unwrap());
        let (mut text, mut expected) = (String::new(), Vec::new());
        for line in body.lines() {
            match line.strip_prefix("#~ ") {
                Some(code) => expected.push((text.lines().count() - 1, code.trim().to_owned())),
                None => text.push_str(&format!("{line}\n")),
            }
        }
        out.push(Excerpt { text, gpu_bytes, index: index.take(), base: base.take(), expected });
    }
    out
}

fn marks(excerpt: &Excerpt) -> Vec<(usize, String, Severity)> {
    let found = match config::read(&excerpt.text) {
        Outcome::Config(view) => view.marks(&Around { index: excerpt.index.as_ref(), gpu_bytes: excerpt.gpu_bytes }),
        Outcome::Kin(kin) => kin.say(excerpt.base.as_ref(), &Choice::default()).marks,
        other => panic!("{other:?}: {}", excerpt.text),
    };
    found.into_iter().map(|mark| (excerpt.text[..mark.span.start].matches('\n').count(), mark.code.to_owned(), mark.severity)).collect()
}

#[test]
fn every_page_has_its_form_and_its_excerpts_hold() {
    for (id, text) in pages::TEXTS {
        let page = pages::page(id).unwrap_or_else(|| panic!("{id}: no front matter"));
        assert_eq!(page.id, *id);
        for heading in ["What it means", "Why it happens", "What to do", "What does not help"] {
            assert!(page.section(heading).len() > 30, "{id}: {heading}");
        }
        let (flagged, quiet) = (excerpts(page.section("Flagged")), excerpts(page.section("Not flagged")));
        assert!(!flagged.is_empty() && quiet.len() >= 2, "{id}");
        let mut severities = Vec::new();
        for excerpt in &flagged {
            let found = marks(excerpt);
            let places: Vec<(usize, String)> = found.iter().map(|(line, code, _)| (*line, code.clone())).collect();
            assert_eq!(places, excerpt.expected, "{id}: {}", excerpt.text);
            assert!(excerpt.expected.iter().all(|(_, code)| code == id), "{id}");
            severities.extend(found.iter().map(|(.., severity)| format!("severity = \"{severity}\"")));
        }
        assert!(severities.iter().any(|severity| text.contains(severity)), "{id}: {severities:?}");
        for excerpt in &quiet {
            assert_eq!(marks(excerpt), [], "{id}: {}", excerpt.text);
        }
    }
}

#[test]
fn every_file_is_a_page() {
    let files = std::fs::read_dir("src/explain/config/pages").unwrap().count();
    assert_eq!(files, pages::TEXTS.len());
    assert_eq!(pages::all().count(), files);
}
