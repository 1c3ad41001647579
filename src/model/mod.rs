//! From the text of a model's `config.json` to parameters, stored bytes and KV-cache bytes.
//!
//! [`read`] gives a [`Model`]: an [`inventory::Inventory`] of tensors, the sizes of the language
//! model, the stored dtype and the quantisation. It needs no file access and accepts any text: what
//! it cannot use is a [`config::ConfigError`] at a key. A count is exact for known architectures;
//! otherwise [`Model::inexact`] says why, and [`Model::low`] and [`Model::high`] bound it.

pub mod adapter;
pub mod architectures;
pub mod beside;
pub mod checks;
pub mod config;
pub mod deepspeed;
pub mod documents;
pub mod fit;
pub mod gguf;
pub mod inventory;
pub mod json;
pub mod kv_cache;
pub mod original_params;
pub mod plan;
pub mod quantization;
pub mod remedies;
pub mod training;

use self::architectures::Source;
use self::architectures::decoder::Dimensions;
use self::config::{ConfigError, Result, Section};
use self::inventory::{Inventory, Role};
use self::quantization::{Dtype, Quantization};

/// What a config says about a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// `model_type`, or what the class implies.
    pub model_type: String,
    /// First entry of `architectures`, else the `model_type`.
    pub architecture: String,
    /// Every tensor.
    pub inventory: Inventory,
    /// Sizes of the language model.
    pub dimensions: Dimensions,
    /// Whether the head shares the embedding.
    pub tied: bool,
    /// Dtype of the stored weights that are not quantised; none when the file does not say.
    pub dtype: Option<Dtype>,
    /// How stored weights are quantised.
    pub quantization: Option<Quantization>,
    /// Why the counts are no exact ones; none when they are.
    pub inexact: Option<String>,
    /// What a reader should know about the numbers.
    pub notes: Vec<String>,
    total: u64,
    active: u64,
    margin: Option<(u64, u64)>,
}

/// Reads the text of a `config.json`.
pub fn read(text: &str) -> Result<Model> {
    let node = json::parse(text)?;
    if !matches!(node.value, json::Value::Object(_)) {
        return Err(ConfigError {
            key: String::new(),
            span: node.span.clone(),
            message: format!("a model config is an object, and this is {}", node.kind()),
        });
    }
    from_section(Section::new(&node))
}

/// Reads a config that is already parsed.
pub fn from_section(root: Section<'_>) -> Result<Model> {
    root.check_keys()?;
    for (_, node) in root.members().filter(|(name, _)| name.ends_with("_config")) {
        Section::new(node).check_keys()?;
    }
    let class = root.strings("architectures").first().copied().unwrap_or("");
    let model_type = architectures::model_type(root, class);
    let source = Source { root, class, model_type: &model_type };
    let original = documents::recognise(root) == documents::Document::OriginalParams;
    let parts = if original { original_params::read(root)? } else { architectures::build(&source)? };
    let total = bounded(root, parts.inventory.total())?;
    let active = bounded(root, parts.inventory.active())?;
    if total == 0 {
        return Err(ConfigError {
            key: String::new(),
            span: root.span(),
            message: "the config describes a model without parameters".to_owned(),
        });
    }
    let architecture = if class.is_empty() { model_type.clone() } else { class.to_owned() };
    Ok(Model {
        architecture,
        inventory: parts.inventory,
        dimensions: parts.dimensions,
        tied: parts.tied,
        // Original checkpoints are written in 16 bits, and their files have no key for it.
        dtype: quantization::dtype(root).or(original.then_some(Dtype::Bfloat16)),
        quantization: quantization::read(root)?,
        inexact: parts.inexact,
        notes: parts.notes,
        model_type,
        margin: parts.margin,
        total,
        active,
    })
}

/// Totals up to 2^62 are held; beyond it a config is nonsense.
fn bounded(root: Section<'_>, elements: u128) -> Result<u64> {
    match u64::try_from(elements) {
        Ok(elements) if elements < 1 << 62 => Ok(elements),
        _ => Err(ConfigError {
            key: String::new(),
            span: root.span(),
            message: "the sizes multiply to more parameters than any model has".to_owned(),
        }),
    }
}

impl Model {
    /// All parameters.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Parameters that one token passes.
    pub fn active(&self) -> u64 {
        self.active
    }

    /// Parameters of the input embedding.
    pub fn embedding(&self) -> u64 {
        self.role(Role::Embedding)
    }

    /// Parameters of the head over the vocabulary; none beside a tied embedding.
    pub fn head(&self) -> u64 {
        self.role(Role::Head)
    }

    /// Parameters of one role.
    pub fn role(&self, role: Role) -> u64 {
        u64::try_from(self.inventory.of_role(role)).unwrap_or(u64::MAX)
    }

    /// Whether the counts are exact to the unit.
    pub fn is_exact(&self) -> bool {
        self.inexact.is_none()
    }

    /// Lower bound of the total: the total itself when it is exact, else by the known margin or a third less.
    pub fn low(&self) -> u64 {
        match self.margin {
            _ if self.is_exact() => self.total,
            Some((less, _)) => self.total.saturating_sub(less),
            None => self.total - self.total / 3,
        }
    }

    /// Upper bound of the total: the total itself when it is exact, else by the known margin or a half more.
    pub fn high(&self) -> u64 {
        match self.margin {
            _ if self.is_exact() => self.total,
            Some((_, more)) => self.total.saturating_add(more),
            None => self.total.saturating_add(self.total / 2),
        }
    }

    /// Bytes of the weights as they are stored; none when the method of quantisation is not known.
    pub fn weights_bytes(&self) -> Option<u64> {
        if self.quantization.as_ref().is_some_and(|one| !one.is_known()) {
            return None;
        }
        let bytes = quantization::stored_bytes(&self.inventory, self.stored_dtype(), self.quantization.as_ref());
        Some(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Dtype of the weights that are not quantised: 32-bit floats where the file names none, but
    /// 16 bits beside quantised weights, whose files are of a newer kind.
    pub fn stored_dtype(&self) -> Dtype {
        self.dtype.unwrap_or(if self.quantization.is_some() { Dtype::Bfloat16 } else { Dtype::Float32 })
    }

    /// Bytes a token adds to the KV cache, for cache elements of `bytes` bytes.
    pub fn kv_bytes_per_token(&self, bytes: u64) -> u64 {
        u64::try_from(kv_cache::bytes_per_token(&self.inventory, bytes)).unwrap_or(u64::MAX)
    }
}
