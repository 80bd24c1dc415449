//! Models by the class of their size, or by name.

use crate::{
    catalogue::Loaded,
    error::Problem,
    model::{self, ResolvedModel},
};
use gpuwise_domain::catalogue::folded;

/// How far a model may be from the size that it is to stand for.
const NEAR: f64 = 0.15;

pub(super) struct Named {
    pub(super) resolved: ResolvedModel,
    /// The size that it stands for.
    pub(super) class: Option<String>,
    /// The popular range of its memory in 10⁹ bytes.
    pub(super) popular_gb: Option<(f64, f64)>,
}

/// Finds them: a size by the catalogue's representative, another size by the model nearest to it,
/// anything else as a model is named everywhere.
pub(super) fn named(
    wanted: &[String],
    loaded: &Loaded,
    offline: bool,
) -> anyhow::Result<Vec<Named>> {
    wanted
        .iter()
        .map(|text| one(text.trim(), loaded, offline))
        .collect()
}

fn one(text: &str, loaded: &Loaded, offline: bool) -> anyhow::Result<Named> {
    let known = loaded
        .size_classes
        .iter()
        .find(|known| folded(&known.class) == folded(text));
    if let Some(known) = known {
        return Ok(Named {
            resolved: model::resolve(&known.model, loaded, offline)?.of_text()?,
            class: Some(known.class.clone()),
            popular_gb: known.popular_gb,
        });
    }
    let Some(parameters) = size(text) else {
        return Ok(Named {
            resolved: model::resolve(text, loaded, offline)?.of_text()?,
            class: None,
            popular_gb: None,
        });
    };
    let found = nearest(parameters, loaded).ok_or_else(|| {
        Problem::new(format!(
            "--models {text}: no dense model of the catalogue has within {:.0} % of so many parameters",
            NEAR * 100.0
        ))
        .hint("name a model of `gpuwise models`; a row of size_classes.csv of your own names one for a size")
    })?;
    Ok(Named {
        resolved: model::resolve(&found, loaded, offline)?,
        class: Some(text.to_owned()),
        popular_gb: None,
    })
}

/// `13b`, `1.5B`: parameters.
fn size(text: &str) -> Option<f64> {
    let number = text.strip_suffix(['b', 'B'])?;
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    let billions: f64 = number.chars().all(plain).then(|| number.parse().ok())??;
    (billions > 0.0).then_some(billions * 1e9)
}

/// The dense model nearest to a size; of equally near ones the first in the catalogue.
fn nearest(parameters: f64, loaded: &Loaded) -> Option<String> {
    let mut best: Option<(f64, String)> = None;
    for entry in loaded.models.entries() {
        let Ok((entry, architecture)) = loaded.models.resolve(&entry.id) else {
            continue;
        };
        let off = (architecture.parameters().0 as f64 / parameters).ln().abs();
        let dense = !architecture.has_experts() && architecture.encoder.is_none();
        if dense && off <= NEAR && best.as_ref().is_none_or(|(known, _)| off < *known) {
            best = Some((off, entry.id.clone()));
        }
    }
    best.map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_told_from_names() {
        for (text, parameters) in [
            ("8b", Some(8e9)),
            ("1.5B", Some(1.5e9)),
            ("b", None),
            ("0b", None),
            ("llama-8b", None),
            ("1.2.3b", None),
        ] {
            assert_eq!(size(text), parameters, "{text}");
        }
    }
}
