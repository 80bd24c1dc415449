//! The driver says that it held clocks down while the trace was taken.

use crate::findings::{
    beside::{HARDWARE, HEAT, POWER, device_mean, finding, share_with},
    lost::percent,
    rule::{Profile, Row, Rule, evidence},
};
use gpuwise_domain::{
    profile::finding::{Finding, FindingDefinition, Gain},
    telemetry::Quantity,
};

const SHARE: Row = Row {
    name: "held_clock_share",
    value: 0.1,
    unit: "share of the samples",
    meaning: "samples within the trace in which the driver holds the clock down from which it is said",
    source: "-",
};

const LEAST: Row = Row {
    name: "held_clock_loss",
    value: 0.03,
    unit: "share of the clock",
    meaning: "how far the clock must lie below its highest",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "held_clock",
        title: "clock held down",
        signal: "Of the samples of the driver's clock event reasons that were recorded while the trace was taken (`--with`), `held_clock_share` or more name heat, the power limit or the power brake; the mean clock lies `held_clock_loss` or more below the highest, where both are recorded. Other than `throttled_clock` it sees a clock that was low all the time.",
        advice: "By heat: air flow, inlet temperature, neighbours. By power: a higher limit where the cooling bears it; else it is the price of the power budget.",
        gain: "high: 1 − clock over the highest, of the time in which anything is computed; low: 0, since work that is bound by memory follows the clock in part.",
        source: "NVML clock event reasons (nvml.h); Meta, Zoomer (2025)",
    },
    thresholds: &[SHARE, LEAST],
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    let joined = &profile.figures.joined;
    let limit = profile.limits.of(&SHARE);
    let of = |bits| share_with(joined, bits).unwrap_or(0.0);
    let (heat, power) = (of(HEAT), of(POWER));
    let share = of(HEAT | POWER | HARDWARE);
    if share < limit {
        return Vec::new();
    }
    let clock = device_mean(joined, Quantity::SmClock);
    let highest = device_mean(joined, Quantity::SmClockMax).filter(|highest| *highest > 0.0);
    let lost = clock
        .zip(highest)
        .map(|(clock, highest)| (1.0 - clock / highest).max(0.0));
    if lost.is_some_and(|lost| lost < profile.limits.of(&LEAST)) {
        return Vec::new();
    }
    let by_heat = heat >= power && heat > 0.0;
    let (who, advice): (&str, &[&str]) = if by_heat {
        (
            "Heat",
            &["Check air flow, fans, inlet temperature and dust; compare with the GPUs beside it."],
        )
    } else if power > 0.0 {
        (
            "The power limit",
            &[
                "Raise it where the cooling bears it (`nvidia-smi -pl`); else count with this clock: it is what the power budget buys.",
            ],
        )
    } else {
        (
            "A slowdown of the hardware",
            &["Look at `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER` while it runs."],
        )
    };
    let mut statement = format!(
        "{who} held clocks down in {} of the samples within the trace",
        percent(share)
    );
    let mut shown = vec![evidence(
        "clock_reasons",
        share,
        "share of the samples",
        Some(limit),
    )];
    if let Some((clock, highest)) = clock.zip(highest) {
        statement = format!("{statement}: {clock:.0} MHz of {highest:.0}");
        shown.push(evidence("sm_clock_mean", clock, "MHz", None));
        shown.push(evidence("sm_clock_max", highest, "MHz", None));
    }
    for (quantity, name, unit) in [
        (Quantity::Temperature, "temperature", "C"),
        (Quantity::PowerDraw, "power_draw", "W"),
    ] {
        if let Some(value) = device_mean(joined, quantity) {
            shown.push(evidence(name, value, unit, None));
        }
    }
    let ranks = &profile.figures.ranks;
    let computed: i64 = ranks
        .iter()
        .map(|rank| rank.whole.classes.computation_ns)
        .sum();
    let span: i64 = ranks.iter().map(|rank| rank.whole.span_ns()).sum();
    let computing = computed as f64 / (span as f64).max(1.0);
    let mut found = finding("held_clock", statement, advice);
    found.evidence = shown;
    found.gain = lost.map_or(Gain::Unknown, |lost| Gain::Time {
        low: 0.0,
        high: (lost * computing).min(1.0),
    });
    vec![found]
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{beside, classes_beside};
    use gpuwise_domain::{profile::joined::RecordedMetric::Gpu, telemetry::Quantity};

    #[test]
    fn held_clock() {
        let check = |bits: f64, clock: f64, expected: bool| {
            let series = [
                (Gpu(Quantity::ClockReasons), vec![bits; 3]),
                (Gpu(Quantity::SmClock), vec![clock; 3]),
                (Gpu(Quantity::SmClockMax), vec![1980.0; 3]),
            ];
            let found = classes_beside(&beside(&series));
            assert_eq!(
                found.contains(&"held_clock".into()),
                expected,
                "{bits} {clock}: {found:?}"
            );
        };
        check(64.0, 1410.0, true);
        check(4.0, 1410.0, true);
        // Idle, and application clocks, are nobody's fault; a clock at its highest lost nothing.
        check(1.0, 1410.0, false);
        check(64.0, 1980.0, false);
    }
}
