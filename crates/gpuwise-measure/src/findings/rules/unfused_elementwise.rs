//! Element-wise kernels and normalizations one after another, each over memory.

use crate::{
    findings::{
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{CERTAIN_KERNEL, Profile, Rank, Row, Rule, evidence},
        sequences::{Kernel, sequences},
        stack::Framework,
    },
    operators::LAUNCH_NS,
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};
use gpuwise_size::speed::MOST_BANDWIDTH;

const CAUSE: Cause = Cause("unfused_elementwise");

const SHARE: Row = Row {
    name: "elementwise_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "time that chains of element-wise kernels would not take in one kernel each, from which it is said",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "unfused_elementwise",
        title: "element-wise work not fused",
        signal: "Element-wise kernels, dropout, casts and normalizations that follow one another on a stream, on as many elements (by recorded shapes, else by the same grid and block), could spare `elementwise_share` of the span or more. Kernels that a compiler made are left out, and what has neither shapes nor grids.",
        advice: "torch.compile of the module or function; a fused kernel for what is often used (RMSNorm, SwiGLU, bias and GELU).",
        gain: "high: their time, less one kernel that reads and writes what comes from and goes to others, at memory bandwidth (without shapes or GPU: less the longest kernel of each chain); low: `certain_kernel` of the time in which what one writes and the next reads is moved at full bandwidth (0 without).",
        source: "NVIDIA, CUDA C++ Best Practices Guide, memory throughput; pytorch torch/_inductor, pointwise and reduction fusion",
    },
    thresholds: &[SHARE, CERTAIN_KERNEL],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN_KERNEL);
        let sum = |figure: &str| lost.noted(figure).iter().sum::<f64>();
        let (chains, kernels, bytes) = (sum("chains"), sum("kernels"), sum("bytes"));
        let statement = format!(
            "{kernels} element-wise kernels and normalizations follow one another in {chains} chains, each through memory: up to {} could go, most of it {}",
            lost.of_the_time(),
            lost.first()
        );
        let mut more = vec![
            evidence("chains", chains, "count", None),
            evidence("chained_kernels", kernels, "count", None),
        ];
        if bytes > 0.0 {
            more.push(evidence("bytes_between", bytes, "bytes", None));
        }
        lost.finding(certain, statement, &[advice(profile)], more)
    })
}

fn advice(profile: &Profile<'_>) -> &'static str {
    let stack = profile.stack;
    match (stack.framework, stack.compiled) {
        (Some(Framework::PyTorch), false) => {
            "Compile what calls them: `model = torch.compile(model)`, or `@torch.compile` on the function; where shapes change, with `dynamic=True`. Without a compiler: `torch.nn.functional.rms_norm`, `layer_norm` and fused activations in place of their formulas."
        }
        (Some(Framework::PyTorch), true) => {
            "`torch.compile` left these apart: `TORCH_LOGS=graph_breaks` names the lines that break its graphs; move them out of the compiled function."
        }
        (Some(Framework::Xla), _) => {
            "Put them under one `jax.jit`, in which XLA fuses them; what is left apart has a transfer or a custom call between."
        }
        (None, _) => "Compute each chain in one kernel.",
    }
}

/// Kernels that follow one another on as many elements.
struct Chain<'a>(Vec<Kernel<'a>>);

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let (mut chains, mut kernels, mut bytes) = (0.0, 0.0, 0.0);
    for sequence in sequences(rank) {
        let mut open = Chain(Vec::new());
        let free = |kernel: &Kernel<'_>, ledger: &Ledger<'_>| {
            is_chained(kernel) && !ledger.is_spared(kernel.at.place)
        };
        let mut close = |chain: Chain<'_>, ledger: &mut Ledger<'_>| {
            let Some((low, high)) = chain.spared(rank) else {
                return;
            };
            chains += 1.0;
            kernels += chain.0.len() as f64;
            bytes += chain.between().unwrap_or(0.0);
            let all = chain.duration().max(1.0);
            let each = chain.0.iter().map(|kernel| {
                let share = kernel.duration() / all;
                (kernel.at.place, share * low, share * high)
            });
            ledger.charge_spared(CAUSE, rank.alone, each);
        };
        for kernel in sequence {
            let follows = open.0.last().is_none_or(|last| follows(last, &kernel));
            let chained = free(&kernel, ledger);
            if !(follows && chained) {
                close(std::mem::replace(&mut open, Chain(Vec::new())), ledger);
            }
            if chained {
                open.0.push(kernel);
            }
        }
        close(open, ledger);
    }
    ledger.note(CAUSE, "chains", chains);
    ledger.note(CAUSE, "kernels", kernels);
    ledger.note(CAUSE, "bytes", bytes);
}

