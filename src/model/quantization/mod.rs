//! Bytes of stored weights: dtypes, and the formats in which weights are stored quantised.
//!
//! [`read`] finds out from `quantization_config` which linear weights have which [`Scheme`];
//! [`stored_bytes`] sums over an inventory. A scheme's bytes count packed weights, scales, zero
//! points and index tables of one matrix `[out, in]`; everything else keeps the dtype of the file.
//! Headers of the file and the small JSON states of bitsandbytes (below 100 bytes a matrix) are left out.

mod names;
mod read;

pub use read::read;

use self::names::Names;
use super::config::Section;
use super::inventory::{Group, Inventory, Role, Tensor};

/// Dtype of stored weights or of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// 64-bit float.
    Float64,
    /// 32-bit float.
    Float32,
    /// 16-bit float.
    Float16,
    /// Brain float.
    Bfloat16,
    /// 8-bit float.
    Float8,
    /// 8-bit integer.
    Int8,
}

impl Dtype {
    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            Dtype::Float64 => 8,
            Dtype::Float32 => 4,
            Dtype::Float16 | Dtype::Bfloat16 => 2,
            Dtype::Float8 | Dtype::Int8 => 1,
        }
    }

    /// Reads a name as files and flags write it.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("torch.").unwrap_or(name) {
            "float64" | "double" | "fp64" => Dtype::Float64,
            "float32" | "float" | "fp32" => Dtype::Float32,
            "float16" | "half" | "fp16" => Dtype::Float16,
            "bfloat16" | "bf16" => Dtype::Bfloat16,
            "float8" | "fp8" | "float8_e4m3fn" | "float8_e5m2" | "fp8_e4m3" | "fp8_e5m2" => Dtype::Float8,
            "int8" => Dtype::Int8,
            _ => return None,
        })
    }

    /// The usual name.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Float64 => "float64",
            Dtype::Float32 => "float32",
            Dtype::Float16 => "float16",
            Dtype::Bfloat16 => "bfloat16",
            Dtype::Float8 => "float8",
            Dtype::Int8 => "int8",
        }
    }
}

/// How one matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// GPTQ: packed weights, 16-bit scales, packed zeros, group indices. Group 0: one group a row.
    Gptq {
        /// Bits of a weight.
        bits: u64,
        /// Weights of a group.
        group: u64,
    },
    /// AWQ: GPTQ without group indices.
    Awq {
        /// Bits of a weight.
        bits: u64,
        /// Weights of a group.
        group: u64,
    },
    /// bitsandbytes, 4 bits, blocks of 64.
    Bnb4 {
        /// Whether scales are quantised too.
        double: bool,
    },
    /// bitsandbytes, 8 bits, a 32-bit scale a row.
    Bnb8,
    /// 8-bit floats with a 32-bit scale a block.
    Fp8Block {
        /// Rows of a block.
        rows: u64,
        /// Columns of a block.
        columns: u64,
    },
    /// 8 bits with a 32-bit scale a matrix, and one for activations when these are static.
    Fp8Tensor {
        /// Whether the scale of activations is stored.
        activations: bool,
    },
    /// 8 bits with a 16-bit scale a row.
    Channel8,
    /// FBGEMM FP8: a scale a row and an upper bound.
    Fbgemm,
    /// Integers packed into 32-bit words, 16-bit scales a group, the shape.
    Packed {
        /// Bits of a weight.
        bits: u64,
        /// Weights of a group; 0: one group a row.
        group: u64,
        /// Whether zero points are stored beside the scales.
        zeros: bool,
        /// Whether the order of the columns is stored.
        order: bool,
    },
    /// Integers of MLX: packed weights, a 16-bit scale and a 16-bit bias a group.
    Mlx {
        /// Bits of a weight.
        bits: u64,
        /// Weights of a group.
        group: u64,
    },
    /// MXFP4: 4 bits, an 8-bit scale for 32 weights.
    Mxfp4,
    /// NVFP4: 4 bits, an 8-bit scale for 16 weights, two 32-bit scales.
    Nvfp4,
    /// Weights of some bits with 16-bit scale and zero a group (HQQ, quanto, torchao).
    ScaleAndZero {
        /// Bits of a weight.
        bits: u64,
        /// Weights of a group.
        group: u64,
    },
    /// AQLM: codes, codebooks and 16-bit scales.
    Aqlm {
        /// Codebooks.
        books: u64,
        /// Bits of a code.
        bits: u64,
        /// Inputs of a group.
        inputs: u64,
        /// Outputs of a group.
        outputs: u64,
    },
    /// BitNet: 2 bits and one scale.
    Bitnet,
}

