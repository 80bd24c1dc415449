//! Prefill holds up decoding: long steps among short ones.

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
    finding::{Finding, FindingDefinition, Gain, Place},
};

const CAUSE: Cause = Cause("mixed_batches");

const RATIO: Row = Row {
    name: "mixed_step_ratio",
    value: 3.0,
    unit: "median steps",
    meaning: "a step of a serving engine this long holds up whoever is decoding",
    source: "-",
};

const SHARE: Row = Row {
    name: "mixed_step_share",
    value: 0.1,
    unit: "share of the time in steps",
    meaning: "time in such steps beyond the median step, from which it is said",
    source: "-",
};

/// Parts of names of attention kernels that read a cache for one token of each request. Source:
/// vllm-project/vllm csrc/attention, flashinfer BatchDecode, Dao-AILab/flash-attention splitkv.
const DECODING: [&str; 5] = [
    "paged_attention",
    "unified_attention",
    "BatchDecode",
    "splitkv",
    "decode_attention",
];

/// How many places are shown.
const PLACES: usize = 24;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "mixed_batches",
        title: "prefill among decoding",
        signal: "In a trace of a serving engine (kernels of paged or decoding attention) whose steps are marked, less than half of the steps take `mixed_step_ratio` median steps or more, and what they take beyond it is `mixed_step_share` of the time in steps or more. Needs marked steps, and kernels' names.",
        advice: "Chunked prefill with smaller chunks, or prefill on instances of its own.",
        gain: "cannot be told in time of the span: the same work is done; what falls is the time between tokens of requests that were decoding.",
        source: "Agrawal et al., Sarathi-Serve (2024); Zhong et al., DistServe (2024)",
    },
    thresholds: &[RATIO, SHARE],
    charge,
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let serving = |one: &&crate::findings::Signals| {
        let noted = one
            .charges
            .get(&CAUSE)
            .and_then(|charged| charged.noted.get("decoding"));
        noted.is_some_and(|count| *count > 0.0)
    };
    let found = profile.signals.iter().filter(serving).find_map(|one| {
        let mut steps: Vec<(i64, i64)> =
            one.steps.iter().map(|step| (step.start_ns, step.end_ns)).collect();
        steps.sort_by_key(|(start, end)| end - start);
        let (start, end) = *steps.get(steps.len() / 2)?;
        let median = (end - start) as f64;
        let limit = median * profile.limits.of(&RATIO);
        let length = |step: &(i64, i64)| (step.1 - step.0) as f64;
        let all: f64 = steps.iter().map(length).sum();
        let long: Vec<(i64, i64)> = steps.iter().rev().copied().take_while(|step| length(step) >= limit).collect();
        let beyond: f64 = long.iter().map(|step| length(step) - median).sum();
        let (share, least) = (beyond / all.max(1.0), profile.limits.of(&SHARE));
        (share >= least && long.len() * 2 < steps.len() && steps.len() >= 4).then(|| Finding {
            class: CAUSE.class().to_owned(),
            scope: Scope { rank: one.rank, device: one.device, part: None },
            statement: format!(
                "{} of {} steps take {} or more, the median step {}: requests that were decoding waited for prefill of others in them, {} of the time in steps",
                long.len(),
                steps.len(),
                time(limit),
                time(median),
                percent(share)
            ),
            evidence: vec![
                evidence("mixed_batches", share, "share of the time in steps", Some(least)),
                evidence("step_median_ns", median, "ns", None),
                evidence("long_steps", long.len() as f64, "count", None),
            ],
            places: long
                .iter()
                .take(PLACES)
                .map(|step| Place {
                    rank: one.rank,
                    device: one.device,
                    start_ns: step.0,
                    end_ns: step.1,
                    lost_ns: None,
                    what: "a long step".to_owned(),
                })
                .collect(),
            gain: Gain::Unknown,
            advice: vec![
                "Prefill in smaller chunks: `--enable-chunked-prefill --max-num-batched-tokens 2048` of vLLM, `--chunked-prefill-size 2048` of SGLang; where that costs too much time to first token, prefill and decode on instances of their own.".to_owned(),
            ],
        })
    });
    found.into_iter().collect()
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let mut known = Remembered::new(&rank.timeline.names);
    let kernels = rank.ordered.kernels(rank.timeline);
    let decoding = kernels.filter(|kernel| {
        known.of(kernel.work.name, |name| {
            DECODING.iter().any(|part| name.contains(part))
        })
    });
    ledger.note(CAUSE, "decoding", decoding.count() as f64);
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, classes};

    /// Twenty steps of 1 ms, of which each fifth takes so many.
    fn steps(kernel: &str, long: i64) -> Vec<String> {
        let mut made = Made::new();
        let mut at = 10;
        for round in 0..20 {
            let took = if round % 5 == 4 { long * 1000 } else { 1000 };
            made.range(&format!("ProfilerStep#{round}"), at, at + took);
            made.kernel(kernel, at, at + took, 500);
            at += took;
        }
        classes(&[made])
    }

    #[test]
    fn mixed_batches() {
        let class = "mixed_batches".to_owned();
        assert!(steps("vllm::paged_attention_v2_kernel", 8).contains(&class));
        assert!(!steps("vllm::paged_attention_v2_kernel", 2).contains(&class));
        assert!(!steps("some_kernel", 8).contains(&class));
    }
}
