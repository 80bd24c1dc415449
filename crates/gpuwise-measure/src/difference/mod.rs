//! What two runs spend on each name, and how sure it is that they differ.
//!
//! The interval of a difference is Welch's (1947), from how much the steps of each run differ among
//! themselves; where a run marks no steps, whole profiles are compared by how much calls differ. It
//! covers what varies within a run; what makes one run of the same job differ from the next (clocks,
//! neighbours, a warm cache) is not in it: `runs regress` judges that, from many runs.

mod student;

use gpuwise_domain::profile::figures::{NamedTime, StepKind, TimedBy};
use std::collections::BTreeMap;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The time of a step of one rank, of this kind in both runs.
    Step(StepKind),
    /// The time of the whole profile: steps are not known of both.
    Profile,
}

/// A name in both runs. Times are of one step, or of the whole profile.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeDifference {
    /// None: all names that have no row of their own.
    pub name: Option<String>,
    pub before: Side,
    pub after: Side,
    /// After less before, in nanoseconds.
    pub change_ns: f64,
    /// Between which it lies, at 95 % confidence; none where a single call tells nothing of spread.
    pub interval_ns: Option<(f64, f64)>,
}

/// A name in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    /// None: it is not among the names that were kept, and takes less than each of them.
    pub ns: Option<f64>,
    pub calls: Option<u64>,
}

impl TimeDifference {
    /// Whether it is surer than 95 % that the run after spends more, or less.
    pub fn is_sure(&self) -> bool {
        self.interval_ns
            .is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// The change as a share of what was; none where that is nothing or not known.
    pub fn share(&self) -> Option<f64> {
        let before = self.before.ns.filter(|before| *before > 0.0)?;
        Some(self.change_ns / before)
    }
}

/// A time with what its spread says of it.
#[derive(Debug, Clone, Copy)]
struct Amount {
    ns: f64,
    calls: Option<u64>,
    /// Squared standard error and its degrees of freedom; none where the spread is not known.
    error: Option<(f64, f64)>,
    /// It may be this much more or less, whatever its spread.
    unknown_ns: f64,
}

impl Amount {
    fn of(time: &NamedTime, basis: Basis) -> Self {
        let steps = time.steps.filter(|_| matches!(basis, Basis::Step(_)));
        let (ns, error) = if let Some(steps) = steps {
            let count = steps.count as f64;
            (steps.mean_ns, Some((steps.variance / count, count - 1.0)))
        } else {
            let calls = time.calls as f64;
            let of = |variance: f64| (variance * calls, calls - 1.0);
            (time.sum_ns as f64, time.call_variance.map(of))
        };
        Self {
            ns,
            calls: Some(time.calls),
            error,
            unknown_ns: 0.0,
        }
    }

    /// Of a name that is not listed: nothing, unless the list was cut.
    fn absent(list: &[&NamedTime], basis: Basis) -> Self {
        let cut = list.iter().any(|time| time.name.is_none());
        let named = list.iter().filter(|time| time.name.is_some());
        let least = named.map(|time| Self::of(time, basis).ns).reduce(f64::min);
        let half = least.filter(|_| cut).unwrap_or(0.0) / 2.0;
        Self {
            ns: half,
            calls: (!cut).then_some(0),
            error: Some((0.0, f64::INFINITY)),
            unknown_ns: half,
        }
    }

