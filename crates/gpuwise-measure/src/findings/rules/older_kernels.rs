//! Kernels that were written for an older generation than the GPU's.

use crate::{
    findings::{
        ledger::{Cause, Ledger},
        lost::Lost,
        products::products,
        rule::{CERTAIN_KERNEL, Profile, Rank, Row, Rule, evidence},
        sequences::{Kernel, sequences},
        stack::Framework,
    },
    operators::generation,
};
use gpuwise_domain::profile::{
    figures::TensorCores,
    finding::{Finding, FindingDefinition},
};

const CAUSE: Cause = Cause("older_kernels");

const SHARE: Row = Row {
    name: "older_kernels_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "time that kernels of the GPU's own generation would not take, from which older kernels is said",
    source: "-",
};

const OLD_ON_HOPPER: Row = Row {
    name: "mma_on_hopper",
    value: 0.63,
    unit: "share of the dense peak",
    meaning: "what the matrix instructions of earlier generations reach on Hopper, whose own are others",
    source: "Luo et al., Dissecting the NVIDIA Hopper Architecture through Microbenchmarking (2025): 62.9 %",
};

const FLASH_2_ON_HOPPER: Row = Row {
    name: "flash_attention_2_on_hopper",
    value: 0.5,
    unit: "share of FlashAttention-3's rate",
    meaning: "what FlashAttention-2 reaches on Hopper at its slowest beside FlashAttention-3",
    source: "Shah et al., FlashAttention-3 (2024): 1.5 to 2.0 times as fast",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "older_kernels",
        title: "kernels of an older generation",
        signal: "Matrix products on tensor cores by kernels whose names state a generation before the GPU's (`cutlass_80`, `turing_`, `sm80` on Hopper), or FlashAttention-2 on Hopper, could spare `older_kernels_share` of the span or more. Needs the GPU's compute capability, and for all but Hopper shapes of operators and a GPU of the catalogue.",
        advice: "Libraries built for the GPU: PyTorch with its CUDA release, a current cuBLAS, FlashAttention-3 or cuDNN attention on Hopper.",
        gain: "high: their time, less the time by measured operator functions, else by peak and bandwidth, else (on Hopper) × (1 − `mma_on_hopper`), attention × (1 − `flash_attention_2_on_hopper`); low: `certain_kernel` of it where it is by measured functions, else 0.",
        source: "Luo et al., Dissecting the NVIDIA Hopper Architecture (2025); Shah et al., FlashAttention-3 (2024)",
    },
    thresholds: &[SHARE, OLD_ON_HOPPER, FLASH_2_ON_HOPPER, CERTAIN_KERNEL],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN_KERNEL);
        let attention: f64 = lost.noted("attention_ns").iter().sum();
        let products: f64 = lost.noted("products_ns").iter().sum();
        let statement = format!(
            "Kernels such as {} were written for an earlier generation than this GPU's: up to {} could go",
            lost.first(),
            lost.of_the_time()
        );
        let pytorch = profile.stack.framework == Some(Framework::PyTorch);
        let mut advice = Vec::new();
        if attention > 0.0 {
            advice.push(if pytorch {
                "For attention: `with torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION):` around the model (PyTorch 2.5 or newer), or `attn_implementation=\"flash_attention_3\"` with FlashAttention-3 installed."
            } else {
                "For attention: FlashAttention-3, or cuDNN's attention."
            });
        }
        if products > 0.0 {
            advice.push(if pytorch {
                "For matrix products: a PyTorch built for this GPU (`torch.cuda.get_arch_list()` names its generations; `pip install --upgrade torch`), `torch.backends.cuda.preferred_blas_library(\"cublaslt\")`, or `torch.compile(mode=\"max-autotune\")`, which times kernels of its own."
            } else {
                "For matrix products: a cuBLAS or CUTLASS release that was built for this GPU."
            });
        }
        let more = vec![
            evidence("older_products_ns", products, "ns", None),
            evidence("older_attention_ns", attention, "ns", None),
        ];
        lost.finding(certain, statement, &advice, more)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let hopper_old = rank.limits.of(&OLD_ON_HOPPER);
    let mut charged = 0.0;
    for product in products(rank, ledger) {
        let kernel = product.kernel;
        // What uses no tensor cores is another finding's.
        if kernel.at.traits.tensor_cores != TensorCores::Used || !is_older(rank, &kernel) {
            continue;
        }
        let least = rank
            .reach
            .as_ref()
            .and_then(|reach| product.sizes?.least(reach));
        if let Some(least) = least {
            product.charge_over(least, CAUSE, rank, ledger);
        } else if capability(rank, &kernel).is_some_and(|(major, _)| major == 9) {
            let high = kernel.duration() * (1.0 - hopper_old);
            ledger.charge_spared(
                CAUSE,
                rank.alone,
                [(kernel.at.place, 0.0, high)].into_iter(),
            );
        } else {
            continue;
        }
        charged += kernel.duration();
    }
    ledger.note(CAUSE, "products_ns", charged);
    let flash = rank.limits.of(&FLASH_2_ON_HOPPER);
    let mut charged = 0.0;
    for kernel in sequences(rank).into_iter().flatten() {
        let hopper = capability(rank, &kernel).is_some_and(|(major, _)| major == 9);
        if hopper && is_flash_2(kernel.name()) && !ledger.is_spared(kernel.at.place) {
            let high = kernel.duration() * (1.0 - flash);
            ledger.charge_spared(
                CAUSE,
                rank.alone,
                [(kernel.at.place, 0.0, high)].into_iter(),
            );
            charged += kernel.duration();
        }
    }
    ledger.note(CAUSE, "attention_ns", charged);
}

