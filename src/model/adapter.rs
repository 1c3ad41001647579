//! `adapter_config.json`: LoRA adapters on a base model, and what they add to it.

use regex::Regex;

use super::config::{Result, Section};
use super::inventory::{Group, Inventory, Part, Role, Tensor};
use super::json::Value;

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

/// Which biases are trained beside the adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bias {
    /// None.
    None,
    /// All of the model.
    All,
    /// Those of modules with an adapter.
    Adapted,
}

/// A LoRA adapter.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// Rank of the matrices.
    pub rank: u64,
    /// Where it sits.
    pub targets: Targets,
    /// Modules that take none all the same, by the end of their path.
    pub excluded: Vec<String>,
    /// Indices of the layers that take it; none for all.
    pub layers: Option<Vec<u64>>,
    /// Ranks of single modules, by a pattern for the end of their path.
    ranks: Vec<(Regex, u64)>,
    /// Modules that are trained whole beside it.
    pub saved: Vec<String>,
    /// Biases that are trained beside it.
    pub bias: Bias,
    /// The base model, as the file names it: a path or a name.
    pub base: Option<String>,
    /// Whether a magnitude a row is trained too (DoRA).
    pub dora: bool,
}

/// Modules of one name and shape that take an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The last word of their paths.
    pub name: String,
    /// How many there are.
    pub many: u64,
    /// Output width.
    pub out: u64,
    /// Input width.
    pub input: u64,
    /// Parameters that are trained in all of them.
    pub trained: u64,
}

/// Most bytes of a compiled pattern of a stranger.
const MOST_PATTERN: usize = 1 << 18;
/// Most names of modules that are read; a list of every module of a large model has some thousand.
const MOST_TARGETS: usize = 4_096;
/// Most patterns of ranks that are read.
const MOST_RANKS: usize = 64;

/// Reads an adapter.
pub fn read(c: Section<'_>) -> Result<Adapter> {
    let kind = c.str("peft_type").unwrap_or("LORA");
    if kind != "LORA" {
        return Err(c.wrong("peft_type", format!("`{kind}` is not known; LORA is")));
    }
    let rank = c.divisor("r|lora_r|rank", 8)?;
    let pattern = |text: &str| regex::RegexBuilder::new(text).size_limit(MOST_PATTERN).build().ok();
    let targets = match c.str("target_modules") {
        Some("all-linear") => Targets::AllLinear,
        // PEFT reads a single string as a regular expression over the whole path.
        Some(text) => match pattern(&format!("^(?:{text})$")) {
            Some(expression) => Targets::Matching(expression),
            None => {
                return Err(c.wrong("target_modules", "is no regular expression that can be used".to_owned()));
            }
        },
        None => Targets::Named(c.strings("target_modules").into_iter().take(MOST_TARGETS).map(str::to_owned).collect()),
    };
    let own = |names: &str| -> Vec<String> { c.strings(names).into_iter().map(str::to_owned).collect() };
    let ranks = c.section("rank_pattern");
    let ranks = ranks.members().take(MOST_RANKS).filter_map(|(name, node)| match node.value {
        Value::Integer(rank) => Some((pattern(&format!(r"^(?:.*\.)?(?:{name})$"))?, u64::try_from(rank).ok()?)),
        _ => None,
    });
    Ok(Adapter {
        rank,
        targets,
        excluded: own("exclude_modules"),
        layers: c.ints("layers_to_transform")?,
        ranks: ranks.collect(),
        saved: own("modules_to_save"),
        bias: match c.str("bias") {
            Some("all") => Bias::All,
            Some("lora_only") => Bias::Adapted,
            _ => Bias::None,
        },
        base: c.str("base_model_name_or_path").map(str::to_owned),
        dora: c.bool("use_dora", false)?,
    })
}

/// The path of a module of a group's occurrence, as the model's class names it; of experts the first.
fn path(group: &Group, tensor: &Tensor, index: u64) -> String {
    let prefix = group.prefix.replace("{i}", &index.to_string());
    let path = tensor.path.replace("{e}", "0");
    if prefix.is_empty() { path } else { format!("{prefix}.{path}") }
}

