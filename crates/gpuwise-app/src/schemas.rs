//! JSON Schemas of what is answered and saved.

use crate::{commands, error::Problem};

macro_rules! committed {
    ($($name:literal)*) => {
        /// Every schema, by its name in `gpuwise.NAME/v1`.
        const ALL: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("../../../docs/reference/schema/", $name, ".v1.json")),
        ),)*];
    };
}

committed! {
    "accuracy" "audit" "calibrate" "capacity" "check" "check-host" "compare" "composed"
    "composed-replay" "deployment" "evidence" "fleet" "gpus" "gpus-check" "lint" "media-plan" "memory"
    "models" "models-parts" "offers" "place" "place-why" "plan" "predict" "profile" "replay" "run"
    "runs-export" "runs-list" "runs-prune" "serving-plan" "table" "tco" "tco-explain" "tier" "train"
    "watch" "workload"
}

/// Names of all schemas.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// The schema of a name, as a text.
///
/// # Errors
/// When there is none.
pub fn schema(name: &str) -> anyhow::Result<&'static str> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    let found = found.ok_or_else(|| {
        let like = names().filter(|known| known.starts_with(name));
        let like: Vec<String> = like.map(Into::into).collect();
        Problem::new(format!("there is no schema {name:?}"))
            .did_you_mean(&like)
            .hint("`gpuwise schema` lists all")
    })?;
    Ok(found.1)
}

/// Those that follow from the declaration of an answer's fields.
pub fn declared() -> Vec<(&'static str, String)> {
    vec![
        ("serving-plan", commands::plan::schema("serving-plan")),
        ("media-plan", commands::plan::media_schema("media-plan")),
        ("train", commands::train::schema("train")),
        ("memory", commands::memory::schema("memory")),
        ("check", commands::check::schema("check")),
        ("check-host", commands::check::host_schema("check-host")),
        ("tco", commands::tco::schema("tco")),
        (
            "tco-explain",
            commands::tco::explained_schema("tco-explain"),
        ),
        ("gpus", commands::gpus::schema("gpus")),
        ("offers", commands::offers::schema("offers")),
    ]
}
