//! TensorFlow's `OOM when allocating tensor with shape[...]`: the bytes are not printed, but follow from shape and type.

use crate::log::finding::Number;
use crate::log::units::{self, Unit, Value};
use crate::log::vocabulary::Cause;

/// A tensor that could not be created.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorShape {
    /// Elements along each axis.
    pub shape: Vec<u64>,
    /// Element type as TensorFlow names it.
    pub dtype: String,
    /// Bytes of one element.
    pub element_bytes: u64,
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Was it asked of host memory (`cpu`, `mklcpu`, `gpu_host_bfc`)?
    pub on_host: bool,
    /// Host memory or device memory.
    pub cause: Cause,
}

impl TensorShape {
    /// The size as a number of the finding.
    pub fn as_number(&self) -> Number {
        Number { name: "tried".to_owned(), value: Value::Bytes(self.bytes), unit: Unit::Bytes, text: units::binary(self.bytes), span: None }
    }
}

/// Bytes of an element (tensorflow/core/framework/types.cc).
fn element_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "float" | "float32" | "int32" | "uint32" | "qint32" => 4,
        "half" | "float16" | "bfloat16" | "int16" | "uint16" | "qint16" | "quint16" => 2,
        "double" | "float64" | "int64" | "uint64" | "complex64" => 8,
        "complex128" => 16,
        "int8" | "uint8" | "bool" | "qint8" | "quint8" => 1,
        _ => return None,
    })
}

/// Reads the captures `shape`, `dtype` and `allocator`.
pub fn judge(texts: &[(String, String)]) -> Option<TensorShape> {
    let get = |name: &str| texts.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str());
    let shape: Vec<u64> = get("shape")?.split([',', ' ']).filter(|d| !d.is_empty()).map(|d| d.parse().ok()).collect::<Option<_>>()?;
    let dtype = get("dtype")?.to_owned();
    let element_bytes = element_bytes(&dtype)?;
    let bytes = shape.iter().try_fold(element_bytes, |bytes, &axis| bytes.checked_mul(axis))?;
    let on_host = get("allocator").is_some_and(|name| name.contains("cpu") || name.contains("host"));
    let cause = if on_host { Cause::HostRam } else { Cause::DeviceFull };
    Some(TensorShape { shape, dtype, element_bytes, bytes, on_host, cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_bytes() {
        let texts =
            [("shape", "64, 3, 224, 224"), ("dtype", "float"), ("allocator", "GPU_0_bfc")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let tensor = judge(&texts).unwrap();
        assert_eq!((tensor.bytes, tensor.cause), (38_535_168, Cause::DeviceFull));
        assert_eq!(
            judge(&[("shape".to_owned(), "9999999999,9999999999,9999999999".to_owned()), ("dtype".to_owned(), "float".to_owned())]),
            None
        );
    }
}
