//! `adapter_config.json`: LoRA adapters on a base model, and what they add to it.

use regex::Regex;

use super::config::{Result, Section};
use super::inventory::{Group, Inventory, Part, Role, Tensor};

/// Which modules an adapter sits on.
#[derive(Debug, Clone)]
pub enum Targets {
    /// Modules by the end of their path: `q_proj`, `self_attn.q_proj`.
    Named(Vec<String>),
    /// Every linear layer but the head.
    AllLinear,
    /// Modules whose whole path matches.
    Matching(Regex),
}

/// A LoRA adapter.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// Rank of the matrices.
    pub rank: u64,
    /// Where it sits.
    pub targets: Targets,
    /// Modules that are trained whole beside it.
    pub saved: Vec<String>,
    /// The base model, as the file names it: a path or a name.
    pub base: Option<String>,
    /// Whether a magnitude a row is trained too (DoRA).
    pub dora: bool,
}

/// Reads an adapter.
pub fn read(c: Section<'_>) -> Result<Adapter> {
    let kind = c.str("peft_type").unwrap_or("LORA");
    if kind != "LORA" {
        return Err(c.wrong("peft_type", format!("`{kind}` is not known; LORA is")));
    }
    let rank = c.int("r|lora_r|rank", 8)?;
    let targets = match c.str("target_modules") {
        Some("all-linear") => Targets::AllLinear,
        // PEFT reads a single string as a regular expression over the whole path.
        Some(pattern) => match regex::RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(1 << 18).build() {
            Ok(expression) => Targets::Matching(expression),
            Err(_) => {
                return Err(c.wrong("target_modules", "is no regular expression that can be used".to_owned()));
            }
        },
        None => Targets::Named(c.strings("target_modules").into_iter().map(str::to_owned).collect()),
    };
    Ok(Adapter {
        rank,
        targets,
        saved: c.strings("modules_to_save").into_iter().map(str::to_owned).collect(),
        base: c.str("base_model_name_or_path").map(str::to_owned),
        dora: c.bool("use_dora", false)?,
    })
}

impl Adapter {
    /// An adapter of a rank on modules of the given names; `all-linear` stands for all.
    pub fn new(rank: u64, names: &[&str]) -> Self {
        let all = names.contains(&"all-linear");
        let targets = if all { Targets::AllLinear } else { Targets::Named(names.iter().map(|name| (*name).to_owned()).collect()) };
        Self { rank, targets, saved: Vec::new(), base: None, dora: false }
    }

    /// Whether the adapter sits on a linear weight.
    pub fn covers(&self, group: &Group, tensor: &Tensor) -> bool {
        if !tensor.linear {
            return false;
        }
        let path = || format!("{}.{}", group.prefix.replace("{i}", "0"), tensor.path.replace("{e}", "0"));
        match &self.targets {
            Targets::Named(names) => names.iter().any(|name| tensor.module() == name || path().ends_with(&format!(".{name}"))),
            Targets::AllLinear => tensor.role != Role::Head && tensor.role != Role::TaskHead && group.part != Part::Projector,
            Targets::Matching(expression) => expression.is_match(&path()),
        }
    }

    /// Parameters that are trained: `rank * (in + out)` a module, and modules that are saved whole.
    pub fn trainable(&self, inventory: &Inventory) -> u128 {
        let one = |group: &Group, tensor: &Tensor| -> u128 {
            let copies = u128::from(tensor.copies).saturating_mul(u128::from(group.count()));
            if self.saved.iter().any(|name| tensor.module() == name || tensor.path == *name) {
                return tensor.elements().saturating_mul(copies);
            }
            let Some((out, input)) = tensor.out_in().filter(|_| self.covers(group, tensor)) else {
                return 0;
            };
            let matrices = u128::from(out).saturating_add(u128::from(input)).saturating_mul(u128::from(self.rank));
            matrices.saturating_add(if self.dora { u128::from(out) } else { 0 }).saturating_mul(copies)
        };
        inventory.groups.iter().flat_map(|group| group.tensors.iter().map(move |tensor| one(group, tensor))).fold(0, u128::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{self, json};

    const LLAMA_8B: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}"#;

    #[test]
    fn trainable_parameters_of_lora() {
        let model = model::read(LLAMA_8B).unwrap();
        // 32 layers of r * (4096 + 4096) and r * (4096 + 1024).
        assert_eq!(Adapter::new(8, &["q_proj", "v_proj"]).trainable(&model.inventory), 32 * 8 * (8192 + 5120));
        assert_eq!(Adapter::new(16, &["all-linear"]).trainable(&model.inventory), 41_943_040);
    }

    #[test]
    fn files_of_peft_are_read() {
        let text = r#"{"peft_type": "LORA", "r": 8, "target_modules": ".*self_attn\\.(q|v)_proj", "base_model_name_or_path": "base"}"#;
        let node = json::parse(text).unwrap();
        let adapter = read(Section::new(&node)).unwrap();
        let model = model::read(LLAMA_8B).unwrap();
        assert_eq!(adapter.trainable(&model.inventory), 32 * 8 * (8192 + 5120));
        assert_eq!(adapter.base.as_deref(), Some("base"));
    }
}