/// Kernels of FlashAttention-2, in PyTorch's copy as well; those of decoding (`splitkv`) are bound by
/// memory on any generation. Source: Dao-AILab/flash-attention csrc/flash_attn.
fn is_flash_2(name: &str) -> bool {
    (name.contains("flash_fwd_kernel") || name.contains("flash_bwd_dq_dk_dv"))
        && name.contains("kernel_traits")
        && !name.contains("splitkv")
}

fn capability(rank: &Rank<'_>, kernel: &Kernel<'_>) -> Option<(u32, u32)> {
    let device = rank.timeline.device_of(kernel.at.work);
    let stated = device.and_then(|device| device.compute_capability);
    stated.or_else(|| {
        let (major, minor) = rank.reach.as_ref()?.gpu.compute_capability?;
        Some((u32::from(major), u32::from(minor)))
    })
}

fn is_older(rank: &Rank<'_>, kernel: &Kernel<'_>) -> bool {
    let (Some((major, _)), Some((_, built_for))) =
        (capability(rank, kernel), generation(kernel.name()))
    else {
        return false;
    };
    // AMD's generations are numbered otherwise.
    let device = rank.timeline.device_of(kernel.at.work);
    let amd = device
        .and_then(|device| device.name.as_deref())
        .is_some_and(|name| name.contains("AMD"));
    built_for / 10 < major && !amd
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{EARLY, Made, check, found_on, shaped};

    fn kernels(made: &mut Made, name: &str) {
        made.0.devices[0].compute_capability = Some((9, 0));
        for round in 0..10 {
            made.kernel(name, round * 100 + 10, round * 100 + 110, 500);
        }
    }

    #[test]
    fn older_kernels() {
        check(
            "older_kernels",
            |made| {
                kernels(
                    made,
                    "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_tn_align8",
                );
            },
            |made| {
                kernels(
                    made,
                    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
                );
            },
        );
        check(
            "older_kernels",
            |made| {
                kernels(
                    made,
                    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>",
                );
            },
            |made| {
                kernels(
                    made,
                    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>",
                );
            },
        );
    }

    /// 2 × 4096³ operations take 156 µs at 89 % of 989 TFLOPS: of 300 µs of every 500 the rest may go.
    #[test]
    fn the_gain_is_what_the_gpu_reaches() {
        let mut made = Made::new();
        let shapes: [&[u64]; 2] = [&[4096, 4096], &[4096, 4096]];
        for round in 0..10 {
            let at = round * 500 + 10;
            let kernel = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_tn_align8";
            shaped(&mut made, "aten::mm", &shapes, kernel, at, at + 300);
            made.kernel("some_kernel", at + 300, at + 500, EARLY);
        }
        let (low, high) = found_on("H100 SXM5 80GB", made, "older_kernels");
        assert!(
            (high - (300.0 - 156.1) / 500.0).abs() < 0.002 && low == 0.0,
            "{low} {high}"
        );
    }
}
