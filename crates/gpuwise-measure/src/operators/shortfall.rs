//! Why an operator takes longer than the device needs for it.

use super::{Longest, reach::Reach};
use gpuwise_domain::profile::{
    figures::{Shortfall, TensorCores},
    timeline::Timeline,
};

/// Beginnings or parts of kernels' names that state the generation they were built for.
/// Source: names of cuBLAS, cuDNN and CUTLASS kernels in published traces.
const GENERATIONS: &[(&str, &str, u32)] = &[
    ("volta_", "Volta", 70),
    ("sm70", "Volta", 70),
    ("cutlass_70", "Volta", 70),
    ("turing_", "Turing", 75),
    ("sm75", "Turing", 75),
    ("cutlass_75", "Turing", 75),
    ("ampere_", "Ampere", 80),
    ("sm80", "Ampere", 80),
    ("cutlass_80", "Ampere", 80),
    ("sm86", "Ampere", 80),
    ("sm89", "Ada", 89),
    ("sm90", "Hopper", 90),
    ("hopper_", "Hopper", 90),
];

/// Blocks over the multiprocessors that the last wave fills, as a share, below which it costs.
const WAVE_LOSS: f64 = 1.25;
/// Waves beyond which the last one no longer matters.
const MOST_WAVES: f64 = 8.0;

/// Everything that the longest kernel and the operands tell.
pub(super) fn of(
    timeline: &Timeline,
    longest: &Longest,
    product: Option<[f64; 3]>,
    precision: Option<&str>,
    reach: &Reach<'_>,
) -> Vec<Shortfall> {
    let mut found = Vec::new();
    let capability = reach.device.and_then(|device| device.compute_capability);
    let capability = capability.or_else(|| {
        let (major, minor) = reach.gpu.compute_capability?;
        Some((u32::from(major), u32::from(minor)))
    });
    let name = longest.name.map_or("", |name| timeline.names.text(name));
    if let (Some((major, minor)), Some((generation, built_for))) = (capability, generation(name))
        && built_for / 10 < major
        && built_for < major * 10 + minor
    {
        found.push(Shortfall::OlderKernel { generation });
    }
    if longest.tensor_cores == TensorCores::Unused {
        found.push(Shortfall::MatrixUnitsUnused);
    }
    if let (Some(product), Some(multiple)) = (product, precision.and_then(multiple)) {
        let odd = product
            .into_iter()
            .find(|size| size % multiple as f64 != 0.0);
        if let Some(dimension) = odd {
            found.push(Shortfall::Misaligned {
                dimension: dimension as u64,
                multiple,
            });
        }
    }
    let grid = longest.launch.and_then(|launch| launch.grid);
    if let (Some(grid), Some(multiprocessors)) = (grid, reach.multiprocessors()) {
        let blocks: u64 = grid.iter().map(|size| u64::from(*size)).product();
        found.extend(waves(blocks, multiprocessors));
    }
    found
}

/// The generation that a kernel's name states, and its compute capability times ten.
pub(crate) fn generation(name: &str) -> Option<(&'static str, u32)> {
    let name = name.to_ascii_lowercase();
    let known = GENERATIONS.iter().find(|(part, ..)| name.contains(part));
    known.map(|(_, generation, capability)| (*generation, *capability))
}

/// What matrix units take at once of a dimension: 16 bytes.
/// Source: NVIDIA, Matrix Multiplication Background User's Guide, tensor core requirements.
pub(crate) fn multiple(precision: &str) -> Option<u64> {
    match precision {
        "fp16" | "bf16" => Some(8),
        "tf32" => Some(4),
        "fp8" | "int8" => Some(16),
        _ => None,
    }
}

fn waves(blocks: u64, multiprocessors: u64) -> Option<Shortfall> {
    if blocks == 0 || multiprocessors == 0 {
        return None;
    }
    if blocks < multiprocessors {
        return Some(Shortfall::FewBlocks {
            blocks,
            multiprocessors,
        });
    }
    let waves = blocks as f64 / multiprocessors as f64;
    (waves < MOST_WAVES && waves.ceil() / waves >= WAVE_LOSS)
        .then_some(Shortfall::WaveQuantization { waves })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_stated_by_names() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(generation(name).map(|(name, _)| name), expected, "{name}");
        };
        check(
            "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
            Some("Turing"),
        );
        check(
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>",
            Some("Ampere"),
        );
        check("sm90_xmma_gemm_bf16bf16_bf16f32", Some("Hopper"));
        check("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", None);
    }

    #[test]
    fn the_last_wave_counts_while_there_are_few() {
        assert_eq!(waves(132, 132), None);
        assert_eq!(
            waves(133, 132),
            Some(Shortfall::WaveQuantization {
                waves: 133.0 / 132.0
            })
        );
        assert_eq!(
            waves(60, 132),
            Some(Shortfall::FewBlocks {
                blocks: 60,
                multiprocessors: 132
            })
        );
        assert_eq!(waves(132 * 20 + 1, 132), None);
    }
}
