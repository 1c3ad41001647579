//! Bytes of a model as a GGUF file, by the types that llama.cpp gives to tensors.
//!
//! The mixes (`Q4_K_M` ...) give more bits to the value projections, to some of the down projections
//! and to the head. The rules below are those of llama.cpp's default quantisation of dense models;
//! files made with an importance matrix or by hand differ, so a size is close and not exact. Norms,
//! biases and routers stay in 32 bits. The header and the vocabulary (some MB) are left out.

use super::inventory::{Group, Inventory, Role, Tensor};

/// Type of one tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// 4 bits, blocks of 32.
    Q4_0,
    /// 5 bits, blocks of 32.
    Q5_0,
    /// 5 bits with minimum, blocks of 32.
    Q5_1,
    /// 8 bits, blocks of 32.
    Q8_0,
    /// 2 bits, blocks of 256.
    Q2K,
    /// 3 bits, blocks of 256.
    Q3K,
    /// 4 bits, blocks of 256.
    Q4K,
    /// 5 bits, blocks of 256.
    Q5K,
    /// 6 bits, blocks of 256.
    Q6K,
    /// 4 bits with minimum, blocks of 32.
    Q4_1,
    /// 4 bits from a table, blocks of 32.
    Iq4Nl,
    /// 4 bits from a table, blocks of 256.
    Iq4Xs,
    /// 3.4 bits from a grid.
    Iq3S,
    /// 3.1 bits from a grid.
    Iq3Xxs,
    /// 2.6 bits from a grid.
    Iq2S,
    /// 2.3 bits from a grid.
    Iq2Xs,
    /// 2.1 bits from a grid.
    Iq2Xxs,
    /// 1.8 bits from a grid.
    Iq1M,
    /// 1.6 bits from a grid.
    Iq1S,
    /// Ternary, 1.7 bits.
    Tq1,
    /// Ternary, 2.1 bits.
    Tq2,
    /// 4-bit floats, blocks of 32.
    Mxfp4,
}

impl Type {
    /// Weights and bytes of a block, with scales.
    pub fn block(self) -> (u64, u64) {
        match self {
            Type::F32 => (1, 4),
            Type::F16 => (1, 2),
            Type::Q4_0 => (32, 18),
            Type::Q5_0 => (32, 22),
            Type::Q5_1 => (32, 24),
            Type::Q8_0 => (32, 34),
            Type::Q2K => (256, 84),
            Type::Q3K => (256, 110),
            Type::Q4K => (256, 144),
            Type::Q5K => (256, 176),
            Type::Q6K => (256, 210),
            Type::Q4_1 => (32, 20),
            Type::Iq4Nl => (32, 18),
            Type::Iq4Xs => (256, 136),
            Type::Iq3S => (256, 110),
            Type::Iq3Xxs => (256, 98),
            Type::Iq2S => (256, 82),
            Type::Iq2Xs => (256, 74),
            Type::Iq2Xxs => (256, 66),
            Type::Iq1M => (256, 56),
            Type::Iq1S => (256, 50),
            Type::Tq1 => (256, 54),
            Type::Tq2 => (256, 66),
            Type::Mxfp4 => (32, 17),
        }
    }

    /// Bytes of a matrix; rows that a block does not divide take the next simpler type.
    pub fn bytes(self, rows: u64, columns: u64) -> u128 {
        let (weights, bytes) = self.block();
        if columns.is_multiple_of(weights) {
            return u128::from(rows).saturating_mul(u128::from(columns / weights)).saturating_mul(u128::from(bytes));
        }
        match self {
            Type::Iq4Xs | Type::Iq3S | Type::Iq3Xxs | Type::Iq2S | Type::Iq2Xs | Type::Iq2Xxs | Type::Iq1M | Type::Iq1S => {
                Type::Iq4Nl.bytes(rows, columns)
            }
            Type::Q2K | Type::Q3K | Type::Tq1 | Type::Tq2 => Type::Q4_0.bytes(rows, columns),
            Type::Q4K => Type::Q5_0.bytes(rows, columns),
            Type::Q5K => Type::Q5_1.bytes(rows, columns),
            Type::Q6K => Type::Q8_0.bytes(rows, columns),
            _ => Type::F16.bytes(rows, columns),
        }
    }
}

