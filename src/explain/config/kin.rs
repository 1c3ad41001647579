//! Files around a model that are no config: an adapter, an index of weights, settings of generation and of DeepSpeed,
//! the state of a trainer.
//!
//! What they say is measured against the config of the model, where one is found; where none is, that is said, and
//! nothing is guessed.

mod deepspeed;
mod generation;
mod hover;
mod index;
pub mod keys;
mod lora;
pub mod offers;
mod trainer;

use super::budget::Choice;
use super::duplicates;
use super::hints::Hint;
use super::hover::KeyText;
use super::marks::Mark;
use crate::model::config::Section;
use crate::model::documents::Document;
use crate::model::json::{self, Member, Node, Value};
use crate::model::{self, Model};

/// A file around a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Kin {
    root: Node,
    document: Document,
}

/// The config of the model, and where it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// The place, as it may be shown.
    pub place: String,
    root: Node,
    model: Model,
}

/// What is said of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// What stands over the file.
    pub lens: Vec<String>,
    /// Lines that go by the chosen GPU.
    pub tasks: Vec<String>,
    /// A few words behind keys.
    pub hints: Vec<Hint>,
    /// What is wrong.
    pub marks: Vec<Mark>,
}

impl Base {
    /// A config that was found at a place; none when the text is no config that can be counted.
    pub fn read(place: String, text: &str) -> Option<Base> {
        let root = json::parse(text).ok()?;
        let model = model::from_section(Section::new(&root)).ok()?;
        Some(Base { place, root, model })
    }
}

impl Kin {
    /// The file of this kind; none for kinds that are configs themselves, or nothing at all.
    pub(super) fn of(root: Node, document: Document) -> Option<Kin> {
        let own = matches!(
            document,
            Document::AdapterConfig
                | Document::WeightsIndex
                | Document::GenerationConfig
                | Document::DeepSpeedConfig
                | Document::TrainerState
        );
        own.then_some(Kin { root, document })
    }

    /// The name of the model that the file speaks of: `organisation/model`, or whatever it says.
    pub fn base_name(&self) -> Option<&str> {
        if self.document != Document::AdapterConfig {
            return None;
        }
        Section::new(&self.root).str("base_model_name_or_path")
    }

    /// May the config of the model lie in the folder above?
    pub fn looks_above(&self) -> bool {
        matches!(self.document, Document::AdapterConfig)
    }

    /// What is said of the file.
    pub fn say(&self, base: Option<&Base>, choice: &Choice) -> Said {
        let root = Section::new(&self.root);
        let mut said = match self.document {
            Document::AdapterConfig => lora::say(self, base, choice),
            Document::WeightsIndex => index::say(root, base),
            Document::GenerationConfig => generation::say(self, base),
            Document::DeepSpeedConfig => deepspeed::say(self, base, choice),
            _ => trainer::say(self),
        };
        // The others are written by programs, and can be long.
        if matches!(self.document, Document::AdapterConfig | Document::GenerationConfig | Document::DeepSpeedConfig) {
            said.marks.extend(duplicates::of(&self.root, self.document == Document::DeepSpeedConfig));
        }
        said
    }

    /// What kind of file it is.
    pub fn document(&self) -> Document {
        self.document
    }

    /// What a key is and what it contributes, for the key or value at a byte of the text.
    pub fn hover(&self, base: Option<&Base>, choice: &Choice, at: usize) -> Option<KeyText> {
        hover::at(self, base, choice, at)
    }

    fn member(&self, names: &str) -> Option<&Member> {
        super::keys::find(&self.root, names)
    }
}

