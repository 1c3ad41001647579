//! The words that are not on a rule page, kept apart from the code: one TOML table a language.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::log::units;

/// Languages with a table of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    English,
}

/// The words, and those about keys of files around a model.
const ENGLISH: [&str; 2] = [include_str!("texts/en.toml"), include_str!("texts/en_files.toml")];

fn table(language: Language) -> &'static BTreeMap<String, String> {
    static TABLES: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    match language {
        Language::English => TABLES.get_or_init(|| {
            let read = |text: &&str| toml::from_str::<BTreeMap<String, String>>(text).unwrap_or_default();
            ENGLISH.iter().flat_map(read).collect()
        }),
    }
}

/// The text of a key; a question mark when the table has none (a test looks for the keys that are made up at run time).
pub fn text(language: Language, key: &str) -> &'static str {
    table(language).get(key).map_or("?", String::as_str)
}

/// Is there a text of this key?
pub fn has(language: Language, key: &str) -> bool {
    table(language).contains_key(key)
}

/// The text of a key with its placeholders filled in.
pub fn fill(language: Language, key: &str, values: &[(&str, String)]) -> String {
    let mut out = text(language, key).to_owned();
    for (name, value) in values {
        out = units::fill_in(&out, name, value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::vocabulary::{Cause, Role};

    #[test]
    fn the_table_is_read_and_names_every_role_and_cause() {
        for text in ENGLISH {
            assert!(toml::from_str::<BTreeMap<String, String>>(text).is_ok_and(|table| !table.is_empty()));
        }
        for role in Role::ALL {
            assert!(has(Language::English, &format!("role.{role}")), "{role}");
        }
        for cause in Cause::ALL {
            assert!(has(Language::English, &format!("cause.{cause}")), "{cause}");
            // VS Code cuts a hint behind 43 characters.
            let what = text(Language::English, &format!("cause.{cause}")).to_owned();
            assert!(fill(Language::English, "hint.root", &[("what", what)]).chars().count() <= 43, "{cause}");
        }
    }
}