/// Whether a path is called so, or ends with this name.
fn is_called(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

impl Adapter {
    /// An adapter of a rank on modules of the given names; `all-linear` stands for all.
    pub fn new(rank: u64, names: &[&str]) -> Self {
        let all = names.contains(&"all-linear");
        let targets = if all { Targets::AllLinear } else { Targets::Named(names.iter().map(|name| (*name).to_owned()).collect()) };
        Self {
            rank,
            targets,
            excluded: Vec::new(),
            layers: None,
            ranks: Vec::new(),
            saved: Vec::new(),
            bias: Bias::None,
            base: None,
            dora: false,
        }
    }

    /// Whether single modules have ranks of their own.
    pub fn has_own_ranks(&self) -> bool {
        !self.ranks.is_empty()
    }

    /// Whether the adapter sits on a linear weight, in any of its layers.
    pub fn covers(&self, group: &Group, tensor: &Tensor) -> bool {
        tensor.linear && self.occurrences(group).any(|index| self.covers_at(group, tensor, index))
    }

    /// Indices of a group that have to be looked at one by one: one stands for all where nothing tells them apart.
    fn occurrences<'a>(&self, group: &'a Group) -> impl Iterator<Item = u64> + 'a {
        let most = if self.tells_layers_apart() { usize::MAX } else { 1 };
        group.indices.iter().copied().take(most)
    }

    fn tells_layers_apart(&self) -> bool {
        let numbered = |name: &String| name.chars().any(|c| c.is_ascii_digit()) && name.contains('.');
        let targets = match &self.targets {
            Targets::Matching(_) => true,
            Targets::Named(names) => names.iter().any(numbered),
            Targets::AllLinear => false,
        };
        targets || self.layers.is_some() || self.excluded.iter().any(numbered) || !self.ranks.is_empty()
    }

    /// Whether it sits on the weight of the layer of this index.
    fn covers_at(&self, group: &Group, tensor: &Tensor, index: u64) -> bool {
        if !tensor.linear || self.layers.as_ref().is_some_and(|layers| !(group.layer && layers.contains(&index))) {
            return false;
        }
        let path = path(group, tensor, index);
        if self.excluded.iter().any(|name| is_called(&path, name)) {
            return false;
        }
        match &self.targets {
            Targets::Named(names) => names.iter().any(|name| is_called(&path, name)),
            // Experts and routers are parameters, not linear layers, in transformers 5.
            Targets::AllLinear => {
                !matches!(tensor.role, Role::Head | Role::TaskHead | Role::Expert | Role::Router) && group.part != Part::Projector
            }
            Targets::Matching(expression) => expression.is_match(&path),
        }
    }

    fn rank_at(&self, group: &Group, tensor: &Tensor, index: u64) -> u64 {
        if self.ranks.is_empty() {
            return self.rank;
        }
        let path = path(group, tensor, index);
        self.ranks.iter().find(|(pattern, _)| pattern.is_match(&path)).map_or(self.rank, |(_, rank)| *rank)
    }

    /// How many modules of a group's tensor take an adapter, and what is trained in them.
    fn on(&self, group: &Group, tensor: &Tensor) -> (u64, u128) {
        let Some((out, input)) = tensor.out_in() else {
            return (0, 0);
        };
        let each = if self.tells_layers_apart() { 1 } else { group.count() };
        let (mut many, mut trained) = (0u64, 0u128);
        for index in self.occurrences(group).filter(|index| self.covers_at(group, tensor, *index)) {
            let copies = tensor.copies.saturating_mul(each);
            let matrices = (u128::from(out) + u128::from(input)).saturating_mul(u128::from(self.rank_at(group, tensor, index)));
            let one = matrices.saturating_add(if self.dora { u128::from(out) } else { 0 });
            many = many.saturating_add(copies);
            trained = trained.saturating_add(one.saturating_mul(u128::from(copies)));
        }
        (many, trained)
    }

    /// Parameters that are trained: `rank * (in + out)` a module, modules that are saved whole, and biases.
    pub fn trainable(&self, inventory: &Inventory) -> u128 {
        let one = |group: &Group, tensor: &Tensor| -> u128 {
            let whole = || tensor.elements().saturating_mul(u128::from(tensor.copies)).saturating_mul(u128::from(group.count()));
            if self.saved.iter().any(|name| tensor.module() == name || tensor.path == *name) {
                return whole();
            }
            match (tensor.parameter, self.bias) {
                ("bias", Bias::All) => whole(),
                ("bias", Bias::Adapted) => {
                    let beside = group.tensors.iter().find(|other| other.linear && other.path == tensor.path);
                    beside.map_or(0, |beside| tensor.elements().saturating_mul(u128::from(self.on(group, beside).0)))
                }
                _ => self.on(group, tensor).1,
            }
        };
        inventory.groups.iter().flat_map(|group| group.tensors.iter().map(move |tensor| one(group, tensor))).fold(0, u128::saturating_add)
    }

    /// The names by which settings call the modules: those of the file, or of what a pattern fits.
    pub fn target_names(&self, inventory: &Inventory) -> Vec<String> {
        let mut names: Vec<String> = match &self.targets {
            Targets::AllLinear => return vec!["all-linear".to_owned()],
            Targets::Named(names) => return names.clone(),
            Targets::Matching(_) => self.modules(inventory).into_iter().map(|module| module.name).collect(),
        };
        names.sort();
        names.dedup();
        names
    }

    /// The modules that take an adapter, by name and shape, in the order of the model.
    pub fn modules(&self, inventory: &Inventory) -> Vec<Module> {
        let mut out: Vec<Module> = Vec::new();
        for (group, tensor) in inventory.groups.iter().flat_map(|group| group.tensors.iter().map(move |tensor| (group, tensor))) {
            let ((many, trained), Some((wide, input))) = (self.on(group, tensor), tensor.out_in()) else { continue };
            let trained = u64::try_from(trained).unwrap_or(u64::MAX);
            let same = |have: &&mut Module| have.name == tensor.module() && have.out == wide && have.input == input;
            match out.iter_mut().find(same) {
                _ if many == 0 => {}
                Some(have) => (have.many, have.trained) = (have.many.saturating_add(many), have.trained.saturating_add(trained)),
                None => out.push(Module { name: tensor.module().to_owned(), many, out: wide, input, trained }),
            }
        }
        out
    }
}

