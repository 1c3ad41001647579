//! Stored bytes.
use super::config::{Result, Section};
use super::inventory::Inventory;

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
        let name = name.strip_prefix("torch.").unwrap_or(name);
        Some(match name {
            "float64" | "double" | "fp64" => Dtype::Float64,
            "float32" | "float" | "fp32" => Dtype::Float32,
            "float16" | "half" | "fp16" => Dtype::Float16,
            "bfloat16" | "bf16" => Dtype::Bfloat16,
            "float8" | "fp8" | "float8_e4m3fn" | "float8_e5m2" | "fp8_e4m3" | "fp8_e5m2" => Dtype::Float8,
            "int8" => Dtype::Int8,
            _ => return None,
        })
    }
}

/// Quantisation.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantization {}

/// The dtype that the file names: outermost, else that of the text part.
pub fn dtype(root: Section<'_>) -> Option<Dtype> {
    let text = root.section("text_config|llm_config|language_config|thinker_config");
    let named = root.str("dtype|torch_dtype").or_else(|| text.str("dtype|torch_dtype"));
    named.and_then(Dtype::parse)
}

/// Reads it.
pub fn read(_root: Section<'_>) -> Result<Option<Quantization>> {
    Ok(None)
}

/// Stored bytes.
pub fn stored_bytes(inventory: &Inventory, dtype: Dtype, _quantization: Option<&Quantization>) -> u128 {
    inventory.total().saturating_mul(u128::from(dtype.bytes()))
}
