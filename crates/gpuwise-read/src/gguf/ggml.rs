//! The number formats of ggml, by the numbers in tensor descriptions.

use gpuwise_domain::precision::WeightFormat;

/// One bit an element with a 16-bit scale for 128.
const Q1_0: WeightFormat = WeightFormat {
    name: "q1_0",
    block: 128,
    block_bytes: 18,
    row_bytes: 0,
};
/// ggml keeps four of NVFP4's blocks together: 64 elements and 4 scales.
const NVFP4: WeightFormat = WeightFormat {
    name: "nvfp4",
    block: 64,
    block_bytes: 36,
    row_bytes: 0,
};

/// The format of a type number (gguf 0.19), or why there is none.
pub(super) fn format(number: u32) -> Result<WeightFormat, String> {
    Ok(match number {
        0 => WeightFormat::F32,
        1 => WeightFormat::F16,
        2 => WeightFormat::Q4_0,
        3 => WeightFormat::Q4_1,
        6 => WeightFormat::Q5_0,
        7 => WeightFormat::Q5_1,
        8 => WeightFormat::Q8_0,
        9 => WeightFormat::Q8_1,
        10 => WeightFormat::Q2_K,
        11 => WeightFormat::Q3_K,
        12 => WeightFormat::Q4_K,
        13 => WeightFormat::Q5_K,
        14 => WeightFormat::Q6_K,
        15 => WeightFormat::Q8_K,
        16 => WeightFormat::IQ2_XXS,
        17 => WeightFormat::IQ2_XS,
        18 => WeightFormat::IQ3_XXS,
        19 => WeightFormat::IQ1_S,
        20 => WeightFormat::IQ4_NL,
        21 => WeightFormat::IQ3_S,
        22 => WeightFormat::IQ2_S,
        23 => WeightFormat::IQ4_XS,
        24 => WeightFormat::I8,
        25 => WeightFormat::I16,
        26 => WeightFormat::I32,
        27 => WeightFormat::I64,
        28 => WeightFormat::F64,
        29 => WeightFormat::IQ1_M,
        30 => WeightFormat::BF16,
        34 => WeightFormat::TQ1_0,
        35 => WeightFormat::TQ2_0,
        39 => WeightFormat::MXFP4,
        40 => NVFP4,
        41 => Q1_0,
        4 | 5 | 31..=33 | 36..=38 => {
            return Err(format!(
                "ggml type {number} was removed from the format: quantize the model again"
            ));
        }
        other => {
            return Err(format!(
                "ggml type {other} is not known here; 0 to 41 without the removed ones are (a fork of llama.cpp may have more)"
            ));
        }
    })
}
