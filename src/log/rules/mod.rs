//! The rule pages: loads them, builds the gate, and finds a page by its id.
//!
//! Reading the front matters takes a few milliseconds and happens on first use; patterns compile when a line first
//! needs them.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

pub mod excerpts;
mod mistake;
mod own;
pub mod page;

pub use page::{Page, PageProblem};

/// The built-in pages: file name and text.
pub static BUILTIN_PAGES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Strings that make a line worth cleaning although no anchor is seen in it: escapes that may split an anchor.
const ESCAPES: [&str; 2] = ["\x1b[", "^[["];

/// A set of rule pages behind one gate.
#[derive(Debug)]
pub struct Rules {
    pages: Vec<Page>,
    gate: Option<AhoCorasick>,
    /// The page of each anchor; anchors come first in the gate, then the escapes.
    page_of: Vec<u32>,
}

impl Rules {
    /// The built-in pages.
    pub fn builtin() -> Arc<Rules> {
        static RULES: OnceLock<Arc<Rules>> = OnceLock::new();
        Arc::clone(RULES.get_or_init(|| Arc::new(Rules::new(builtin_pages().collect()))))
    }

    /// The built-in pages and a workspace's own, given as (file, text). A user page replaces a built-in one of its id.
    ///
    /// Pages with a mistake are left out and reported; the rest still load. What they may take together is bounded, and their
    /// prose holds nothing that an editor would act on. What replaces a built-in page is noted.
    pub fn with_user_pages(files: Vec<(String, String)>) -> (Arc<Rules>, Vec<PageProblem>) {
        let mut own: Vec<Page> = Vec::new();
        let mut problems = Vec::new();
        let mut budget = own::Budget::default();
        for (file, text) in files {
            let id_line = text.lines().position(|line| line.trim_start().starts_with("id")).map_or(1, |at| at + 1);
            match read_user_page(&file, text, &mut budget) {
                Ok(page) if own.iter().any(|p| p.front.id == page.front.id) => {
                    problems.push(PageProblem::mistake(file, id_line, format!("there is another page `{}`", page.front.id)));
                }
                Ok(page) => {
                    if is_builtin(&page.front.id) {
                        let message = format!("this page replaces the built-in page `{}`", page.front.id);
                        problems.push(PageProblem { note: true, ..PageProblem::mistake(file, id_line, message) });
                    }
                    own.push(page);
                }
                Err(found) => problems.extend(found),
            }
        }
        if own.is_empty() {
            return (Rules::builtin(), problems);
        }
        let mut pages: Vec<Page> = builtin_pages().filter(|page| own.iter().all(|o| o.front.id != page.front.id)).collect();
        pages.extend(own);
        (Arc::new(Rules::new(pages)), problems)
    }

    /// A set of exactly these pages.
    pub fn new(pages: Vec<Page>) -> Rules {
        let mut anchors: Vec<&str> = Vec::new();
        let mut page_of = Vec::new();
        for (i, page) in pages.iter().enumerate() {
            for anchor in &page.front.anchors {
                anchors.push(anchor);
                page_of.push(i as u32);
            }
        }
        anchors.extend(ESCAPES);
        let build = |kind| AhoCorasick::builder().match_kind(MatchKind::Standard).kind(kind).build(&anchors);
        // A DFA is fastest; should the anchors be too many for one, the library chooses. Beyond even that nothing matches.
        let gate = build(Some(AhoCorasickKind::DFA)).or_else(|_| build(None)).ok();
        Rules { pages, gate, page_of }
    }

    /// All pages, built-in ones first, by file name.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// The page with this id.
    pub fn page(&self, id: &str) -> Option<&Page> {
        self.pages.iter().find(|page| page.front.id == id)
    }

    /// The gate over raw text.
    pub(crate) fn gate(&self) -> Option<&AhoCorasick> {
        self.gate.as_ref()
    }

    /// The page whose anchor a hit of the gate is; none for an escape.
    pub(crate) fn page_of(&self, hit: &aho_corasick::Match) -> Option<usize> {
        self.page_of.get(hit.pattern().as_usize()).map(|&page| page as usize)
    }

    /// The pages that may match a clean text, each once, in order.
    pub(crate) fn candidates(&self, text: &str) -> Vec<usize> {
        let Some(gate) = &self.gate else { return Vec::new() };
        let mut found: Vec<usize> = gate.find_overlapping_iter(text).filter_map(|hit| self.page_of(&hit)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Is there a built-in page of this id?
pub fn is_builtin(id: &str) -> bool {
    let name = |file: &'static str| file.rsplit('/').next().and_then(|name| name.strip_suffix(".md"));
    BUILTIN_PAGES.iter().any(|&(file, _)| name(file) == Some(id))
}

fn builtin_pages() -> impl Iterator<Item = Page> {
    BUILTIN_PAGES.iter().filter_map(|&(file, text)| Page::parse(file, Cow::Borrowed(text)).ok())
}

fn read_user_page(file: &str, text: String, budget: &mut own::Budget) -> Result<Page, Vec<PageProblem>> {
    let mut page = Page::parse(file, Cow::Owned(text.clone())).map_err(|problem| vec![problem])?;
    let line = || text.find("anchors").map_or(1, |at| text[..at].matches('\n').count() + 1);
    budget.take_anchors(&page.front.anchors).map_err(|message| vec![PageProblem::mistake(file, line(), message)])?;
    page.verify(&text, Some(budget))?;
    page.own = true;
    own::neutralise(&mut page);
    Ok(page)
}