impl Scheme {
    /// Bytes of a matrix of `out` rows and `input` columns.
    pub fn bytes(self, out: u64, input: u64) -> u128 {
        let (o, i) = (u128::from(out), u128::from(input));
        let all = o.saturating_mul(i);
        let groups = |group: u64| {
            if group == 0 { 1 } else { i.div_ceil(u128::from(group)) }
        };
        let bits = |bits: u64| all.saturating_mul(u128::from(bits)).div_ceil(8);
        match self {
            Scheme::Gptq { bits: b, group } => bits(b) + o * groups(group) * 2 + (o * groups(group) * u128::from(b)).div_ceil(8) + i * 4,
            Scheme::Awq { bits: b, group } => bits(b) + o * groups(group) * 2 + (o * groups(group) * u128::from(b)).div_ceil(8),
            Scheme::Bnb4 { double: false } => all.div_ceil(2) + 64 + all.div_ceil(64) * 4,
            Scheme::Bnb4 { double: true } => all.div_ceil(2) + 64 + all.div_ceil(64) + all.div_ceil(16384) * 4 + 1024,
            Scheme::Bnb8 => all + o * 4 + 1,
            Scheme::Fp8Block { rows, columns } => all + o.div_ceil(u128::from(rows.max(1))) * i.div_ceil(u128::from(columns.max(1))) * 4,
            Scheme::Fp8Tensor { activations } => all + if activations { 8 } else { 4 },
            Scheme::Channel8 => all + o * 2,
            Scheme::Fbgemm => all + o * 2 + 4,
            Scheme::Packed { bits: b, group, zeros, order } => {
                let packed = (i * u128::from(b)).div_ceil(32) * 4 * o + o * groups(group) * 2 + 16;
                let zeros = if zeros { (o * u128::from(b)).div_ceil(32) * 4 * groups(group) } else { 0 };
                packed + zeros + if order { i * 4 } else { 0 }
            }
            Scheme::Mlx { bits: b, group } => bits(b) + o * groups(group) * 4,
            Scheme::Mxfp4 => all.div_ceil(2) + all.div_ceil(32),
            Scheme::Nvfp4 => all.div_ceil(2) + all.div_ceil(16) + 8,
            Scheme::ScaleAndZero { bits: b, group } => bits(b) + all.div_ceil(u128::from(group.max(1))) * 4,
            Scheme::Aqlm { books, bits: b, inputs, outputs } => {
                let (inputs, outputs) = (u128::from(inputs.max(1)), u128::from(outputs.max(1)));
                let codes = o.div_ceil(outputs) * i.div_ceil(inputs) * u128::from(books) * u128::from(b.div_ceil(8));
                codes + u128::from(books) * (1u128 << b.min(32)) * inputs * outputs * 2 + o.div_ceil(outputs) * 2
            }
            Scheme::Bitnet => all.div_ceil(4) + 2,
        }
    }
}

/// Where a scheme applies.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Where {
    /// Linear weights of layers, the head and listed modules left out.
    Layers,
    /// Every linear weight of text layers (GPTQ works on the blocks of a decoder).
    TextLayers,
    /// Every linear weight, the head too.
    Linear,
    /// Routed experts.
    Experts,
    /// Modules by name.
    Named(Names),
    /// Every matrix: linear weights, embeddings and routers.
    Matrices,
    /// The same, by name.
    NamedMatrices(Names),
}

/// How the weights of a file are quantised.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantization {
    /// Name of the method, as the file writes it.
    pub method: String,
    /// Short description for people: `4 bits, groups of 128`.
    pub summary: String,
    /// Whether the bytes follow exactly from the format; otherwise they are close.
    pub exact: bool,
    rules: Vec<(Where, Scheme)>,
    skip: Names,
}

impl Quantization {
    /// A scheme that a user asks for on all linear layers but the head.
    pub fn of(method: &str, scheme: Scheme) -> Self {
        Self {
            method: method.to_owned(),
            summary: String::new(),
            exact: true,
            rules: vec![(Where::Layers, scheme)],
            skip: Names::default(),
        }
    }

