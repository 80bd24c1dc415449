//! Files that commands read, as examples: to see their form, and to begin one's own.

use crate::{catalogue, error::Problem};

/// An example of a file.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    pub name: &'static str,
    /// What reads such a file.
    pub read_by: &'static str,
    pub text: &'static str,
}

macro_rules! inputs {
    ($($name:literal $read_by:literal),* $(,)?) => {
        const INPUTS: &[Example] = &[$(Example {
            name: $name,
            read_by: $read_by,
            text: include_str!(concat!("../../../docs/guides/files/", $name)),
        }),*];
    };
}

// The guides use the same files, so that each of them is read by a test.
inputs! {
    "variants.toml" "scale replay --variants",
    "workload.toml" "--workload of plan, simulate, bench and others",
    "questions.csv" "predict",
    "measured.csv" "calibrate, accuracy, runs import",
    "prices.csv" "--prices",
    "node.toml" "--host of check and train",
    "fabric.toml" "--fabric, composed",
    "fleet.toml" "fleet, place, capacity, lint",
    "lab.toml" "serve --fleet, fleet, place",
    "policy.toml" "place, capacity, replay and serve --policy",
    "jobs.toml" "place, capacity, fleet check --jobs",
    "jobs.csv" "tier",
    "lessons.csv" "tier --learn",
    "usage.csv" "audit",
    "requests.jsonl" "workload from-log",
}

/// Every example, and every file of the catalogue.
pub fn all() -> impl Iterator<Item = Example> {
    let carried = catalogue::carried().map(|(name, text)| Example {
        name,
        read_by: "$GPUWISE_CATALOGUE",
        text,
    });
    INPUTS.iter().copied().chain(carried)
}

/// The example of a name.
///
/// # Errors
/// When there is none.
pub fn named(name: &str) -> anyhow::Result<Example> {
    let found = all().find(|known| known.name == name);
    found.ok_or_else(|| {
        let like = all().filter(|known| known.name.contains(name));
        let like: Vec<String> = like.map(|known| known.name.into()).collect();
        Problem::new(format!("there is no example {name:?}"))
            .did_you_mean(&like)
            .hint("`gpuwise example` lists all")
            .into()
    })
}
