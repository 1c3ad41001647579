//! A typed view of a model's `config.json` that keeps the span of each key.
//!
//! A [`Section`] is one object of the file (the file itself, `text_config` ...). Its getters take
//! several spellings of a key, separated by `|`, in order of preference, and the default that the
//! model family has for a missing key. `null` counts as missing. A value of the wrong kind or
//! beyond any real model is a [`ConfigError`] that names the key and its place.

use super::json::{JsonError, Node, Span, Value};

/// Largest number accepted for a size: beyond it no product of two sizes is meaningful.
pub const MAX_SIZE: u64 = 1 << 36;
/// Most layers that are walked one by one.
pub const MAX_LAYERS: u64 = 4_096;
/// Most keys of an object that describes a model; looking one up costs by their number.
pub const MAX_KEYS: usize = 4_096;
/// Most entries of a list that is read.
const MAX_LIST: usize = 65_536;

/// A config that cannot be used, and where.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// The key that is wrong or missing; empty for a text that is no JSON.
    pub key: String,
    /// Byte range of the value, or of the object that lacks the key.
    pub span: Span,
    /// What is wrong and what would be right.
    pub message: String,
}

impl From<JsonError> for ConfigError {
    fn from(error: JsonError) -> Self {
        Self { key: String::new(), span: error.span, message: format!("not valid JSON: {}", error.message) }
    }
}

/// Result of reading a config.
pub type Result<T> = std::result::Result<T, ConfigError>;

/// One object of the file; an absent object behaves as an empty one.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    node: Option<&'a Node>,
}

impl<'a> Section<'a> {
    /// The view of an object.
    pub fn new(node: &'a Node) -> Self {
        Self { node: Some(node) }
    }

    /// A view without any key.
    pub fn empty() -> Self {
        Self { node: None }
    }

    /// Whether the object exists and has at least one key.
    pub fn is_empty(&self) -> bool {
        !matches!(self.node.map(|node| &node.value), Some(Value::Object(members)) if !members.is_empty())
    }

    /// Byte range of the object.
    pub fn span(&self) -> Span {
        self.node.map_or(0..0, |node| node.span.clone())
    }

    /// The first of the spellings that is present, even when its value is `null`.
    pub fn raw(&self, names: &str) -> Option<(&str, &'a Node)> {
        let node = self.node?;
        names.split('|').find_map(|name| node.member(name)).map(|member| (member.name.as_str(), &member.node))
    }

    /// The first of the spellings that is present and not `null`.
    pub fn node(&self, names: &str) -> Option<(&str, &'a Node)> {
        let node = self.node?;
        let present = |name: &str| node.member(name).filter(|member| member.node.value != Value::Null);
        names.split('|').find_map(present).map(|member| (member.name.as_str(), &member.node))
    }

    /// Whether one of the spellings is present, `null` included.
    pub fn has(&self, names: &str) -> bool {
        self.raw(names).is_some()
    }

