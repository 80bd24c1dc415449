//! The fused expert layer of one GPU: selection from given logits, both grouped GEMMs with their
//! activation, the way in and the weighted way back.

mod load;

pub use load::{ExpertLoad, Routed};

use super::{Case, Ideal, Operator, Point, Weights, Work};
use crate::{OperatorError, Row, Silicon, grid::Tensors};
use alloc::{format, string::ToString as _};
use gpuwise_domain::precision::Compute;

/// Rows per local expert, experts that are read, size of a matrix; then tokens, skew and ranks; then
/// tokens, width and hidden size. All but the skew as powers of two.
const GRIDS: &[Tensors] = &[
    &[&[
        (
            ROWS,
            &[
                -5.0, -2.0, 0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 13.0,
            ],
        ),
        (ACTIVE, &[0.0, 3.0, 5.0, 7.0, 9.0]),
        (MATRIX, &[15.0, 18.0, 20.0, 21.0, 22.0, 24.0, 26.0]),
    ]],
    &[&[
        (TOKENS, &[0.0, 4.0, 7.0, 9.0, 11.0, 13.0, 16.0]),
        (SKEW, &[0.0, 1.01, 1.2]),
        (RANKS, &[0.0, 1.5, 4.0, 8.0]),
    ]],
    &[&[
        (TOKENS, &[0.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0]),
        (WIDTH, &[5.0, 8.0, 9.0, 10.0, 11.0, 13.0]),
        (HIDDEN, &[10.5, 11.5, 13.0]),
    ]],
];

const ROWS: usize = 0;
const ACTIVE: usize = 1;
const MATRIX: usize = 2;
const TOKENS: usize = 3;
const SKEW: usize = 4;
const RANKS: usize = 5;
const WIDTH: usize = 6;
const HIDDEN: usize = 7;

/// The fused expert layer of one GPU: selection to weighted sum (table `moe`).
pub const MOE: Operator = Operator {
    name: "moe",
    shape: &[
        "hidden",
        "inter",
        "topk",
        "experts",
        "moe_tp",
        "moe_ep",
        "expert_load",
        "tokens",
    ],
    grids: GRIDS,
    hosts: 1.0,
    smooth: 0.1,
    read,
    like,
};

gpuwise_units::named! {
    /// Number formats of expert layers, as engines run them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum MoeFormat: label {
        /// BF16 weights and activations.
        Bf16 = "bfloat16",
        /// FP8, one scale per tensor.
        Fp8 = "fp8",
        /// FP8 in blocks of 128.
        Fp8Block = "fp8_block",
        /// NVIDIA FP4: groups of 16 with an FP8 scale, activations quantized too.
        Nvfp4 = "nvfp4",
        /// INT4 weights alone.
        Int4Weights = "int4_wo",
        /// INT4 weights, FP8 activations.
        Int4Fp8 = "w4afp8",
        /// MXFP4 weights, BF16 activations.
        Mxfp4Weights = "w4a16_mxfp4",
        /// MXFP4 weights, MXFP8 activations.
        Mxfp4Mxfp8 = "w4a8_mxfp4_mxfp8",
    }
}

impl MoeFormat {
    pub fn of(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.label() == label)
    }

    /// Bytes of a weight, with its scales.
    pub const fn weight_bytes(self) -> f64 {
        match self {
            Self::Bf16 => 2.0,
            Self::Fp8 | Self::Fp8Block => 1.0,
            Self::Nvfp4 => 9.0 / 16.0,
            Self::Int4Weights | Self::Int4Fp8 => 0.5 + 2.0 / 128.0,
            Self::Mxfp4Weights | Self::Mxfp4Mxfp8 => 17.0 / 32.0,
        }
    }

    /// In what it multiplies, where the silicon can.
    pub const fn compute(self) -> Compute {
        match self {
            Self::Bf16 | Self::Int4Weights | Self::Mxfp4Weights => Compute::Half,
            Self::Fp8 | Self::Fp8Block | Self::Int4Fp8 | Self::Mxfp4Mxfp8 => Compute::Fp8,
            Self::Nvfp4 => Compute::Fp4,
        }
    }
}

/// An expert layer, and how it is split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experts {
    /// Width of the model.
    pub hidden: f64,
    /// Width of an expert, before it is split.
    pub inter: f64,
    /// Experts of a token.
    pub topk: f64,
    /// Routed experts of the layer, over all ranks.
    pub experts: f64,
    /// Ranks that share each expert.
    pub tensor_parallel: f64,
    /// Ranks between which experts are divided.
    pub expert_parallel: f64,
    /// Whether there is a gate: three matrices an expert, else two.
    pub gated: bool,
}

impl Experts {
    /// The shape whatever the split, by which a table knows models.
    pub fn model(&self) -> alloc::string::String {
        let Self {
            hidden,
            inter,
            topk,
            experts,
            ..
        } = self;
        format!("{hidden}x{inter}x{topk}x{experts}")
    }

    pub fn lane_format(&self, format: MoeFormat) -> alloc::string::String {
        let gate = if self.gated { "" } else { "/ungated" };
        format!("{}{gate}", format.label())
    }
}

