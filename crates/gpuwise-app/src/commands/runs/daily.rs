//! Figures of runs day by day: of those that are forgotten, and of those that are still there.

use super::prune::DAY_NS;
use gpuwise_store::{DailyFigure, DailyGroup, Filter, RunId, RunRow, Store};
use gpuwise_units::math;
use std::collections::{BTreeMap, BTreeSet};

/// Runs that are summed up together: day, name, source, hardware, labels.
type Key = (i64, String, String, Vec<String>, BTreeMap<String, String>);

#[derive(Debug, Default)]
struct Values {
    runs: u64,
    figures: BTreeMap<String, Vec<f64>>,
}

/// The day a run ran on, or was brought where that is not known: days since 1970, UTC.
fn day(run: &RunRow) -> i64 {
    run.started_at_ns
        .unwrap_or(run.imported_at_ns)
        .div_euclid(DAY_NS)
}

/// Sums runs up by day; where all are of one name, `name` says so; `figures` are the names that count,
/// all where it is empty. Runs without any of them are left out.
///
/// # Errors
/// When the database refuses.
pub(super) fn of_runs(
    store: &Store,
    runs: &[&RunRow],
    name: Option<&str>,
    figures: &[&str],
    forgotten_at_ns: i64,
) -> anyhow::Result<Vec<DailyGroup>> {
    let mut all: BTreeMap<Key, Values> = BTreeMap::new();
    // A day of imports at a time, so that what is held does not grow with the store.
    let imported: BTreeSet<i64> = runs
        .iter()
        .map(|run| run.imported_at_ns.div_euclid(DAY_NS))
        .collect();
    for import_day in imported {
        let within = Filter {
            name: name.map(Into::into),
            since_ns: Some(import_day.saturating_mul(DAY_NS)),
            before_ns: Some(import_day.saturating_add(1).saturating_mul(DAY_NS)),
            ..Filter::default()
        };
        let of_day = |run: &&&RunRow| run.imported_at_ns.div_euclid(DAY_NS) == import_day;
        let mut keys: BTreeMap<RunId, Key> = BTreeMap::new();
        for run in runs.iter().filter(of_day) {
            let key: Key = (
                day(run),
                run.name.clone(),
                run.source.clone(),
                run.hardware.clone(),
                run.labels.clone(),
            );
            all.entry(key.clone()).or_default().runs += 1;
            keys.insert(run.run, key);
        }
        for series in store.series(&within, figures, false)? {
            for (run, value) in series.values {
                let group = keys.get(&run).and_then(|key| all.get_mut(key));
                if let (Some(group), Some(value)) = (group, value) {
                    let values = group.figures.entry(series.figure.clone()).or_default();
                    values.push(value);
                }
            }
        }
    }
    let groups = all
        .into_iter()
        .filter(|(_, values)| !values.figures.is_empty());
    Ok(groups
        .map(
            |((day, name, source, hardware, labels), values)| DailyGroup {
                day,
                name,
                source,
                hardware,
                labels,
                forgotten_at_ns,
                runs: values.runs,
                figures: values
                    .figures
                    .into_iter()
                    .filter_map(|(name, values)| Some((name, summed(values)?)))
                    .collect(),
            },
        )
        .collect())
}

fn summed(mut values: Vec<f64>) -> Option<DailyFigure> {
    values.sort_unstable_by(f64::total_cmp);
    Some(DailyFigure {
        count: values.len() as u64,
        least: *values.first()?,
        median: math::median(&values)?,
        p90: math::quantile(&values, 0.9)?,
        most: *values.last()?,
    })
}

/// Two parts of a day: medians and percentiles are weighed by their counts, which is exact where one
/// part is all.
pub(super) fn together(one: DailyFigure, other: DailyFigure) -> DailyFigure {
    let count = one.count + other.count;
    let weighed =
        |a: f64, b: f64| (a * one.count as f64 + b * other.count as f64) / count.max(1) as f64;
    DailyFigure {
        count,
        least: one.least.min(other.least),
        median: weighed(one.median, other.median),
        p90: weighed(one.p90, other.p90),
        most: one.most.max(other.most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_its_values_in_order() {
        // The 90th percentile of 0, 10, …, 100 lies at 90.
        let values: Vec<f64> = (0..=10)
            .rev()
            .map(|value| f64::from(value) * 10.0)
            .collect();
        let day = summed(values).expect("values");
        let all = (day.count, day.least, day.median, day.p90, day.most);
        assert_eq!(all, (11, 0.0, 50.0, 90.0, 100.0));
        assert_eq!(summed(Vec::new()), None);
        let both = together(day, summed(vec![150.0]).expect("a value"));
        assert_eq!((both.count, both.least, both.most), (12, 0.0, 150.0));
        assert!((both.median - (50.0 * 11.0 + 150.0) / 12.0).abs() < 1e-9);
    }
}