/// What a file is quantised to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Everything in one type.
    Plain(Type),
    /// Mostly 2 bits.
    Q2K,
    /// 3 bits, few exceptions.
    Q3KS,
    /// Mostly 3 bits.
    Q3KM,
    /// 3 bits, 5 where it matters.
    Q3KL,
    /// 5 bits, no exceptions but the head.
    Q5KS,
    /// 4 bits from a table; 5 for values where heads share them.
    Iq4Xs,
    /// 4 bits, few exceptions.
    Q4KS,
    /// 4 bits, 6 where it matters.
    Q4KM,
    /// 5 bits, 6 where it matters.
    Q5KM,
}

/// Names of mixes, as files carry them.
const NAMES: &[(&str, Mix)] = &[
    ("F32", Mix::Plain(Type::F32)),
    ("F16", Mix::Plain(Type::F16)),
    ("Q4_0", Mix::Plain(Type::Q4_0)),
    ("Q5_0", Mix::Plain(Type::Q5_0)),
    ("Q8_0", Mix::Plain(Type::Q8_0)),
    ("Q6_K", Mix::Plain(Type::Q6K)),
    ("Q2_K", Mix::Q2K),
    ("Q4_1", Mix::Plain(Type::Q4_1)),
    ("Q5_1", Mix::Plain(Type::Q5_1)),
    ("IQ4_NL", Mix::Plain(Type::Iq4Nl)),
    ("IQ4_XS", Mix::Iq4Xs),
    ("MXFP4", Mix::Plain(Type::Mxfp4)),
    ("TQ1_0", Mix::Plain(Type::Tq1)),
    ("TQ2_0", Mix::Plain(Type::Tq2)),
    ("Q3_K_S", Mix::Q3KS),
    ("Q3_K_L", Mix::Q3KL),
    ("Q5_K_S", Mix::Q5KS),
    ("Q3_K_M", Mix::Q3KM),
    ("Q4_K_S", Mix::Q4KS),
    ("Q4_K_M", Mix::Q4KM),
    ("Q5_K_M", Mix::Q5KM),
];
/// Other names of the same.
const ALIASES: &[(&str, &str)] = &[("BF16", "F16"), ("MXFP4_MOE", "MXFP4"), ("Q3_K", "Q3_K_M"), ("Q4_K", "Q4_K_M"), ("Q5_K", "Q5_K_M")];

impl Mix {
    /// Reads a name as files carry it: `Q4_K_M`.
    pub fn parse(name: &str) -> Option<Self> {
        let upper = name.to_ascii_uppercase();
        let full = ALIASES.iter().find(|(alias, _)| *alias == upper).map_or(upper.as_str(), |(_, full)| full);
        NAMES.iter().find(|(name, _)| *name == full).map(|(_, mix)| *mix)
    }