    /// Whether the format is known.
    pub fn is_known(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The scheme of one tensor at one index of its group.
    pub fn scheme(&self, group: &Group, tensor: &Tensor, index: u64) -> Option<Scheme> {
        matrix(tensor)?;
        let name = names::of(group, tensor, index);
        if self.skip.matches(&name) {
            return None;
        }
        let applies = |place: &Where| match place {
            Where::Matrices => true,
            Where::NamedMatrices(list) => list.matches(&name),
            _ if !tensor.linear => false,
            Where::Layers => tensor.role != Role::Head && tensor.role != Role::Embedding,
            Where::TextLayers => {
                group.layer
                    && !matches!(
                        group.part,
                        super::inventory::Part::Vision | super::inventory::Part::Audio | super::inventory::Part::Projector
                    )
            }
            Where::Linear => true,
            Where::Experts => tensor.role == Role::Expert,
            Where::Named(list) => list.matches(&name),
        };
        self.rules.iter().find(|(place, _)| applies(place)).map(|(_, scheme)| *scheme)
    }
}

/// Rows and columns of what a format may store as a matrix.
fn matrix(tensor: &Tensor) -> Option<(u64, u64)> {
    match tensor.shape.as_slice() {
        [rows, columns] if tensor.linear || matches!(tensor.role, Role::Embedding | Role::Router) => Some((*rows, *columns)),
        _ => None,
    }
}

/// The dtype that the file names: outermost, else that of the text part.
pub fn dtype(root: Section<'_>) -> Option<Dtype> {
    let text = root.section(super::architectures::vlm::TEXT);
    let named = root.str("dtype|torch_dtype").or_else(|| text.str("dtype|torch_dtype"));
    named.and_then(Dtype::parse)
}

/// Bytes of all weights as stored.
pub fn stored_bytes(inventory: &Inventory, dtype: Dtype, quantization: Option<&Quantization>) -> u128 {
    let plain = |elements: u128| elements.saturating_mul(u128::from(dtype.bytes()));
    let Some(quantization) = quantization else {
        return plain(inventory.total());
    };
    let mut sum: u128 = 0;
    for group in &inventory.groups {
        for tensor in &group.tensors {
            let copies = u128::from(tensor.copies);
            let unquantised = plain(tensor.elements()).saturating_mul(copies);
            let Some((out, input)) = matrix(tensor) else {
                sum = sum.saturating_add(unquantised.saturating_mul(u128::from(group.count())));
                continue;
            };
            for index in &group.indices {
                let bytes = match quantization.scheme(group, tensor, *index) {
                    Some(scheme) => scheme.bytes(out, input).saturating_mul(copies),
                    None => unquantised,
                };
                sum = sum.saturating_add(bytes);
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_square_matrix() {
        let n = 4096 * 4096;
        assert_eq!(Scheme::Gptq { bits: 4, group: 128 }.bytes(4096, 4096), n / 2 + 32 * 4096 * 2 + 32 * 4096 / 2 + 4096 * 4);
        assert_eq!(Scheme::Awq { bits: 4, group: 128 }.bytes(4096, 4096), n / 2 + 32 * 4096 * 2 + 32 * 4096 / 2);
        assert_eq!(Scheme::Bnb4 { double: false }.bytes(4096, 4096), n / 2 + 64 + n / 16);
        assert_eq!(Scheme::Fp8Block { rows: 128, columns: 128 }.bytes(4096, 4096), n + 32 * 32 * 4);
        assert_eq!(Scheme::Mxfp4.bytes(4096, 4096), n / 2 + n / 32);
        assert_eq!(Scheme::Mlx { bits: 4, group: 64 }.bytes(4096, 4096), n / 2 + n / 64 * 4);
        let packed = |zeros, order| Scheme::Packed { bits: 4, group: 128, zeros, order }.bytes(4096, 4096);
        assert_eq!(packed(false, false), n / 2 + 32 * 4096 * 2 + 16);
        assert_eq!(packed(true, true), n / 2 + 32 * 4096 * 2 + 16 + 32 * 4096 / 2 + 4096 * 4);
        assert_eq!(Scheme::Aqlm { books: 1, bits: 16, inputs: 8, outputs: 1 }.bytes(4096, 4096), n / 8 * 2 + 65536 * 8 * 2 + 2 * 4096);
    }
}