/// Whether the model has a module of this name at all, linear or not: a weight, or a block around it.
pub fn is_module(inventory: &Inventory, name: &str) -> bool {
    let numbered = name.chars().any(|c| c.is_ascii_digit());
    inventory.groups.iter().any(|group| {
        // Layers of a group differ by their index only.
        let looked = group.indices.iter().copied().take(if numbered { usize::MAX } else { 1 });
        let mut places = looked.flat_map(|index| group.tensors.iter().map(move |tensor| (index, tensor)));
        places.any(|(index, tensor)| path_parts(group, tensor, index).any(|part| is_called(&part, name)))
    })
}

/// The path of a module, and those of the blocks around it.
fn path_parts(group: &Group, tensor: &Tensor, index: u64) -> impl Iterator<Item = String> {
    let mut rest = Some(path(group, tensor, index));
    std::iter::from_fn(move || {
        let now = rest.take()?;
        rest = now.rsplit_once('.').map(|(before, _)| before.to_owned());
        Some(now)
    })
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

    #[test]
    fn layers_ranks_and_biases_of_a_file() {
        let told = |more: &str| {
            let text = format!(r#"{{"peft_type": "LORA", "r": 8, "target_modules": ["q_proj", "v_proj"]{more}}}"#);
            let adapter = read(Section::new(&json::parse(&text).unwrap())).unwrap();
            adapter.trainable(&model::read(LLAMA_8B).unwrap().inventory)
        };
        let layer = 8 * (8192 + 5120);
        assert_eq!(told(""), 32 * layer);
        assert_eq!(told(r#", "layers_to_transform": [0, 31]"#), 2 * layer);
        assert_eq!(told(r#", "exclude_modules": ["v_proj"]"#), 32 * 8 * 8192);
        assert_eq!(told(r#", "rank_pattern": {"v_proj": 16}"#), 32 * (8 * 8192 + 16 * 5120));
        assert_eq!(told(r#", "rank_pattern": {"model.layers.0.self_attn.q_proj": 16}"#), 32 * layer + 8 * 8192);
        assert_eq!(told(r#", "bias": "all""#), 32 * layer, "a Llama has no biases");
        let qwen = LLAMA_8B.replace("llama", "qwen2").replace("Llama", "Qwen2");
        let inventory = model::read(&qwen).unwrap().inventory;
        let biased = read(Section::new(
            &json::parse(r#"{"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"], "bias": "lora_only"}"#).unwrap(),
        ));
        assert_eq!(biased.unwrap().trainable(&inventory), 32 * (8 * 8192 + 4096));
    }

    #[test]
    fn a_pattern_may_choose_layers() {
        let text = r#"{"peft_type": "LORA", "r": 8, "target_modules": "model\\.layers\\.(1[0-9])\\.self_attn\\.q_proj"}"#;
        let adapter = read(Section::new(&json::parse(text).unwrap())).unwrap();
        let model = model::read(LLAMA_8B).unwrap();
        let modules = adapter.modules(&model.inventory);
        assert_eq!((modules.len(), modules[0].many, modules[0].trained), (1, 10, 10 * 8 * 8192));
        assert!(is_module(&model.inventory, "q_proj") && is_module(&model.inventory, "layers.7.mlp"));
        assert!(is_module(&model.inventory, "embed_tokens") && !is_module(&model.inventory, "c_attn"));
    }

    #[test]
    fn experts_of_mixtral_go_by_numbers_and_are_left_out_of_all_linear() {
        let text = LLAMA_8B.replace("llama", "mixtral").replace("Llama", "Mixtral");
        let inventory = model::read(&text.replace("num_hidden_layers", "num_local_experts\": 8, \"num_hidden_layers")).unwrap().inventory;
        let trained = |names: &[&str]| Adapter::new(16, names).trainable(&inventory);
        assert_eq!(trained(&["w1", "w2", "w3"]), 32 * 8 * 3 * 16 * (4096 + 14336));
        assert_eq!(trained(&["gate_proj"]), 0);
        assert_eq!(trained(&["all-linear"]), trained(&["q_proj", "k_proj", "v_proj", "o_proj"]));
    }
}
