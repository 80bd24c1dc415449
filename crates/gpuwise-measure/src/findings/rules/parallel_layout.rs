//! Another layout of the training job on the same GPUs is predicted to be faster.

use crate::findings::{
    beside::finding,
    layouts::{LayoutVerdict, verdict},
    rule::{Profile, Rule, evidence},
};
use gpuwise_domain::{
    estimate::Estimate,
    profile::finding::{Finding, FindingDefinition, Gain},
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "parallel_layout",
        title: "parallel layout",
        signal: "Where the model is told (`--model`), `gpuwise train` is asked for the layout that runs and for others on the same GPUs. It is said where the whole range of another lies below that of the one that runs, and the measured step is one that is predicted for it (within a quarter of its range).",
        advice: "Try the layout that is named; the command gives the same figure, and its recipe by `--emit`.",
        gain: "from the slowest of the new range against the fastest of the old, to the fastest against the slowest.",
        source: "docs/concepts/training-step.md; Meta, Zoomer (2025)",
    },
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let Some(compared) = &profile.figures.layouts else {
        return Vec::new();
    };
    let LayoutVerdict::Faster(best) = verdict(compared) else {
        return Vec::new();
    };
    let now = &compared.now.step;
    let measured = compared.measured_ns.map_or_else(String::new, |ns| {
        format!(" (measured {})", crate::findings::lost::time(ns as f64))
    });
    let statement = format!(
        "Try {} in place of {} on {}: predicted step {} against {} now{measured}",
        best.written(),
        compared.now.written(),
        compared.of,
        range(&best.step),
        range(now)
    );
    let mut said = finding("parallel_layout", statement, &[]);
    said.advice = vec![
        format!("The same figure: `{}`", best.command),
        format!("That of the layout that runs: `{}`", compared.now.command),
    ];
    let shown = [
        ("step_low", best.step.low),
        ("step_high", best.step.high),
        ("step_now_low", now.low),
        ("step_now_high", now.high),
    ];
    said.evidence = shown
        .iter()
        .map(|(name, value)| evidence(name, *value, "s", None))
        .collect();
    if let Some(ns) = compared.measured_ns {
        said.evidence
            .push(evidence("step_median_ns", ns as f64, "ns", None));
    }
    said.gain = Gain::Time {
        low: (1.0 - best.step.high / now.low).clamp(0.0, 1.0),
        high: (1.0 - best.step.low / now.high).clamp(0.0, 1.0),
    };
    vec![said]
}

/// A range of times in one unit: `412–480 ms`.
fn range(step: &Estimate) -> String {
    let (factor, unit) = if step.high < 1.0 {
        (1e3, "ms")
    } else {
        (1.0, "s")
    };
    let of = |value: f64| gpuwise_units::significant(value * factor, 3);
    format!("{}–{} {unit}", of(step.low), of(step.high))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::classes_beside;
    use gpuwise_domain::{
        estimate::Estimate,
        profile::{
            figures::ProfileFigures,
            parallel::{LayoutComparison, LayoutEstimate},
        },
        training::{Framework, TrainingLayout},
    };

    #[test]
    fn parallel_layout() {
        let one = |low: f64, high: f64| LayoutEstimate {
            framework: Framework::Megatron,
            layout: TrainingLayout::data(4),
            step: Estimate {
                value: f64::midpoint(low, high),
                low,
                high,
            },
            command: "gpuwise train".into(),
        };
        let check = |other: (f64, f64), measured_ms: Option<i64>, expected: bool| {
            let figures = ProfileFigures {
                layouts: Some(LayoutComparison {
                    now: one(0.53, 0.61),
                    measured_ns: measured_ms.map(|ms| ms * 1_000_000),
                    others: vec![one(other.0, other.1)],
                    of: "4 GPUs".into(),
                }),
                ..ProfileFigures::default()
            };
            let found = classes_beside(&figures);
            assert_eq!(
                found.contains(&"parallel_layout".into()),
                expected,
                "{other:?} {measured_ms:?}"
            );
        };
        check((0.41, 0.48), Some(560), true);
        check((0.41, 0.48), None, true);
        // Ranges that overlap decide nothing, and a step that is not predicted is of another job.
        check((0.41, 0.54), Some(560), false);
        check((0.41, 0.48), Some(1900), false);
    }
}
