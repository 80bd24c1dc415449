//! Steps take longer at the end of the recording than at its beginning.

use crate::findings::{
    beside::{finding, median, of_application},
    lost::percent,
    rule::{Profile, Row, Rule, evidence},
};
use gpuwise_domain::profile::{
    finding::{Finding, FindingDefinition},
    joined::{ApplicationQuantity, JoinedSeries},
};

const SLOWER: Row = Row {
    name: "slower_steps",
    value: 1.15,
    unit: "ratio",
    meaning: "the time of a step in the last third of the recording over that in the first, from which it is said",
    source: "-",
};

/// A third has so many values at least.
const ENOUGH: usize = 4;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "slower_steps",
        title: "slower steps",
        signal: "By what the application recorded beside the trace (`--with`: time of a step, tokens or samples a second) the median of the last third is slower than that of the first by `slower_steps` or more.",
        advice: "Compare the trace with one from the fast part; look for clocks, memory that fragments, a data set on slow storage, logs and checkpoints that grow.",
        gain: "not told: the trace shows one of the two parts.",
        source: "-",
    },
    thresholds: &[SLOWER],
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    use ApplicationQuantity::{SampleRate, StepTime, TokenRate};
    let limit = profile.limits.of(&SLOWER);
    let joined = &profile.figures.joined;
    let all = [StepTime, TokenRate, SampleRate].into_iter();
    let mut all = all.flat_map(|quantity| {
        of_application(joined, quantity).map(move |one| (one, quantity == StepTime))
    });
    let found = all.find_map(|(one, is_time)| of_series(one, is_time, limit));
    found.into_iter().collect()
}

fn of_series(one: &JoinedSeries, is_time: bool, limit: f64) -> Option<Finding> {
    let samples = &one.series.samples;
    let third = samples.len() / 3;
    if third < ENOUGH {
        return None;
    }
    let (first, last) = (
        median(samples.get(..third)?)?,
        median(samples.get(samples.len() - third..)?)?,
    );
    let slower = if is_time { last / first } else { first / last };
    if !slower.is_finite() || slower < limit {
        return None;
    }
    let (name, unit) = (one.series.metric.name(), one.series.metric.unit());
    let show = |value| gpuwise_units::significant(value, 3);
    let statement = format!(
        "By `{name}` steps take {} longer in the last third of the recording ({} {unit}) than in the first ({} {unit})",
        percent(slower - 1.0),
        show(last),
        show(first)
    );
    let mut said = finding(
        "slower_steps",
        statement,
        &["Take a trace in the fast part as well and lay both beside one another (`--compare`)."],
    );
    said.evidence = vec![
        evidence("slower_steps", slower, "ratio", Some(limit)),
        evidence(&format!("{name}_first_third"), first, unit, None),
        evidence(&format!("{name}_last_third"), last, unit, None),
    ];
    Some(said)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{beside, classes_beside};
    use gpuwise_domain::profile::joined::{
        ApplicationQuantity::{StepTime, TokenRate},
        RecordedMetric::Application,
    };

    #[test]
    fn slower_steps() {
        let check = |quantity, first: f64, last: f64, expected: bool| {
            let values = [vec![first; 6], vec![last; 6]].concat();
            let found = classes_beside(&beside(&[(Application(quantity), values)]));
            assert_eq!(
                found.contains(&"slower_steps".into()),
                expected,
                "{first} {last}: {found:?}"
            );
        };
        check(StepTime, 0.5, 0.7, true);
        check(StepTime, 0.7, 0.5, false);
        check(TokenRate, 9000.0, 7000.0, true);
        check(TokenRate, 9000.0, 8900.0, false);
    }
}