    /// An object inside this one; empty when absent or of another kind.
    pub fn section(&self, names: &str) -> Section<'a> {
        match self.node(names) {
            Some((_, node)) if matches!(node.value, Value::Object(_)) => Section::new(node),
            _ => Section::empty(),
        }
    }

    /// The objects of a list; empty when absent.
    pub fn sections(&self, names: &str) -> Vec<Section<'a>> {
        match self.node(names).map(|(_, node)| &node.value) {
            Some(Value::Array(items)) => items.iter().take(MAX_LIST).map(Section::new).collect(),
            _ => Vec::new(),
        }
    }

    /// Refuses an object with more keys than a model has, at the first key beyond.
    pub fn check_keys(&self) -> Result<()> {
        let Some(Value::Object(members)) = self.node.map(|node| &node.value) else {
            return Ok(());
        };
        match members.get(MAX_KEYS) {
            None => Ok(()),
            Some(member) => Err(ConfigError {
                key: member.name.chars().take(80).collect(),
                span: member.name_span.clone(),
                message: format!("the object has {} keys, more than any model config (limit {MAX_KEYS})", members.len()),
            }),
        }
    }

    /// Keys and values in the order of the text.
    pub fn members(&self) -> impl Iterator<Item = (&'a str, &'a Node)> {
        let members = match self.node.map(|node| &node.value) {
            Some(Value::Object(members)) => members.as_slice(),
            _ => &[],
        };
        members.iter().map(|member| (member.name.as_str(), &member.node))
    }

    /// A size with the family's default.
    pub fn int(&self, names: &str, default: u64) -> Result<u64> {
        Ok(self.int_opt(names)?.unwrap_or(default))
    }

    /// A size, or nothing when absent or `null`.
    pub fn int_opt(&self, names: &str) -> Result<Option<u64>> {
        self.node(names).map(|(name, node)| size(name, node)).transpose()
    }

    /// A size that must be there.
    pub fn need(&self, names: &str) -> Result<u64> {
        self.int_opt(names)?.ok_or_else(|| self.missing(names))
    }

    /// A number of layers, bounded so that they can be walked.
    pub fn layers(&self, names: &str, default: u64) -> Result<u64> {
        let count = self.int(names, default)?;
        if count > MAX_LAYERS {
            return Err(self.wrong(names, format!("{count} layers are more than any model has (limit {MAX_LAYERS})")));
        }
        Ok(count)
    }

    /// A size that divides others and therefore must not be zero.
    pub fn divisor(&self, names: &str, default: u64) -> Result<u64> {
        match self.int(names, default)? {
            0 => Err(self.wrong(names, "must be at least 1".to_owned())),
            value => Ok(value),
        }
    }

    /// A flag with the family's default; numbers count as Python counts them.
    pub fn bool(&self, names: &str, default: bool) -> Result<bool> {
        Ok(self.bool_opt(names)?.unwrap_or(default))
    }

    /// A flag, or nothing when absent or `null`.
    pub fn bool_opt(&self, names: &str) -> Result<Option<bool>> {
        match self.node(names) {
            None => Ok(None),
            Some((_, Node { value: Value::Bool(flag), .. })) => Ok(Some(*flag)),
            Some((_, Node { value: Value::Integer(number), .. })) => Ok(Some(*number != 0)),
            Some((_, node)) => Err(self.wrong(names, format!("must be true or false, not {}", node.kind()))),
        }
    }

    /// A number that need not be whole.
    pub fn float(&self, names: &str, default: f64) -> Result<f64> {
        match self.node(names) {
            None => Ok(default),
            Some((_, Node { value: Value::Float(number), .. })) => Ok(*number),
            Some((_, Node { value: Value::Integer(number), .. })) => Ok(*number as f64),
            Some((_, node)) => Err(self.wrong(names, format!("must be a number, not {}", node.kind()))),
        }
    }

    /// A string, if the key is present and holds one.
    pub fn str(&self, names: &str) -> Option<&'a str> {
        match self.node(names) {
            Some((_, Node { value: Value::String(text), .. })) => Some(text),
            _ => None,
        }
    }

    /// A list of sizes, or nothing when absent or `null`; a single number is a list of one.
    pub fn ints(&self, names: &str) -> Result<Option<Vec<u64>>> {
        let Some((name, node)) = self.node(names) else {
            return Ok(None);
        };
        match &node.value {
            Value::Array(items) if items.len() > MAX_LIST => {
                Err(self.wrong(names, format!("has {} entries, more than any model needs", items.len())))
            }
            Value::Array(items) => items.iter().map(|item| size(name, item)).collect::<Result<Vec<_>>>().map(Some),
            _ => Ok(Some(vec![size(name, node)?])),
        }
    }

    /// A list of flags, or nothing when absent or `null`; numbers count as Python counts them.
    pub fn flags(&self, names: &str) -> Option<Vec<bool>> {
        let (_, node) = self.node(names)?;
        let Value::Array(items) = &node.value else {
            return None;
        };
        let flag = |item: &Node| matches!(item.value, Value::Bool(true)) || matches!(item.value, Value::Integer(n) if n != 0);
        Some(items.iter().take(MAX_LIST).map(flag).collect())
    }

    /// A list of strings; empty when absent. Items of other kinds are passed over.
    pub fn strings(&self, names: &str) -> Vec<&'a str> {
        match self.node(names).map(|(_, node)| &node.value) {
            Some(Value::Array(items)) => items.iter().take(MAX_LIST).filter_map(as_str).collect(),
            Some(Value::String(text)) => vec![text],
            _ => Vec::new(),
        }
    }

    /// An error at a key: what is wrong with its value.
    pub fn wrong(&self, names: &str, message: String) -> ConfigError {
        let (name, span) = match self.raw(names) {
            Some((name, node)) => (name.to_owned(), node.span.clone()),
            None => (first(names).to_owned(), self.span()),
        };
        ConfigError { message: format!("`{name}`: {message}"), key: name, span }
    }

    /// An error for a key without which an unknown architecture cannot be estimated.
    pub fn missing_for_unknown(&self, names: &str, model_type: &str) -> ConfigError {
        let name = first(names).to_owned();
        let who = if model_type.is_empty() {
            "a model without `model_type`".to_owned()
        } else {
            format!("the unknown architecture `{model_type}`")
        };
        ConfigError { message: format!("`{name}` is missing: {who} cannot be estimated without it"), key: name, span: self.span() }
    }

    /// An error for a key that is needed and absent.
    pub fn missing(&self, names: &str) -> ConfigError {
        let name = first(names).to_owned();
        let message = format!("`{name}` is missing, and this architecture has no default for it");
        ConfigError { key: name, span: self.span(), message }
    }
}

