//! Which loads are tried: one, several, or a range in which the knee is looked for.

use crate::error::Problem;
use gpuwise_domain::run::LoadUnit;
use gpuwise_units::PerSecond;

/// The search ends where the knee is known this well.
const CLOSE: f64 = 1.06;
/// A ladder climbs by this factor at least …
const STEP: f64 = 2.0;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Loads {
    /// As the workload or trace says.
    Stated,
    List(LoadUnit, Vec<f64>),
    /// Some from here to there.
    Range(LoadUnit, f64, f64),
}

impl Loads {
    /// As flags have it.
    pub(crate) fn of(rate: Option<&str>, concurrency: Option<&str>) -> anyhow::Result<Self> {
        let many = |text: &&str| text.contains("..") || text.contains(',');
        match (rate, concurrency) {
            // Which load varies is only asked where one does: a rate with a limit is no sweep.
            (Some(rate), Some(limit)) if many(&rate) && many(&limit) => Err(Problem::new(
                "--rate and --concurrency both say several loads",
            )
            .hint("vary one of them at a time")
            .into()),
            (Some(rate), _) if many(&rate) => {
                read("--rate", LoadUnit::RequestsPerSecond, rate, |text| {
                    let rate: PerSecond = text.parse().map_err(|error| format!("{error}"))?;
                    Ok(rate.get())
                })
            }
            (None, Some(limit)) if many(&limit) => {
                read("--concurrency", LoadUnit::Concurrent, limit, |text| {
                    let count: u32 = text
                        .parse()
                        .map_err(|_| "expected whole numbers".to_owned())?;
                    Ok(f64::from(count))
                })
            }
            (Some(_), Some(limit)) if many(&limit) => Err(Problem::new(format!(
                "--concurrency {limit}: with --rate it is the most concurrent requests, one number"
            ))
            .into()),
            _ => Ok(Self::Stated),
        }
    }
}

