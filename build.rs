//! Lists the rule pages, so that a new page is one new file and nothing else.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let root = PathBuf::from("src/log/rules");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut pages = Vec::new();
    for family in std::fs::read_dir(&root)? {
        let family = family?.path();
        if !family.is_dir() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", family.display());
        for page in std::fs::read_dir(&family)? {
            let page = page?.path();
            if page.extension().is_some_and(|ending| ending == "md") {
                pages.push(page);
            }
        }
    }
    pages.sort();
    let mut code = String::from("[\n");
    for page in &pages {
        let whole = std::fs::canonicalize(page)?;
        let name = page.strip_prefix(&root).unwrap_or(Path::new(""));
        let _ = writeln!(code, "    ({:?}, include_str!({:?})),", name.to_string_lossy(), whole.to_string_lossy());
    }
    code.push_str("]\n");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    std::fs::write(out.join("pages.rs"), code)
}
