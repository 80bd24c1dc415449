//! Names of GPUs and providers as people write them.

use crate::error::Problem;
use gpuwise_domain::{
    catalogue::{Catalogue, folded},
    gpu::{Device, Gpu},
};
use std::collections::BTreeSet;

/// The GPU of this name.
///
/// # Errors
/// When there is none, with names like it.
pub fn gpu<'a>(catalogue: &'a Catalogue, flag: &str, name: &str) -> anyhow::Result<&'a Gpu> {
    catalogue.gpu(name.trim()).ok_or_else(|| {
        if sliced(name).is_some()
            && let Ok(found) = device(catalogue, flag, name)
        {
            let whole = &found.gpu.name;
            return Problem::new(format!(
                "{flag} {name}: a MIG slice, and whole GPUs are meant here"
            ))
            .hint(format!("name {whole:?}"))
            .into();
        }
        Problem::new(format!("{flag} {name}: no such GPU is in the catalogue"))
            .did_you_mean(&catalogue.gpus_like(name))
            .hint("`gpuwise gpus` lists those that are known; a file of your own adds more")
            .into()
    })
}

/// A GPU, or a slice of it where the text ends in one of its MIG profiles.
///
/// # Errors
/// When there is no such GPU, or it has no such profile.
pub fn device<'a>(catalogue: &'a Catalogue, flag: &str, text: &str) -> anyhow::Result<Device<'a>> {
    let Some((name, profile)) = sliced(text) else {
        return Ok(Device::whole(gpu(catalogue, flag, text)?));
    };
    let gpu = gpu(catalogue, flag, name)?;
    let profiles: Vec<_> = catalogue.mig_profiles(gpu).collect();
    if let Some(slice) = profiles
        .iter()
        .find(|known| known.profile.eq_ignore_ascii_case(profile))
    {
        return Ok(Device {
            gpu,
            slice: Some(slice),
        });
    }
    let problem = Problem::new(format!(
        "{flag} {text}: {} has no MIG profile {profile:?}",
        gpu.name
    ));
    let names: Vec<&str> = profiles
        .iter()
        .map(|known| known.profile.as_str())
        .collect();
    Err(match names.as_slice() {
        [] => problem.hint("it cannot be partitioned by MIG"),
        names => problem.hint(format!("its profiles are {}", names.join(", "))),
    }
    .into())
}

/// A name without the MIG profile at its end, and the profile.
pub fn sliced(text: &str) -> Option<(&str, &str)> {
    let (name, last) = text.trim().rsplit_once(' ')?;
    is_profile(last).then(|| (name.trim_end(), last))
}

/// `3g.40gb`, `1g.10gb+me`.
fn is_profile(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let Some((slices, memory)) = lower.split_once('.') else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    slices.strip_suffix('g').is_some_and(digits) && memory.contains("gb")
}

/// The providers of these names as offers write them.
///
/// # Errors
/// When no offer is of one of them.
pub fn providers(
    catalogue: &Catalogue,
    flag: &str,
    names: &[String],
) -> anyhow::Result<Vec<String>> {
    let known: BTreeSet<&str> = catalogue
        .offers
        .iter()
        .map(|offer| offer.provider.as_str())
        .collect();
    let find = |name: &String| {
        let found = known.iter().find(|known| folded(known) == folded(name));
        found.map(|known| (*known).to_owned()).ok_or_else(|| {
            let all: Vec<&str> = known.iter().copied().collect();
            Problem::new(format!("{flag} {name}: no offer is of this provider"))
                .hint(format!("providers are {}", all.join(", ")))
                .into()
        })
    };
    names.iter().map(find).collect()
}

/// Checks that offers have a region that begins with each of these.
///
/// # Errors
/// When none has.
pub fn regions(catalogue: &Catalogue, flag: &str, prefixes: &[String]) -> anyhow::Result<()> {
    for prefix in prefixes {
        if catalogue
            .offers
            .iter()
            .any(|offer| offer.region.starts_with(prefix.as_str()))
        {
            continue;
        }
        let known: BTreeSet<&str> = catalogue
            .offers
            .iter()
            .map(|offer| offer.region.as_str())
            .filter(|region| !region.is_empty())
            .collect();
        let begin: String = prefix.chars().take(3).collect();
        let like = known
            .into_iter()
            .filter(|region| region.starts_with(&begin));
        let like: Vec<String> = like.take(8).map(str::to_owned).collect();
        return Err(
            Problem::new(format!("{flag} {prefix}: no offer is in such a region"))
                .did_you_mean(&like)
                .hint("`gpuwise offers` lists offers with their regions, such as us-east-1 or europe-west4")
                .into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_profile;

    #[test]
    fn profiles_are_told_from_names() {
        for (word, profile) in [
            ("3g.40gb", true),
            ("1g.10gb+me", true),
            ("1G.10GB", true),
            ("80GB", false),
            ("SXM4", false),
            ("g.40gb", false),
        ] {
            assert_eq!(is_profile(word), profile, "{word}");
        }
    }
}