fn first(names: &str) -> &str {
    names.split('|').next().unwrap_or(names)
}

fn as_str(node: &Node) -> Option<&str> {
    match &node.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn size(name: &str, node: &Node) -> Result<u64> {
    let error = |message: String| ConfigError { key: name.to_owned(), span: node.span.clone(), message: format!("`{name}`: {message}") };
    let number = match node.value {
        Value::Integer(number) => number,
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e18 => number as i128,
        Value::Float(_) => return Err(error("must be a whole number".to_owned())),
        _ => {
            return Err(error(format!("must be a whole number, not {}", node.kind())));
        }
    };
    if number < 0 {
        return Err(error(format!("must not be negative, and is {number}")));
    }
    match u64::try_from(number) {
        Ok(number) if number <= MAX_SIZE => Ok(number),
        _ => Err(error(format!("{number} is larger than any real model (limit {MAX_SIZE})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::parse;
    use super::*;

    #[test]
    fn defaults_spellings_and_null() {
        let node = parse(r#"{"n_embd": 768, "num_key_value_heads": null, "x": 4096.0}"#).unwrap();
        let config = Section::new(&node);
        assert_eq!(config.int("hidden_size|n_embd", 1).unwrap(), 768);
        assert_eq!(config.int("num_key_value_heads", 12).unwrap(), 12);
        assert!(config.has("num_key_value_heads"));
        assert_eq!(config.int("x", 0).unwrap(), 4096);
    }

    #[test]
    fn absurd_values_name_key_and_place() {
        let text = r#"{"a": -4, "b": "many", "c": 1e30, "d": 99999999999999999999}"#;
        let node = parse(text).unwrap();
        let config = Section::new(&node);
        for key in ["a", "b", "c", "d"] {
            let error = config.int(key, 0).unwrap_err();
            assert_eq!(error.key, key);
            assert!(error.message.contains(key), "{error}");
            assert!(!text[error.span].is_empty());
        }
    }
}
