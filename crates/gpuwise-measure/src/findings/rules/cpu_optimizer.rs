//! Without a GPU: an optimizer that calls operators for each parameter.

use super::cpu_scalar_reads::RECORDING;
use crate::{
    figures::intervals::Intervals,
    findings::{
        cpu::{Cpu, Part},
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{CERTAIN_HOST, Profile, Rank, Row, Rule, evidence},
    },
};
use gpuwise_domain::profile::{
    finding::{Finding, FindingDefinition},
    timeline::{HostSpan, NameId},
};
use std::collections::BTreeMap;

const CAUSE: Cause = Cause("cpu_optimizer");

const SHARE: Row = Row {
    name: "cpu_optimizer_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "time in steps of an optimizer made of small operators, from which it is said",
    source: "-",
};

const SMALL: Row = Row {
    name: "cpu_small_operator_ns",
    value: 20000.0,
    unit: "ns",
    meaning: "an operator shorter than this takes about as long as calling it from Python",
    source: "-",
};

/// Optimizers of which PyTorch has a fused form for the CPU. Source: PyTorch 2.7 documentation, torch.optim.
const FUSED: [&str; 4] = ["Adam", "AdamW", "SGD", "Adagrad"];

/// A pass of all states reads and writes at most so many times what one operator of a parameter does:
/// seven tensors, two.
const PASSES: f64 = 3.5;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "cpu_optimizer",
        title: "optimizer of small operators, CPU only",
        signal: "In a trace of the PyTorch profiler without any GPU work, `Optimizer.step#…` of Adam, AdamW, SGD or Adagrad calls operators whose median is under `cpu_small_operator_ns` for each parameter, for `cpu_optimizer_share` of the span or more.",
        advice: "`fused=True`.",
        gain: "high: that time in the steps in which it takes the most, less one operator for each parameter, with the rest of the step faster by what recording each of its operators took at most (`cpu_recording`); low, in those in which it takes the least: `certain_host` of it at a `cpu_recording`th of what was recorded, less 3.5 operators for each parameter (seven tensors are moved where one operator moves two).",
        source: "PyTorch documentation, torch.optim, foreach and fused implementations",
    },
    thresholds: &[SHARE, SMALL, RECORDING, CERTAIN_HOST],
    charge,
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let most = |figure: &str| lost.noted(figure).iter().copied().fold(0.0, f64::max);
        let (operators, parameters) = (most("operators"), most("parameters"));
        let name = FUSED
            .iter()
            .find(|name| most(name) > 0.0)
            .unwrap_or(&"Adam");
        let statement = format!(
            "CPU only: {name} called {operators:.0} small operators a step for {parameters:.0} parameters, {}",
            lost.of_the_time()
        );
        let advice = format!(
            "Add `fused=True` to `torch.optim.{name}(…)` (on CPUs PyTorch 2.4 or newer): one call updates all parameters."
        );
        let certain = profile.limits.of(&CERTAIN_HOST);
        let more = vec![
            evidence("optimizer_operators", operators, "count", None),
            evidence("parameters", parameters, "count", None),
        ];
        lost.finding(certain, statement, &[&advice], more)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let Some(cpu) = rank.cpu else { return };
    let mut ranges = Vec::new();
    let (mut counts, mut parameters, mut typical) = (Vec::new(), Vec::new(), Vec::new());
    for range in &rank.timeline.annotations {
        let text = rank.timeline.names.text(range.name);
        let name = text
            .strip_prefix("Optimizer.step#")
            .and_then(|name| name.strip_suffix(".step"));
        let known = FUSED.into_iter().find(|known| Some(*known) == name);
        let (Some(known), Some(work)) = (known, small(rank, cpu, range)) else {
            continue;
        };
        ranges.push(((range.start_ns, range.end_ns), range.name));
        counts.push(work.operators);
        parameters.push(work.parameters);
        typical.push(work.typical_ns);
        ledger.note(CAUSE, known, 1.0);
    }
    let all = cpu.in_steps(&Intervals::union(ranges.iter().map(|(range, _)| *range)));
    let Some(&(_, name)) = ranges.first() else {
        return;
    };
    for &range in all.ranges() {
        ledger.charge_host(CAUSE, range, name);
    }
    let (parameters, typical) = (median(parameters), median(typical));
    ledger.note(CAUSE, "operators", median(counts));
    ledger.note(CAUSE, "parameters", parameters);
    let slowed = rank.limits.of(&RECORDING);
    let remains = |_: Part| (parameters * typical, parameters * typical * PASSES);
    ledger.gained(CAUSE, cpu.gained(&all, slowed, remains));
}

/// What a step of an optimizer calls.
struct Called {
    operators: f64,
    parameters: f64,
    typical_ns: f64,
}

/// Nothing where its operators are long, few, or one for all parameters.
fn small(rank: &Rank<'_>, cpu: &Cpu, range: &HostSpan) -> Option<Called> {
    let from = cpu.top.partition_point(|one| one.start_ns < range.start_ns);
    let to = cpu.top.partition_point(|one| one.start_ns < range.end_ns);
    let within = cpu.top.get(from..to)?;
    let mut counts: BTreeMap<NameId, usize> = BTreeMap::new();
    for operator in within {
        *counts.entry(operator.name).or_default() += 1;
    }
    let fused = |name: &NameId| rank.timeline.names.text(*name).starts_with("aten::_fused_");
    if counts.keys().any(fused) {
        return None;
    }
    // Some operators are called more than once for each parameter, but one of them is called once.
    let most = *counts.values().max()?;
    let parameters = *counts.values().filter(|count| **count * 8 >= most).min()?;
    let lengths = within.iter().map(|one| (one.end_ns - one.start_ns) as f64);
    let typical_ns = median(lengths.collect());
    (typical_ns <= rank.limits.of(&SMALL) && within.len() > 2 * parameters).then_some(Called {
        operators: within.len() as f64,
        parameters: parameters as f64,
        typical_ns,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};

    /// Steps of which an optimizer takes half, with one operator for each parameter or several.
    fn steps(made: &mut Made, operators: &[&str]) {
        for round in 0..10 {
            let at = round * 1000;
            made.range("ProfilerStep#1", at, at + 1000);
            made.operator("aten::mm", at, at + 500);
            made.range("Optimizer.step#Adam.step", at + 500, at + 1000);
            let calls = operators.iter().cycle().take(10 * operators.len());
            let each = 500 / (10 * i64::try_from(operators.len()).expect("few"));
            for (place, name) in (0..).zip(calls) {
                let from = at + 500 + place * each;
                made.operator(name, from, from + each / 2);
            }
        }
    }

    #[test]
    fn cpu_optimizer() {
        check(
            "cpu_optimizer",
            |made| {
                steps(
                    made,
                    &["aten::lerp_", "aten::mul_", "aten::addcmul_", "aten::sqrt"],
                );
            },
            |made| steps(made, &["aten::_fused_adam_"]),
        );
    }
}
