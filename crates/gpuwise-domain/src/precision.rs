//! Number formats: how weights and caches are stored, and in what matmuls compute.

use crate::model::Role;
use alloc::{string::String, vec::Vec};

/// How a matrix is stored: blocks of elements with their scales, and scales per row.
///
/// Sizes follow from the definition of the format; `row_bytes` are scales per output feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightFormat {
    pub name: &'static str,
    /// Elements of a block.
    pub block: u32,
    /// Bytes of a block, its scales and zero points included.
    pub block_bytes: u32,
    /// Further bytes per row.
    pub row_bytes: u32,
}

macro_rules! formats {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $block:literal, $bytes:literal, $row:literal;)*) => {
        impl WeightFormat {
            $($(#[$doc])*
            pub const $constant: Self = Self { name: $name, block: $block, block_bytes: $bytes, row_bytes: $row };)*

            /// Every format known by name.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
    };
}

formats! {
    F32 = "fp32", 1, 4, 0;
    F64 = "fp64", 1, 8, 0;
    /// bfloat16.
    BF16 = "bf16", 1, 2, 0;
    F16 = "fp16", 1, 2, 0;
    /// FP8 with one scale per tensor, or per row (4 bytes).
    FP8 = "fp8", 1, 1, 4;
    /// FP8 with one 32-bit scale per 128 × 128 block.
    FP8_BLOCK = "fp8-block", 16384, 16388, 0;
    /// INT8 with one scale per row.
    INT8 = "int8", 1, 1, 4;
    /// 4-bit integers in groups of 128 with a 16-bit scale (symmetric).
    INT4 = "int4", 128, 66, 0;
    /// 4-bit integers in groups of 32 with a 16-bit scale (symmetric).
    INT4_G32 = "int4-g32", 32, 18, 0;
    /// 4-bit integers in groups of 128 with a 16-bit scale and a 4-bit zero point (AWQ, GPTQ).
    INT4_ZERO = "int4-zp", 256, 133, 0;
    /// 8-bit integers, weights only, in groups of 128 with a 16-bit scale.
    INT8_WEIGHT = "int8-w8a16", 128, 130, 0;
    /// NVIDIA FP4: groups of 16 with an FP8 scale.
    NVFP4 = "nvfp4", 16, 9, 0;
    /// OCP MXFP4: groups of 32 with an 8-bit exponent.
    MXFP4 = "mxfp4", 32, 17, 0;
    /// OCP MXFP8: groups of 32 with an 8-bit exponent.
    MXFP8 = "mxfp8", 32, 33, 0;
    /// Two of each four 16-bit elements, and a bit for each element (`sparse-24-bitmask`).
    SPARSE_2_4 = "2:4", 8, 9, 0;
    /// NF4 with double quantization: 4.127 bits.
    NF4 = "nf4", 16384, 8452, 0;
    Q4_0 = "q4_0", 32, 18, 0;
    Q4_1 = "q4_1", 32, 20, 0;
    Q5_0 = "q5_0", 32, 22, 0;
    Q5_1 = "q5_1", 32, 24, 0;
    Q8_0 = "q8_0", 32, 34, 0;
    Q8_1 = "q8_1", 32, 36, 0;
    Q2_K = "q2_k", 256, 84, 0;
    Q3_K = "q3_k", 256, 110, 0;
    Q4_K = "q4_k", 256, 144, 0;
    Q5_K = "q5_k", 256, 176, 0;
    Q6_K = "q6_k", 256, 210, 0;
    Q8_K = "q8_k", 256, 292, 0;
    IQ2_XXS = "iq2_xxs", 256, 66, 0;
    IQ2_XS = "iq2_xs", 256, 74, 0;
    IQ2_S = "iq2_s", 256, 82, 0;
    IQ3_XXS = "iq3_xxs", 256, 98, 0;
    IQ3_S = "iq3_s", 256, 110, 0;
    IQ1_S = "iq1_s", 256, 50, 0;
    IQ1_M = "iq1_m", 256, 56, 0;
    IQ4_NL = "iq4_nl", 32, 18, 0;
    IQ4_XS = "iq4_xs", 256, 136, 0;
    TQ1_0 = "tq1_0", 256, 54, 0;
    TQ2_0 = "tq2_0", 256, 66, 0;
    /// 8-bit integers without scales (buffers, indices).
    I8 = "i8", 1, 1, 0;
    I16 = "i16", 1, 2, 0;
    I32 = "i32", 1, 4, 0;
    I64 = "i64", 1, 8, 0;
}

impl WeightFormat {
    /// Bytes of `copies` matrices of `rows` × `columns`.
    pub fn bytes(self, rows: u64, columns: u64, copies: u64) -> u64 {
        let blocks = rows.saturating_mul(columns).div_ceil(u64::from(self.block));
        blocks
            .saturating_mul(u64::from(self.block_bytes))
            .saturating_add(rows.saturating_mul(u64::from(self.row_bytes)))
            .saturating_mul(copies)
    }

    /// Bytes an element takes, scales per row left out.
    pub fn bytes_per_element(self) -> f64 {
        f64::from(self.block_bytes) / f64::from(self.block)
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name == name)
    }
}