/// A hint behind a key's value; of an object, behind its opening brace.
fn hint(member: &Member, text: String) -> Hint {
    let span = &member.node.span;
    let at = if matches!(member.node.value, Value::Object(_)) { span.start + 1 } else { span.end };
    Hint { key: member.name.clone(), at, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::config::{Outcome, read};
    use crate::gpu::cards::card;

    const LLAMA: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}"#;

    fn said(text: &str, config: bool) -> Said {
        let Outcome::Kin(kin) = read(text) else { panic!("{text}") };
        let base = config.then(|| Base::read("config.json".to_owned(), LLAMA).unwrap());
        kin.say(base.as_ref(), &Choice { gpu: Some(card("a100-sxm4-80gb")), ..Choice::default() })
    }

    #[test]
    fn an_adapter_counts_on_its_base_alone() {
        let text = r#"{"peft_type": "LORA", "r": 8, "target_modules": ["q_proj", "v_proj"], "base_model_name_or_path": "org/m"}"#;
        let with = said(text, true);
        assert_eq!(with.lens[0], "LoRA of rank 8 on q_proj, v_proj");
        assert_eq!(with.lens[1], "3.41 M trained parameters, 0.04 % of 8.03 B");
        assert_eq!(with.lens[2], "13 MiB in fp32, 6.50 MiB in bf16");
        assert_eq!(with.hints[0].text, "3.41 M trained");
        let without = said(text, false);
        assert!(without.lens[1].starts_with("base model org/m not found"), "{without:?}");
        let none = said(&text.replace("q_proj\", \"v_proj", "c_attn"), true);
        assert!(none.lens[1].contains("no linear layer"), "{none:?}");
    }

    #[test]
    fn experts_take_adapters_by_their_numbers_and_not_by_all_linear() {
        let config = LLAMA.replace("llama", "mixtral").replace("Llama", "Mixtral").replace("\"vocab", "\"num_local_experts\": 8, \"vocab");
        let on = |targets: &str| {
            let Outcome::Kin(kin) = read(&format!(r#"{{"peft_type": "LORA", "r": 16, "target_modules": {targets}}}"#)) else { panic!() };
            kin.say(Base::read("config.json".to_owned(), &config).as_ref(), &Choice::default())
        };
        let all = on("\"all-linear\"");
        assert!(all.lens[1].starts_with("13.6") && all.lens.iter().any(|line| line.contains("transformers 4")), "{all:?}");
        let named = on(r#"["w1", "w2", "w3"]"#);
        assert!(named.marks.is_empty() && named.lens[1].starts_with("226"), "{named:?}");
        assert!(named.lens.iter().any(|line| line.contains("transformers 5")), "{named:?}");
        let words = on(r#"["q_proj", "gate_proj"]"#);
        assert!(words.marks.len() == 1 && words.marks[0].message.contains("`gate_proj`"), "{words:?}");
    }

    #[test]
    fn an_index_agrees_or_not() {
        let index = |bytes: u64| format!(r#"{{"metadata": {{"total_size": {bytes}}}, "weight_map": {{"model.norm.weight": "a"}}}}"#);
        let good = said(&index(16_060_522_496), true);
        assert!(good.marks.is_empty() && good.lens[1] == "agrees with config.json: 14.96 GiB", "{good:?}");
        let bad = said(&index(32_121_044_992), true);
        assert!(bad.marks[0].code == "config-index-mismatch" && bad.marks[0].message.contains("float32"), "{bad:?}");
    }

    #[test]
    fn deepspeed_is_planned_on_the_config() {
        let text = r#"{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 4, "train_batch_size": 64, "optimizer": {"type": "AdamW"}}"#;
        let with = said(text, true);
        assert_eq!(with.lens[0], "ZeRO 3, bf16, 2 sequences a GPU, 4 steps accumulated, 8 GPUs");
        assert!(with.tasks[0].starts_with("full fine-tuning, 2 × 2,048 tokens on each of 8 GPUs · "), "{with:?}");
        assert!(with.tasks[0].contains(" of 79.25 GiB on a100-sxm4-80gb · "), "{with:?}");
        assert!(with.tasks[1].starts_with("with gradient checkpointing · "), "{with:?}");
        assert!(with.tasks[2].starts_with("fits from ") && with.tasks[2].contains("a100-sxm4-80gb"), "{with:?}");
        let assumed = with.tasks.last().unwrap();
        assert!(assumed.contains("2,048 tokens") && !assumed.contains("GPUs") && !assumed.contains("AdamW"), "{assumed}");
        // 16 bytes a parameter over 8 GPUs.
        let states = with.hints.iter().find(|hint| hint.key == "stage").unwrap();
        assert_eq!(states.text, "14.96 GiB of states a GPU");
        let open =
            said(r#"{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}"#, true);
        assert_eq!(open.lens[0], "ZeRO 2, bf16, optimiser in host memory");
        // Weights in 16 bits stay; masters, states and 32-bit gradients are on the host.
        assert_eq!(open.hints[0].text, "14.96 GiB of states a GPU");
        assert_eq!((open.hints[1].key.as_str(), open.hints[1].text.ends_with("less on each GPU")), ("offload_optimizer", true), "{open:?}");
        assert!(open.tasks.iter().any(|line| line.starts_with("host memory: 119.66 GiB of states for 8 GPUs")), "{open:?}");
        let assumed = open.tasks.last().unwrap();
        assert!(["8 GPUs", "micro batch 1", "bf16", "AdamW"].iter().all(|what| assumed.contains(what)), "{assumed}");
        let wrong = said(r#"{"zero_optimization": {"stage": 4}}"#, false);
        assert_eq!(wrong.marks[0].code, "config-value");
    }

    #[test]
    fn generation_and_its_cache() {
        let said = said(r#"{"_from_model_config": true, "eos_token_id": 2, "max_length": 8192}"#, true);
        assert_eq!(said.hints[0].text, "KV 1 GiB at 8,192 tokens");
    }

    #[test]
    fn a_trainer_that_broke_is_marked_at_its_entry() {
        let entries: Vec<String> = (0..20)
            .map(|step| format!("{{\"step\": {step}, \"loss\": {}}}", if step < 14 { 2.0 - f64::from(step) * 0.1 } else { 9.0 }))
            .collect();
        let nan = "{\"step\": 20, \"loss\": 0.0, \"grad_norm\": NaN}, {\"step\": 21, \"loss\": NaN}";
        let text = format!("{{\"global_step\": 22, \"log_history\": [{}, {nan}]}}", entries.join(","));
        let said = said(&text, false);
        let codes: Vec<(&str, &str)> = said.marks.iter().map(|mark| (mark.code, &text[mark.span.clone()])).collect();
        assert_eq!(codes, [("trainer-divergence", "9"), ("trainer-non-finite", "NaN")]);
        assert!(said.marks[1].message.contains("step 20") && said.marks[1].message.contains("2 entries"), "{said:?}");
    }
}