fn read(
    flag: &str,
    unit: LoadUnit,
    text: &str,
    number: impl Fn(&str) -> Result<f64, String>,
) -> anyhow::Result<Loads> {
    let number = |part: &str| -> anyhow::Result<f64> {
        let value = number(part.trim())
            .map_err(|error| Problem::new(format!("{flag} {text}: {part:?}: {error}")))?;
        if value.is_finite() && value > 0.0 {
            Ok(value)
        } else {
            Err(Problem::new(format!("{flag} {text}: a load of {part} sends nothing")).into())
        }
    };
    if let Some((low, high)) = text.split_once("..") {
        let (low, high) = (number(low)?, number(high.trim_start_matches('='))?);
        if low >= high {
            return Err(Problem::new(format!("{flag} {text}: the range is empty"))
                .hint(format!("write the lower load first: {flag} {high}..{low}"))
                .into());
        }
        return Ok(Loads::Range(unit, low, high));
    }
    let mut list = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
    list.sort_by(f64::total_cmp);
    list.dedup();
    Ok(Loads::List(unit, list))
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trial {
    pub load: f64,
    /// Whether it was carried: the SLO kept, or without one no sign of saturation.
    pub carried: bool,
}

/// The next load to try in a range: a ladder upwards until one is not carried, then between.
/// `None`: it is known well enough.
pub(crate) fn next(unit: LoadUnit, low: f64, high: f64, tried: &[Trial], most: u32) -> Option<f64> {
    if tried.len() >= most as usize {
        return None;
    }
    let carried = tried.iter().filter(|one| one.carried);
    let best = carried.map(|one| one.load).fold(0.0, f64::max);
    let failed = tried.iter().filter(|one| !one.carried);
    let worst = failed.map(|one| one.load).fold(f64::INFINITY, f64::min);
    if tried.is_empty() {
        return Some(low);
    }
    if worst <= low || best >= high {
        return None;
    }
    let next = if worst.is_infinite() {
        // … and so that it leaves half of the loads for what lies between.
        let rungs = f64::from(most.div_ceil(2));
        let step = (high / low).powf(1.0 / rungs).max(STEP);
        let up = best * step;
        // No tiny last rung.
        if up * step.sqrt() > high { high } else { up }
    } else if worst > best && best > 0.0 {
        (worst * best).sqrt()
    } else {
        return None;
    };
    let next = rounded(unit, next);
    let known = worst.is_finite() && worst / best <= CLOSE;
    let repeated = tried.iter().any(|one| one.load.total_cmp(&next).is_eq());
    (!known && !repeated).then_some(next)
}

/// A load that is said in a few digits.
fn rounded(unit: LoadUnit, load: f64) -> f64 {
    match unit {
        LoadUnit::Concurrent => load.round(),
        LoadUnit::RequestsPerSecond => {
            let digits = 10f64.powf(2.0 - load.log10().floor());
            (load * digits).round() / digits
        }
    }
}

/// The largest load that was carried below all that were not, and the smallest that was not.
pub(crate) fn knee(tried: &[Trial]) -> Option<(f64, Option<f64>)> {
    let failed = tried.iter().filter(|one| !one.carried);
    let worst = failed.map(|one| one.load).fold(f64::INFINITY, f64::min);
    let below = tried.iter().filter(|one| one.carried && one.load < worst);
    let best = below.map(|one| one.load).fold(0.0, f64::max);
    (best > 0.0).then(|| (best, worst.is_finite().then_some(worst)))
}

#[cfg(test)]
mod tests {
    use super::{Loads, Trial, knee, next};
    use gpuwise_domain::run::LoadUnit::{Concurrent, RequestsPerSecond};

    #[track_caller]
    fn check(rate: Option<&str>, concurrency: Option<&str>, expected: Result<Loads, &str>) {
        let found = Loads::of(rate, concurrency);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{error} without {part}");
            }
            (found, expected) => panic!("{found:?} in place of {expected:?}"),
        }
    }

    #[test]
    fn loads_by_flags() {
        check(None, None, Ok(Loads::Stated));
        check(Some("8"), Some("64"), Ok(Loads::Stated));
        check(
            Some("2..40"),
            None,
            Ok(Loads::Range(RequestsPerSecond, 2.0, 40.0)),
        );
        check(
            Some("2/s..=600/min"),
            None,
            Ok(Loads::Range(RequestsPerSecond, 2.0, 10.0)),
        );
        check(
            Some("8,2,8"),
            None,
            Ok(Loads::List(RequestsPerSecond, vec![2.0, 8.0])),
        );
        check(
            None,
            Some("1,4"),
            Ok(Loads::List(Concurrent, vec![1.0, 4.0])),
        );
        check(None, Some("1.5,4"), Err("whole numbers"));
        check(Some("0..4"), None, Err("sends nothing"));
        check(Some("40..2"), None, Err("the range is empty"));
        check(Some("2,x"), None, Err("a rate such as"));
        check(Some("2..4"), Some("1,2"), Err("several loads"));
        check(Some("2"), Some("1,2"), Err("one number"));
    }

    /// Tries loads until the search ends, with all up to `limit` carried.
    fn search(low: f64, high: f64, limit: f64, most: u32) -> Vec<f64> {
        let mut tried = Vec::new();
        while let Some(load) = next(RequestsPerSecond, low, high, &tried, most) {
            tried.push(Trial {
                load,
                carried: load <= limit,
            });
        }
        tried.iter().map(|one| one.load).collect()
    }

    #[test]
    fn a_range_is_climbed_and_then_halved() {
        assert_eq!(search(5.0, 80.0, 100.0, 8), [5.0, 10.0, 20.0, 40.0, 80.0]);
        assert_eq!(search(5.0, 80.0, 100.0, 4), [5.0, 20.0, 80.0]);
        assert_eq!(search(4.0, 6.0, 100.0, 8), [4.0, 6.0]);
        assert_eq!(search(5.0, 80.0, 1.0, 8), [5.0]);
        let found = search(5.0, 80.0, 23.0, 8);
        assert_eq!(found, [5.0, 10.0, 20.0, 40.0, 28.3, 23.8, 21.8, 22.8]);
        assert_eq!(search(5.0, 80.0, 23.0, 4).len(), 4);
    }

    #[test]
    fn the_knee_is_below_all_that_failed() {
        let tried = |list: &[(f64, bool)]| -> Vec<Trial> {
            let one = |(load, carried): &(f64, bool)| Trial {
                load: *load,
                carried: *carried,
            };
            list.iter().map(one).collect()
        };
        assert_eq!(
            knee(&tried(&[(1.0, true), (2.0, false), (3.0, true)])),
            Some((1.0, Some(2.0)))
        );
        assert_eq!(knee(&tried(&[(1.0, true)])), Some((1.0, None)));
        assert_eq!(knee(&tried(&[(1.0, false)])), None);
    }
}