    /// The name that files carry.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, mix)| *mix == self).map_or("of an unusual type", |(name, _)| name)
    }

    /// The type of a matrix in a layer.
    fn of(self, tensor: &Tensor, index: u64, layers: u64) -> Type {
        if let Mix::Plain(one) = self {
            return match (one, tensor.role) {
                // The head keeps 6 bits beside 4 and 5.
                (Type::Q8_0 | Type::F16 | Type::F32 | Type::Q6K, _) => one,
                (Type::Mxfp4, role) if role != Role::Expert => Type::Q8_0,
                (_, Role::Head) => Type::Q6K,
                _ => one,
            };
        }
        // More bits for the first and last eighth of the layers and every third between.
        let eighth = layers / 8;
        let more = index < eighth || index >= layers.saturating_sub(eighth) || (index.saturating_sub(eighth)) % 3 == 2;
        let module = tensor.module();
        let value = module == "v_proj" || module == "value";
        let down = matches!(module, "down_proj" | "w2" | "fc2" | "c_proj" | "dense_4h_to_h")
            && matches!(tensor.role, Role::Mlp | Role::Expert | Role::SharedExpert);
        let output = module == "o_proj";
        match self {
            _ if tensor.role == Role::Head => Type::Q6K,
            Mix::Q2K if value => Type::Q4K,
            Mix::Q2K if down || output => Type::Q3K,
            Mix::Q2K => Type::Q2K,
            Mix::Q3KS => Type::Q3K,
            Mix::Q3KL if value || down || output => Type::Q5K,
            Mix::Q3KL => Type::Q3K,
            Mix::Q5KS => Type::Q5K,
            Mix::Iq4Xs if value => Type::Q5K,
            Mix::Iq4Xs if down && index < eighth => Type::Q5K,
            Mix::Iq4Xs => Type::Iq4Xs,
            Mix::Q3KM if value => Type::Q5K,
            Mix::Q3KM if down && index < layers / 16 => Type::Q5K,
            Mix::Q3KM if output || (down && more) => Type::Q4K,
            Mix::Q3KM => Type::Q3K,
            Mix::Q4KS if value && index < 4 => Type::Q5K,
            Mix::Q4KS if down && index < eighth => Type::Q5K,
            Mix::Q4KS => Type::Q4K,
            Mix::Q4KM if (value || down) && more => Type::Q6K,
            Mix::Q4KM => Type::Q4K,
            Mix::Q5KM if (value || down) && more => Type::Q6K,
            Mix::Q5KM => Type::Q5K,
            Mix::Plain(one) => one,
        }
    }
}

/// Bytes of all tensors in a mix.
pub fn stored_bytes(inventory: &Inventory, mix: Mix) -> u128 {
    let layers =
        inventory.groups.iter().filter(|group| group.layer).flat_map(|group| &group.indices).max().map_or(0, |last| last.saturating_add(1));
    let tied = inventory.of_role(Role::Head) == 0;
    let one = |group: &Group, tensor: &Tensor, index: u64| -> u128 {
        let kind = match tensor.shape.as_slice() {
            // The embedding of a tied model is its head too.
            [_, _] if tensor.role == Role::Embedding && tied => {
                if matches!(mix, Mix::Plain(_)) {
                    mix.of(tensor, 0, layers)
                } else {
                    Type::Q6K
                }
            }
            [_, _] if tensor.linear || tensor.role == Role::Embedding => mix.of(tensor, if group.layer { index } else { 0 }, layers),
            _ => Type::F32,
        };
        match tensor.shape.as_slice() {
            [rows, columns] => kind.bytes(*rows, *columns),
            _ => tensor.elements().saturating_mul(4),
        }
        .saturating_mul(u128::from(tensor.copies))
    };
    let all = inventory
        .groups
        .iter()
        .flat_map(|group| group.tensors.iter().flat_map(move |tensor| group.indices.iter().map(move |index| one(group, tensor, *index))));
    all.fold(0, u128::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    #[test]
    fn sizes_of_an_8b_model_are_those_of_published_files() {
        let text = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
            "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "torch_dtype": "bfloat16"}"#;
        let model = model::read(text).unwrap();
        let gib = |mix| stored_bytes(&model.inventory, mix) as f64 / 1e9;
        // Published files of this shape: 4.92 GB in Q4_K_M, 5.73 in Q5_K_M, 6.60 in Q6_K, 8.54 in Q8_0.
        assert!((gib(Mix::Q4KM) - 4.92).abs() < 0.03, "{}", gib(Mix::Q4KM));
        assert!((gib(Mix::Q5KM) - 5.73).abs() < 0.03, "{}", gib(Mix::Q5KM));
        assert!((gib(Mix::Plain(Type::Q6K)) - 6.60).abs() < 0.03);
        assert!((gib(Mix::Plain(Type::Q8_0)) - 8.54).abs() < 0.03);
        // And 3.66 GB in Q3_K_S, 4.32 in Q3_K_L, 5.60 in Q5_K_S, 4.45 in IQ4_XS, 4.66 in Q4_0.
        for (name, published) in [("Q3_K_S", 3.66), ("Q3_K_L", 4.32), ("Q5_K_S", 5.60), ("IQ4_XS", 4.45), ("Q4_0", 4.66)] {
            let size = gib(Mix::parse(name).unwrap());
            assert!((size - published).abs() < 0.04, "{name}: {size}");
        }
    }
}
