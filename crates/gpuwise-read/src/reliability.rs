//! `reliability.toml`: how often jobs stop, how long a restart takes, how fast state is saved.

use crate::catalogue::CatalogueError;
use gpuwise_domain::{estimate::Estimate, training_plan::Reliability};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    figure: Vec<Figure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    name: String,
    unit: String,
    value: f64,
    low: f64,
    high: f64,
    #[expect(dead_code, reason = "for people who read the file")]
    meaning: String,
    source: String,
}

/// Names of the figures, with their units, in the order of [`Reliability::sources`].
const FIGURES: [(&str, &str); 3] = [
    ("gpu_hours_per_stop", "GPU-hours"),
    ("restart", "seconds"),
    ("storage_per_gpu", "bytes a second"),
];

/// Reads figures from TOML of the form of `catalogue/reliability.toml`; what it does not state is
/// that of `base`.
///
/// # Errors
/// When the text is not of this form, a figure is not known, is in another unit or not above 0, its
/// range does not hold it, or, without a base, one is missing.
pub fn read_reliability(
    file: &str,
    text: &str,
    base: Option<&Reliability>,
) -> Result<Reliability, CatalogueError> {
    let wrong = |place: &str, problem: String| CatalogueError::new(file, place, problem);
    let read: File = crate::catalogue::from_toml(file, text)?;
    let mut found: [Option<(Estimate, String)>; 3] = match base {
        None => [None, None, None],
        Some(base) => {
            let [stops, restart, storage] = base.sources.clone();
            [
                Some((base.gpu_hours_per_stop, stops)),
                Some((base.restart_seconds, restart)),
                Some((base.storage_per_gpu, storage)),
            ]
        }
    };
    for figure in read.figure {
        let place = format!("figure {}", figure.name);
        let Some((slot, (_, unit))) = found
            .iter_mut()
            .zip(FIGURES)
            .find(|(_, (name, _))| *name == figure.name)
        else {
            let names = FIGURES.map(|(name, _)| name).join(", ");
            return Err(wrong(&place, format!("no such figure; they are {names}")));
        };
        if figure.unit != unit {
            return Err(wrong(
                &place,
                format!("unit {:?}, where {unit:?} is read", figure.unit),
            ));
        }
        let sound = figure.low > 0.0
            && figure.low <= figure.value
            && figure.value <= figure.high
            && figure.high.is_finite();
        if !sound {
            return Err(wrong(
                &place,
                format!(
                    "0 < low <= value <= high does not hold of {}, {}, {}",
                    figure.low, figure.value, figure.high
                ),
            ));
        }
        if figure.source.trim().is_empty() {
            return Err(wrong(&place, "it names no source".into()));
        }
        *slot = Some((
            Estimate {
                value: figure.value,
                low: figure.low,
                high: figure.high,
            },
            figure.source,
        ));
    }
    if let [Some(stops), Some(restart), Some(storage)] = found {
        return Ok(Reliability {
            gpu_hours_per_stop: stops.0,
            restart_seconds: restart.0,
            storage_per_gpu: storage.0,
            sources: [stops.1, restart.1, storage.1],
        });
    }
    let missing: Vec<&str> = found
        .iter()
        .zip(FIGURES)
        .filter(|(slot, _)| slot.is_none())
        .map(|(_, (name, _))| name)
        .collect();
    Err(wrong(
        "file",
        format!("figures are missing: {}", missing.join(", ")),
    ))
}
