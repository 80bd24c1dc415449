//! The loss that was recorded beside the trace is no number, or grows.

use crate::findings::{
    beside::{finding, median, moment, of_application},
    rule::{Profile, Row, Rule, evidence},
};
use gpuwise_domain::profile::{
    finding::{Finding, FindingDefinition, Gain},
    joined::{ApplicationQuantity, JoinedSeries},
};

const GROWTH: Row = Row {
    name: "loss_growth",
    value: 1.5,
    unit: "ratio",
    meaning: "the loss at the end over the least before, medians of five, from which it diverges",
    source: "-",
};

/// Values of a median.
const FIVE: usize = 5;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "loss_diverged",
        title: "loss diverged",
        signal: "A loss that is recorded beside the trace (`--with`) is NaN or infinite, or the median of its last five values is `loss_growth` times the least median of five before, or more.",
        advice: "Time is saved by no fix here: stop, go back to a checkpoint before it, and look at the learning rate, the data and the precision.",
        gain: "none is told: what the run computes is of no use.",
        source: "-",
    },
    thresholds: &[GROWTH],
    find,
    ends_run: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let joined = &profile.figures.joined;
    let mut all = of_application(joined, ApplicationQuantity::Loss)
        .chain(of_application(joined, ApplicationQuantity::EvalLoss));
    let found = all.find_map(|one| of_series(one, profile.limits.of(&GROWTH)));
    found.into_iter().collect()
}

fn of_series(one: &JoinedSeries, limit: f64) -> Option<Finding> {
    let (samples, name) = (&one.series.samples, one.series.metric.name());
    let advice = &[
        "Go back to a checkpoint before it; look at the learning rate, gradient clipping, the batch that was read there, and FP16 or FP8 scaling.",
    ];
    let mut said = if let Some(first) = samples.iter().find(|sample| !sample.value.is_finite()) {
        let lost = samples
            .iter()
            .filter(|sample| !sample.value.is_finite())
            .count();
        let statement = format!(
            "`{name}` is no number from {} on: what is trained there is of no use",
            moment(first.at_ns)
        );
        let mut said = finding("loss_diverged", statement, advice);
        said.evidence
            .push(evidence("not_finite", lost as f64, "count", Some(1.0)));
        said
    } else {
        let medians: Vec<(i64, f64)> = samples
            .windows(FIVE)
            .filter_map(|five| Some((five.last()?.at_ns, median(five)?)))
            .collect();
        let (_, last) = *medians.last()?;
        let (at, lowest) = *medians.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let growth = last / lowest;
        if lowest <= 0.0 || growth < limit {
            return None;
        }
        let statement = format!(
            "`{name}` was {lowest:.3} {} and is {last:.3} at the end",
            moment(at)
        );
        let mut said = finding("loss_diverged", statement, advice);
        said.evidence
            .push(evidence("loss_growth", growth, "ratio", Some(limit)));
        said
    };
    said.gain = Gain::Safety;
    Some(said)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{beside, classes_beside};
    use gpuwise_domain::profile::joined::{ApplicationQuantity::Loss, RecordedMetric::Application};

    #[test]
    fn loss_diverged() {
        let check = |losses: &[f64], expected: bool| {
            let found = classes_beside(&beside(&[(Application(Loss), losses.to_vec())]));
            assert_eq!(
                found.contains(&"loss_diverged".into()),
                expected,
                "{losses:?}: {found:?}"
            );
        };
        check(&[2.5, 2.3, f64::NAN], true);
        check(&[2.5, 2.3, 2.2, 2.1, 2.0, 3.5, 3.9, 4.1, 4.5, 5.0], true);
        check(&[2.5, 2.3, 2.2, 2.1, 2.0, 1.9, 1.9], false);
        // One batch that is hard is no divergence.
        check(&[2.5, 2.3, 2.2, 2.1, 2.0, 9.0, 2.0, 1.9], false);
    }
}