gpuwise_units::named! {
    /// In what a matmul multiplies.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Compute: name {
        /// Single precision (or TF32 where the hardware has it).
        Full = "fp32",
        /// BF16 or FP16.
        Half = "bf16",
        Fp8 = "fp8",
        Int8 = "int8",
        Fp4 = "fp4",
    }
}

/// A set of tensor roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u64);

impl Roles {
    pub const NONE: Self = Self(0);

    pub fn of(roles: &[Role]) -> Self {
        roles.iter().fold(Self::NONE, |set, role| set.with(*role))
    }

    #[must_use]
    pub const fn with(self, role: Role) -> Self {
        Self(self.0 | 1 << role as u32)
    }

    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn contains(self, role: Role) -> bool {
        self.0 >> (role as u32) & 1 == 1
    }

    /// Whether no role is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Matrices of every decoder layer that quantizers touch by default: projections and experts,
    /// neither router, norms, embedding, head nor towers.
    pub fn linear() -> Self {
        Self::attention()
            .union(Self::dense())
            .union(Self::experts())
    }

    /// Projections of attention and recurrent mixers.
    pub fn attention() -> Self {
        Self::of(&[
            Role::Query,
            Role::Key,
            Role::Value,
            Role::AttentionOutput,
            Role::LatentDown,
            Role::LatentQuery,
            Role::LatentKeyValue,
            Role::Indexer,
            Role::StateInput,
            Role::StateOutput,
            Role::CrossAttention,
        ])
    }

    /// Dense and shared feed-forwards.
    pub fn dense() -> Self {
        Self::of(&[Role::MlpUp, Role::MlpDown, Role::SharedUp, Role::SharedDown])
    }

    pub fn experts() -> Self {
        Self::of(&[Role::ExpertUp, Role::ExpertDown])
    }
}

/// How some roles are stored and computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assignment {
    pub roles: Roles,
    /// How their matrices are stored.
    pub format: WeightFormat,
    /// In what they multiply where the hardware can; [`Compute::Half`] for weight-only formats.
    pub compute: Compute,
}

/// A quantized checkpoint: what is stored how; roles not named keep the native format.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantization {
    /// The method as configurations name it: `fp8`, `awq`, `gptq`, `compressed-tensors`, `mxfp4` …
    pub method: String,
    pub assignments: Vec<Assignment>,
    /// The format of the key-value cache that the checkpoint asks for, if it does.
    pub cache: Option<CacheFormat>,
}

impl Quantization {
    /// One format for every projection and expert.
    pub fn uniform(method: &str, format: WeightFormat, compute: Compute) -> Self {
        Self {
            method: method.into(),
            assignments: alloc::vec![Assignment {
                roles: Roles::linear(),
                format,
                compute,
            }],
            cache: None,
        }
    }

    /// How a role is stored, if it is quantized.
    pub fn assignment(&self, role: Role) -> Option<&Assignment> {
        self.assignments.iter().find(|a| a.roles.contains(role))
    }
}

/// How a key-value cache is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheFormat {
    /// Its name in launch commands.
    pub name: &'static str,
    /// Elements of a block.
    pub block: u32,
    pub block_bytes: u32,
}

impl CacheFormat {
    /// BF16 or FP16.
    pub const HALF: Self = Self {
        name: "bf16",
        block: 1,
        block_bytes: 2,
    };
    /// FP8, scales negligible.
    pub const FP8: Self = Self {
        name: "fp8",
        block: 1,
        block_bytes: 1,
    };
    pub const INT8: Self = Self {
        name: "int8",
        block: 1,
        block_bytes: 1,
    };
    /// FP4 with an FP8 scale for 16.
    pub const NVFP4: Self = Self {
        name: "nvfp4",
        block: 16,
        block_bytes: 9,
    };
    pub const FULL: Self = Self {
        name: "fp32",
        block: 1,
        block_bytes: 4,
    };
    /// llama.cpp's q8_0.
    pub const Q8_0: Self = Self {
        name: "q8_0",
        block: 32,
        block_bytes: 34,
    };
    /// llama.cpp's q4_0.
    pub const Q4_0: Self = Self {
        name: "q4_0",
        block: 32,
        block_bytes: 18,
    };
    /// Every format known by name.
    pub const ALL: &'static [Self] = &[
        Self::HALF,
        Self::FP8,
        Self::INT8,
        Self::NVFP4,
        Self::FULL,
        Self::Q8_0,
        Self::Q4_0,
    ];

    pub fn bytes_per_element(self) -> f64 {
        f64::from(self.block_bytes) / f64::from(self.block)
    }

    /// The format of this name; `fp16`, `auto`, `fp8_e4m3` and `fp8_e5m2` are understood.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = match name {
            "fp16" | "f16" | "float16" | "bfloat16" | "auto" => "bf16",
            "fp8_e4m3" | "fp8_e5m2" | "fp8_ds_mla" => "fp8",
            "f32" | "float32" => "fp32",
            other => other,
        };
        Self::ALL.iter().copied().find(|format| format.name == name)
    }
}