/// The shape of DeepSeek-V3, whose routing picks groups of experts first.
const GROUPED: &str = "7168x2048x8x256";
/// Selection, permutation, two GEMMs, sum: the floor of the rows of one token is 10 to 20 µs.
const LAUNCHES: f64 = 10e-6;

/// The work of a rank for tokens presented to the whole group.
pub fn work(
    silicon: &Silicon,
    format: MoeFormat,
    weights: Weights,
    layer: &Experts,
    load: ExpertLoad,
    tokens: f64,
) -> Work {
    let routed = Routed::of(layer, load, tokens);
    let width = (layer.inter / layer.tensor_parallel).max(1.0);
    let matrices = if layer.gated { 3.0 } else { 2.0 };
    let peak = silicon.peak(format.compute());
    let expert = matrices * layer.hidden * width;
    let read = routed.active * expert * format.weight_bytes();
    // Tokens in and out, and each assignment in, between the GEMMs and out.
    let activations = 2.0
        * (2.0 * tokens * layer.hidden
            + routed.assignments * (2.0 * layer.hidden + matrices * width));
    let spills = activations > silicon.l2;
    let beside = if spills {
        silicon.bandwidth
    } else {
        silicon.l2_bandwidth()
    };
    let compute = 2.0 * routed.assignments * expert / peak;
    let sure = match (weights, load) {
        (Weights::Cold, _) => read,
        (Weights::Rotated, ExpertLoad::Balanced) if read > 2.0 * silicon.l2 => read,
        // What was drawn is known by its law alone.
        (Weights::Rotated, _) => 0.0,
    };
    let local = layer.experts / layer.expert_parallel;
    let log = |x: f64| libm::log2(x.max(1e-9));
    Work {
        ideal: Ideal::Seconds(compute + read * silicon.memory() + activations / beside + LAUNCHES),
        compute: 2.0 * routed.even * expert / peak,
        memory: sure / silicon.bandwidth,
        at: Point::new([
            log(routed.assignments / local),
            log(routed.active),
            log(layer.hidden * width),
            log(tokens),
            load.skew(),
            log(layer.expert_parallel),
            log(width),
            log(layer.hidden),
        ]),
    }
}

fn read(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let label = row.text("dtype")?;
    let wrong = |column: &'static str, value: &str, wanted: &'static str| OperatorError::Field {
        column,
        value: value.to_string(),
        wanted,
    };
    let format = MoeFormat::of(label).ok_or_else(|| {
        wrong(
            "dtype",
            label,
            "a format of experts: bfloat16, fp8, fp8_block, nvfp4, int4_wo, w4afp8, w4a16_mxfp4, w4a8_mxfp4_mxfp8",
        )
    })?;
    let skew = row.text("expert_load")?;
    let load = ExpertLoad::named(skew).ok_or_else(|| {
        wrong(
            "expert_load",
            skew,
            "balanced or power_law_ and its exponent",
        )
    })?;
    let mut layer = Experts {
        hidden: row.size("hidden")?,
        inter: row.size("inter")?,
        topk: row.size("topk")?,
        experts: row.size("experts")?,
        tensor_parallel: row.size("moe_tp")?,
        expert_parallel: row.size("moe_ep")?,
        gated: true,
    };
    // The shapes with squared ReLU; the table names them by their widths alone.
    layer.gated = !([1856.0, 2688.0, 5120.0].contains(&layer.inter) && layer.topk > 1.0);
    let lane = layer.lane_format(format);
    let model = layer.model();
    let grouped = model == GROUPED && matches!(row.text("engine")?, "vllm" | "sglang");
    let tokens = row.size("tokens")?;
    if grouped {
        // Grouped routing of synthetic logits reaches half of the experts.
        layer.experts /= 2.0;
    }
    Ok(Case {
        format: lane,
        model,
        work: work(silicon, format, Weights::Rotated, &layer, load, tokens),
        outside: grouped
            .then_some("grouped routing on synthetic logits reaches half of the experts"),
    })
}

fn like(format: &str) -> &'static [&'static str] {
    match format {
        "fp8_block" => &["fp8", "bfloat16"],
        "fp8" => &["fp8_block", "bfloat16"],
        "nvfp4" => &["w4a8_mxfp4_mxfp8", "fp8_block", "fp8", "bfloat16"],
        "w4a8_mxfp4_mxfp8" => &["nvfp4", "w4a16_mxfp4", "fp8_block", "bfloat16"],
        "w4afp8" => &[
            "fp8",
            "fp8_block",
            "w4a8_mxfp4_mxfp8",
            "int4_wo",
            "bfloat16",
        ],
        "w4a16_mxfp4" => &["int4_wo", "bfloat16"],
        "int4_wo" => &["w4a16_mxfp4", "bfloat16"],
        "fp8_block/ungated" => &["fp8/ungated", "bfloat16/ungated", "fp8_block"],
        "fp8/ungated" => &["bfloat16/ungated", "fp8"],
        "nvfp4/ungated" => &["fp8/ungated", "nvfp4"],
        _ => &["bfloat16/ungated", "bfloat16"],
    }
}
