//! The number formats of the safetensors format, by the names in its headers.

use gpuwise_domain::precision::WeightFormat;

/// A format without scales: `block` elements in `block_bytes` bytes.
const fn plain(name: &'static str, block: u32, block_bytes: u32) -> WeightFormat {
    WeightFormat {
        name,
        block,
        block_bytes,
        row_bytes: 0,
    }
}

/// One byte each; scales are tensors of their own.
const FP8: WeightFormat = plain("fp8", 1, 1);
/// A power of two: the scale of an MX block.
const E8M0: WeightFormat = plain("e8m0", 1, 1);
/// Two elements a byte.
const FP4: WeightFormat = plain("fp4", 2, 1);
/// Four elements in three bytes.
const FP6: WeightFormat = plain("fp6", 4, 3);
const U8: WeightFormat = plain("u8", 1, 1);
const U16: WeightFormat = plain("u16", 1, 2);
const U32: WeightFormat = plain("u32", 1, 4);
const U64: WeightFormat = plain("u64", 1, 8);
const BOOL: WeightFormat = plain("bool", 1, 1);
const COMPLEX: WeightFormat = plain("complex64", 1, 8);

/// The format of a dtype; `None` where the format's definition (safetensors 0.8) has none of that name.
pub(super) fn format(dtype: &str) -> Option<WeightFormat> {
    Some(match dtype {
        "F64" => WeightFormat::F64,
        "F32" => WeightFormat::F32,
        "F16" => WeightFormat::F16,
        "BF16" => WeightFormat::BF16,
        "F8_E4M3" | "F8_E5M2" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => FP8,
        "F8_E8M0" => E8M0,
        "F6_E2M3" | "F6_E3M2" => FP6,
        "F4" => FP4,
        "I64" => WeightFormat::I64,
        "I32" => WeightFormat::I32,
        "I16" => WeightFormat::I16,
        "I8" => WeightFormat::I8,
        "U64" => U64,
        "U32" => U32,
        "U16" => U16,
        "U8" => U8,
        "BOOL" => BOOL,
        "C64" => COMPLEX,
        _ => return None,
    })
}
