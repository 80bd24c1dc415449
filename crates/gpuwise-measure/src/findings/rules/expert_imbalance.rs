//! Ranks whose experts have more to do than those of others.

use crate::{
    figures::names::Remembered,
    findings::{
        ledger::{Cause, Ledger},
        lost::{percent, time},
        rule::{Profile, Rank, Row, Rule, evidence},
    },
};
use gpuwise_domain::profile::{
    figure::Scope,
    finding::{Finding, FindingDefinition, Gain},
};

const CAUSE: Cause = Cause("expert_imbalance");

const SHARE: Row = Row {
    name: "expert_imbalance_share",
    value: 0.03,
    unit: "share of the span",
    meaning: "what the slowest rank's experts take beyond the mean of all ranks, from which it is said",
    source: "-",
};

/// Parts of names of kernels that multiply by the weights of several experts. Source: deepseek-ai/DeepGEMM,
/// CUTLASS grouped GEMM, vllm-project/vllm fused_moe, triton-lang/triton matmul_ogs.
const EXPERTS: [&str; 6] = [
    "grouped_gemm",
    "GroupedGemm",
    "grouped_mm",
    "fused_moe",
    "matmul_ogs",
    "GemmGrouped",
];

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "expert_imbalance",
        title: "experts out of balance",
        signal: "Of two ranks or more, kernels that multiply by experts' weights (grouped GEMM, fused MoE) take longer on one than on the mean of all, by `expert_imbalance_share` of the span or more: the others wait for it in the all-to-all. Needs the traces of several ranks.",
        advice: "An auxiliary loss or bias that balances the router, a capacity factor, redundant experts (EPLB).",
        gain: "high: the slowest rank's time beyond the mean; low: 0, since which experts are asked for is the data's.",
        source: "Fedus, Zoph, Shazeer, Switch Transformers (2021); DeepSeek-AI, DeepSeek-V3 Technical Report (2024), redundant experts",
    },
    thresholds: &[SHARE],
    charge,
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let of = |signals: &crate::findings::Signals| {
        let charged = signals.charges.get(&CAUSE)?;
        charged
            .noted
            .get("experts_ns")
            .copied()
            .filter(|ns| *ns > 0.0)
    };
    let ranks: Option<Vec<f64>> = profile.signals.iter().map(of).collect();
    let Some(ranks) = ranks.filter(|ranks| ranks.len() >= 2) else {
        return Vec::new();
    };
    let mean = ranks.iter().sum::<f64>() / ranks.len() as f64;
    let longest = ranks.iter().copied().fold(0.0, f64::max);
    let span = profile
        .signals
        .iter()
        .map(|one| one.span_ns)
        .max()
        .unwrap_or(0) as f64;
    let (share, least) = ((longest - mean) / span.max(1.0), profile.limits.of(&SHARE));
    let places = ranks.iter().zip(profile.signals);
    let slowest = places.max_by(|one, other| one.0.total_cmp(other.0));
    let rank = slowest.and_then(|(_, signals)| signals.rank);
    if share < least {
        return Vec::new();
    }
    vec![Finding {
        class: CAUSE.class().to_owned(),
        scope: Scope { rank, ..Scope::default() },
        statement: format!(
            "Experts {} take {}, {} on the mean of {} ranks: the others wait for them, up to {} of the time could go",
            rank.map_or_else(|| "of one rank".to_owned(), |rank| format!("of rank {rank}")),
            time(longest),
            time(mean),
            ranks.len(),
            percent(share)
        ),
        evidence: vec![
            evidence("expert_imbalance", share, "share of the span", Some(least)),
            evidence("experts_longest_ns", longest, "ns", None),
            evidence("experts_mean_ns", mean, "ns", None),
        ],
        places: Vec::new(),
        gain: Gain::Time { low: 0.0, high: share.min(1.0) },
        advice: vec![
            "In training: raise the weight of the router's balancing loss (`router_aux_loss_coef`), or bias the router by load. In serving: replicate experts that are asked for most (`--enable-eplb` of vLLM, `--enable-eplb --ep-num-redundant-experts 32` of SGLang).".to_owned(),
        ],
    }]
}

/// Nothing is charged: it is time of the others, which communication and stragglers are charged.
fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let mut known = Remembered::new(&rank.timeline.names);
    let mut sum = 0.0;
    for kernel in rank.ordered.kernels(rank.timeline) {
        if known.of(kernel.work.name, |name| {
            EXPERTS.iter().any(|part| name.contains(part))
        }) {
            sum += kernel.duration() as f64;
        }
    }
    ledger.note(CAUSE, "experts_ns", sum);
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, classes};

    fn ranks(long: [i64; 2]) -> Vec<String> {
        let rank = |long: i64| {
            let mut made = Made::new();
            for round in 0..10 {
                let at = round * 1000 + 10;
                made.kernel("m_grouped_gemm_fp8", at, at + long, 500);
                made.kernel("some_kernel", at + long, at + 1000, 500);
            }
            made
        };
        classes(&long.map(rank))
    }

    #[test]
    fn expert_imbalance() {
        let said = |long| ranks(long).contains(&"expert_imbalance".to_owned());
        assert!(said([600, 300]));
        assert!(!said([400, 390]));
    }
}