/// Whether a compiler would put it together with others of its kind.
fn is_chained(kernel: &Kernel<'_>) -> bool {
    let fits = match kernel.kind() {
        "elementwise" | "norm" | "random" | "softmax" => true,
        "layout" => {
            kernel.name().contains("direct_copy_kernel") || kernel.name().contains("copy_kernel")
        }
        _ => false,
    };
    fits && !kernel.name().starts_with("triton_") && !kernel.name().contains("Fill")
}

fn follows(before: &Kernel<'_>, kernel: &Kernel<'_>) -> bool {
    if before.same_operator(kernel) {
        return true;
    }
    match (before.largest(), kernel.largest()) {
        (Some((one, _)), Some((other, _))) => (one - other).abs() < 0.5,
        (None, None) => before.launch().is_some() && before.launch() == kernel.launch(),
        _ => false,
    }
}

impl Chain<'_> {
    fn duration(&self) -> f64 {
        self.0.iter().map(Kernel::duration).sum()
    }

    /// The first kernel of each operator.
    fn operators(&self) -> impl Iterator<Item = &Kernel<'_>> {
        (0..self.0.len()).filter_map(|at| {
            let kernel = self.0.get(at)?;
            let before = at.checked_sub(1).and_then(|before| self.0.get(before));
            before
                .is_none_or(|before| !before.same_operator(kernel))
                .then_some(kernel)
        })
    }

    /// Bytes that one operator writes and the next reads.
    fn between(&self) -> Option<f64> {
        let sized: Option<Vec<(f64, f64)>> = self.operators().map(Kernel::largest).collect();
        let sized = sized?;
        let before = sized.iter().take(sized.len().saturating_sub(1));
        Some(before.map(|(count, width)| 2.0 * count * width).sum())
    }

    /// Nanoseconds that one kernel would spare, at least and at most.
    fn spared(&self, rank: &Rank<'_>) -> Option<(f64, f64)> {
        if self.operators().count() < 2 {
            return None;
        }
        let all = self.duration();
        let longest = self.0.iter().map(Kernel::duration).fold(0.0, f64::max);
        let known = rank.reach.as_ref().and_then(|reach| {
            let bytes: Option<f64> = self.operators().map(Kernel::bytes).sum();
            let (bytes, between) = (bytes?, self.between()?);
            // Nothing is moved twice that does not have to be.
            let outside = (bytes - between).max(bytes / self.operators().count() as f64);
            let fused = outside / (reach.bandwidth() * MOST_BANDWIDTH) * 1e9;
            let high = (all - fused.max(LAUNCH_NS)).max(0.0);
            let inside = (bytes - outside).max(0.0);
            let at_rate = (inside / reach.bandwidth() * 1e9).min(all * inside / bytes);
            Some((at_rate.min(high), high))
        });
        Some(known.unwrap_or((0.0, all - longest)))
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check, found_on, shaped};

    const LARGE: [&[u64]; 2] = [&[16384, 4096], &[16384, 4096]];

    /// Sigmoid and product of large tensors, with or without something between them.
    fn chains(made: &mut Made, apart: bool) {
        for round in 0..10 {
            let mut at = round * 1000 + 10;
            let mut next = |operator: &str, tensors, kernel: &str, long| {
                shaped(made, operator, &LARGE[..tensors], kernel, at, at + long);
                at += long;
            };
            next(
                "aten::sigmoid",
                1,
                "vectorized_elementwise_kernel<sigmoid>",
                200,
            );
            if apart {
                next("aten::mm", 2, "sm90_xmma_gemm", 300);
            }
            next("aten::mul", 2, "vectorized_elementwise_kernel<mul>", 300);
            next(
                "aten::mm",
                2,
                "sm90_xmma_gemm",
                if apart { 200 } else { 500 },
            );
        }
    }

    #[test]
    fn unfused_elementwise() {
        check(
            "unfused_elementwise",
            |made| chains(made, false),
            |made| chains(made, true),
        );
    }

    /// Of the five times that a tensor of 128 MiB is moved two are between them.
    #[test]
    fn the_gain_is_what_is_not_moved() {
        let mut made = Made::new();
        chains(&mut made, false);
        let (low, high) = found_on("H100 SXM5 80GB", made, "unfused_elementwise");
        let tensor = 16384.0 * 4096.0 * 2.0;
        let fused = 3.0 * tensor / (3350e9 * 0.95) * 1e9;
        assert!((high - (500e3 - fused) / 1e6).abs() < 0.001, "{high}");
        let inside = 2.0 * tensor / 3350e9 * 1e9;
        assert!((low - 0.5 * inside / 1e6).abs() < 0.001, "{low}");
    }
}
