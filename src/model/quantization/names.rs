//! Names of modules, and the lists by which files select them.
//!
//! Files name modules in the manner of the class that wrote them, so the same layer is
//! `model.layers.0` here and `model.language_model.layers.0` there. Both sides are compared without
//! these leading words. A list may hold plain names (of the module, of a module around it, or only
//! their last words), globs with `*`, and regular expressions behind `re:`.

use std::collections::{HashMap, HashSet};

use regex::Regex;

use crate::model::inventory::{Group, Tensor};

/// Most regular expressions and free globs of one list; a file has a handful.
const MAX_FREE: usize = 256;

/// A list of modules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    plain: HashSet<String>,
    /// Single words that stood behind leading ones: a module outside the layers (`model.transformer.ff_out`).
    outer: HashSet<String>,
    globs: Vec<String>,
    /// Globs that name a layer, by the index.
    of_layer: HashMap<String, Vec<String>>,
    expressions: Vec<Regex>,
    everything: bool,
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        let texts = |names: &Names| names.expressions.iter().map(|one| one.as_str().to_owned()).collect::<Vec<_>>();
        self.plain == other.plain
            && self.outer == other.outer
            && self.globs == other.globs
            && self.of_layer == other.of_layer
            && self.everything == other.everything
            && texts(self) == texts(other)
    }
}

/// The full name of a tensor's module at an index.
pub(crate) fn of(group: &Group, tensor: &Tensor, index: u64) -> String {
    let prefix = group.prefix.replace("{i}", &index.to_string());
    let path = tensor.path.replace("{e}", "0");
    let name = if prefix.is_empty() || path.is_empty() { format!("{prefix}{path}") } else { format!("{prefix}.{path}") };
    strip(&name).to_owned()
}

/// A name without the words that classes put before the layers.
fn strip(name: &str) -> &str {
    let mut rest = name;
    while let Some(after) = ["model.", "language_model.", "transformer.", "text_model."].iter().find_map(|word| rest.strip_prefix(word)) {
        rest = after;
    }
    rest
}

impl Names {
    /// A list from the entries of a file.
    pub(crate) fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = Self::default();
        for entry in entries {
            names.add(entry);
        }
        names
    }

    fn add(&mut self, entry: &str) {
        if let Some(pattern) = entry.strip_prefix("re:") {
            if self.expressions.len() < MAX_FREE
                && let Ok(expression) = regex::RegexBuilder::new(&format!("^(?:{pattern})")).size_limit(1 << 18).build()
            {
                self.expressions.push(expression);
            }
            return;
        }
        let name = strip(entry);
        // Some classes wrap each linear layer in a module that holds it under this name.
        let name = name.strip_suffix(".linear").unwrap_or(name);
        if !name.contains('*') {
            let outer = name.len() < entry.len() && !name.contains('.');
            if outer { &mut self.outer } else { &mut self.plain }.insert(name.to_owned());
        } else if name == "*" {
            self.everything = true;
        } else if let Some(layer) = layer_of(name) {
            self.of_layer.entry(layer.to_owned()).or_default().push(name.to_owned());
        } else if self.globs.len() < MAX_FREE {
            self.globs.push(name.to_owned());
        }
    }

    /// Whether the list selects a module (its name already stripped).
    pub(crate) fn matches(&self, name: &str) -> bool {
        if self.everything {
            return true;
        }
        let words = || name.split('.');
        let outside = |word: &&str| !word.starts_with(|letter: char| letter.is_ascii_digit());
        if words().take_while(outside).any(|word| self.outer.contains(word)) {
            return true;
        }
        // A name selects the module, all modules inside it, and every module that ends with it.
        let mut ends = std::iter::once(name).chain(name.match_indices('.').filter_map(|(at, _)| name.get(at + 1..)));
        let mut starts = name.match_indices('.').filter_map(|(at, _)| name.get(..at));
        if ends.any(|end| self.plain.contains(end))
            || starts.any(|start| self.plain.contains(start))
            || words().any(|word| self.plain.contains(word))
        {
            return true;
        }
        let inside = |globs: &Vec<String>| globs.iter().any(|pattern| glob(pattern, name) || starts_with_glob(pattern, name));
        if self.globs.iter().any(|pattern| glob(pattern, name) || starts_with_glob(pattern, name)) {
            return true;
        }
        // A bare `layers.1*` also selects layers 10 to 19.
        let layer = layer_of(name).unwrap_or("");
        let prefixes = (1..=layer.len()).filter_map(|end| layer.get(..end));
        prefixes.filter_map(|prefix| self.of_layer.get(prefix)).any(inside)
            || self.expressions.iter().any(|one| {
                one.is_match(name) || one.is_match(&format!("model.{name}")) || one.is_match(&format!("model.language_model.{name}"))
            })
    }
}

/// The number behind `layers.`, up to the first character that is no digit.
fn layer_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("layers.")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end).filter(|digits| !digits.is_empty())
}

/// Whether a glob selects a module around the named one.
fn starts_with_glob(pattern: &str, name: &str) -> bool {
    !pattern.ends_with('*') && glob(&format!("{pattern}.*"), name)
}

/// Matches a name against a pattern in which `*` stands for any letters. Linear but for the number
/// of stars.
fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pattern.rsplit('*').next().filter(|_| pattern.contains('*')) else {
        return rest.is_empty();
    };
    let middle: Vec<&str> = parts.collect();
    for part in middle.iter().take(middle.len().saturating_sub(1)) {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or(""),
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_select_modules_and_what_is_inside() {
        let names = Names::new(["lm_head", "model.layers.0.mlp.gate", "visual", "gate"]);
        assert!(names.matches("lm_head"));
        assert!(names.matches("layers.0.mlp.gate"));
        assert!(!names.matches("layers.1.mlp.gate_proj"));
        assert!(names.matches("layers.5.mlp.gate"));
        assert!(names.matches("visual.blocks.0.attn.qkv"));
    }

    #[test]
    fn a_word_behind_the_models_name_selects_nothing_inside_layers() {
        let names = Names::new(["model.transformer.ff_out", "model.vision_backbone", "model.vision_tower.layers.0.mlp.up_proj.linear"]);
        assert!(names.matches("ff_out"));
        assert!(!names.matches("blocks.0.ff_out"));
        assert!(names.matches("vision_backbone.image_vit.blocks.3.wq"));
        assert!(names.matches("vision_tower.layers.0.mlp.up_proj"));
        assert!(!names.matches("vision_tower.layers.0.mlp.down_proj"));
    }

    #[test]
    fn globs_and_expressions() {
        let names = Names::new(["model.language_model.layers.1*", "*.mlp.shared_expert.*", "re:.*self_attn.*"]);
        assert!(names.matches("layers.10.mlp.up_proj"));
        assert!(!names.matches("layers.2.mlp.up_proj"));
        assert!(names.matches("layers.2.mlp.shared_expert.up_proj"));
        assert!(names.matches("layers.2.self_attn.q_proj"));
    }
}