    fn side(self) -> Side {
        Side {
            ns: (self.unknown_ns == 0.0).then_some(self.ns),
            calls: self.calls,
        }
    }
}

/// Both runs by name, the largest difference first; what the rest of the names did comes last.
pub fn of_times(
    before: &[NamedTime],
    after: &[NamedTime],
    by: TimedBy,
) -> (Basis, Vec<TimeDifference>) {
    let before: Vec<&NamedTime> = before.iter().filter(|time| time.by == by).collect();
    let after: Vec<&NamedTime> = after.iter().filter(|time| time.by == by).collect();
    let kind = |time: &&NamedTime| time.steps.as_ref().map(|steps| steps.kind);
    let mut kinds = before.iter().chain(&after).map(kind);
    let first = kinds
        .next()
        .flatten()
        .filter(|first| kinds.all(|kind| kind == Some(*first)));
    let basis = first.map_or(Basis::Profile, Basis::Step);
    let mut names: BTreeMap<Option<&str>, [Option<Amount>; 2]> = BTreeMap::new();
    for (place, list) in [(0, &before), (1, &after)] {
        for time in list {
            let sides = names.entry(time.name.as_deref()).or_default();
            sides[place] = Some(Amount::of(time, basis));
        }
    }
    let mut rows: Vec<TimeDifference> = names
        .into_iter()
        .map(|(name, [old, new])| {
            let none = |list| match name {
                Some(_) => Amount::absent(list, basis),
                // A list without a rest has all its names.
                None => Amount::absent(&[], basis),
            };
            let (old, new) = (
                old.unwrap_or_else(|| none(&before)),
                new.unwrap_or_else(|| none(&after)),
            );
            difference(name, old, new)
        })
        .collect();
    rows.sort_by(|a, b| {
        let size = |row: &TimeDifference| row.change_ns.abs();
        (a.name.is_none().cmp(&b.name.is_none())).then(size(b).total_cmp(&size(a)))
    });
    (basis, rows)
}

fn difference(name: Option<&str>, before: Amount, after: Amount) -> TimeDifference {
    let change_ns = after.ns - before.ns;
    let unknown = before.unknown_ns + after.unknown_ns;
    let interval_ns = before.error.zip(after.error).map(|(old, new)| {
        let half = half_width(old, new) + unknown;
        (change_ns - half, change_ns + half)
    });
    TimeDifference {
        name: name.map(Into::into),
        before: before.side(),
        after: after.side(),
        change_ns,
        interval_ns,
    }
}

/// Half of the 95 % interval of a difference of means, from squared standard errors and degrees of
/// freedom; Welch–Satterthwaite.
fn half_width(before: (f64, f64), after: (f64, f64)) -> f64 {
    let error = before.0 + after.0;
    if error <= 0.0 {
        return 0.0;
    }
    let share = |(one, freedom): (f64, f64)| one * one / freedom;
    let freedom = error * error / (share(before) + share(after));
    student::two_sided_95(freedom) * libm::sqrt(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_domain::profile::figures::StepTime;
    use gpuwise_units::RandomStream;

    fn time(name: Option<&str>, samples: &[f64]) -> NamedTime {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|value| (value - mean).powi(2)).sum();
        NamedTime {
            by: TimedBy::Operator,
            name: name.map(Into::into),
            calls: samples.len() as u64,
            sum_ns: (mean * count) as i64,
            call_variance: Some(squares / (count - 1.0)),
            steps: Some(StepTime {
                kind: StepKind::Step,
                count: samples.len() as u64,
                mean_ns: mean,
                variance: squares / (count - 1.0),
            }),
        }
    }

    #[test]
    fn an_interval_is_as_welch_has_it() {
        // Worked by hand: means 20 and 26, variances 10 and 20, five steps each: squared error
        // 6, degrees of freedom 6² / (2² / 4 + 4² / 4) = 7.2, t = 2.351.
        let before = time(Some("a"), &[16.0, 18.0, 20.0, 22.0, 24.0]);
        let after = time(Some("a"), &[20.0, 24.0, 26.0, 28.0, 32.0]);
        let (basis, rows) = of_times(&[before], &[after], TimedBy::Operator);
        assert_eq!((basis, rows.len()), (Basis::Step(StepKind::Step), 1));
        let (low, high) = rows[0].interval_ns.expect("an interval");
        assert!((rows[0].change_ns - 6.0).abs() < 1e-9);
        assert!((high - 6.0 - 2.351 * 6.0_f64.sqrt()).abs() < 0.01, "{high}");
        assert!((low + high - 12.0).abs() < 1e-9);
        assert!(rows[0].is_sure());
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_truth() {
        let mut random = RandomStream::new(7, "difference", 0);
        let mut held = 0;
        for _ in 0..2_000 {
            // The sum of twelve uniform draws is nearly normal.
            let mut draw = |spread: f64| {
                let sum: f64 = (0..12).map(|_| random.uniform()).sum();
                1_000.0 + spread * (sum - 6.0)
            };
            let before: Vec<f64> = (0..4).map(|_| draw(10.0)).collect();
            let after: Vec<f64> = (0..9).map(|_| draw(40.0) + 50.0).collect();
            let (_, rows) = of_times(
                &[time(Some("a"), &before)],
                &[time(Some("a"), &after)],
                TimedBy::Operator,
            );
            let (low, high) = rows[0].interval_ns.expect("an interval");
            held += u32::from((low..=high).contains(&50.0));
        }
        // Four standard deviations of a share of 95 % in 2,000 are 39.
        assert!((1_861..=1_939).contains(&held), "{held}");
    }

    #[test]
    fn what_is_not_listed_is_nothing_or_less_than_what_is() {
        let (a, b) = (
            time(Some("a"), &[90.0, 110.0]),
            time(Some("b"), &[8.0, 12.0]),
        );
        let whole = [b.clone()];
        let (_, rows) = of_times(&[a.clone(), b.clone()], &whole, TimedBy::Operator);
        let gone = rows.iter().find(|row| row.name.as_deref() == Some("a"));
        let gone = gone.expect("a row");
        assert_eq!((gone.after.ns, gone.change_ns), (Some(0.0), -100.0));
        let cut = [b, time(None, &[3.0, 4.0])];
        let (_, rows) = of_times(&[a], &cut, TimedBy::Operator);
        assert_eq!(rows[0].name.as_deref(), Some("a"));
        assert_eq!((rows[0].after.ns, rows[0].change_ns), (None, -95.0));
        assert_eq!(rows.last().and_then(|row| row.name.clone()), None);
    }

    #[test]
    fn without_steps_whole_profiles_are_compared() {
        let mut before = time(Some("a"), &[10.0, 10.0, 10.0, 14.0]);
        before.steps = None;
        let after = time(Some("a"), &[20.0, 20.0]);
        let (basis, rows) = of_times(&[before], &[after], TimedBy::Operator);
        assert_eq!((basis, rows[0].change_ns), (Basis::Profile, -4.0));
        // Variance 4 of four calls: squared error 16; t of 3 degrees is 3.182.
        let (low, high) = rows[0].interval_ns.expect("an interval");
        assert!(
            (high - low - 2.0 * 3.182 * 4.0).abs() < 0.01,
            "{low} {high}"
        );
    }
}
