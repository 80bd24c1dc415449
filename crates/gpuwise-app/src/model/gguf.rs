//! GGUF files: their headers, of all parts where a file is split.

use super::{
    ResolvedModel, shown,
    source::{LocalFile, Parts},
};
use crate::error::Problem;
use anyhow::Context as _;
use gpuwise_read::{
    gguf::{self, GgufError, GgufHeader},
    stored,
};
use std::path::{Path, PathBuf};

/// Bytes of the first try: enough for most headers, whose vocabulary takes some megabytes.
const FIRST_BYTES: u64 = 8 << 20;
/// More parts than any split file has.
const MOST_PARTS: u64 = 1000;

/// Reads the header of one file, growing what is read until it is whole.
fn header(name: &str, file: &mut dyn Parts) -> anyhow::Result<GgufHeader> {
    let length = file.length();
    let mut wanted = FIRST_BYTES.min(length);
    loop {
        let bytes = file
            .read(0, wanted)
            .with_context(|| format!("cannot read {name}"))?;
        match gguf::read_header(&bytes, length) {
            Err(GgufError::NeedMore(least)) if wanted < length && wanted < gguf::LARGEST_HEADER => {
                wanted = least
                    .max(wanted.saturating_mul(2))
                    .min(length)
                    .min(gguf::LARGEST_HEADER);
            }
            outcome => return outcome.with_context(|| name.to_owned()),
        }
    }
}

/// A model in a GGUF file, with the other parts where it is split.
pub(super) fn resolve(path: &Path, name: String) -> anyhow::Result<ResolvedModel> {
    let mut whole: Option<GgufHeader> = None;
    let parts = parts(path)?;
    for part in &parts {
        let shown = shown(part);
        let next = header(&shown, &mut LocalFile::open(part)?)?;
        match &mut whole {
            None => whole = Some(next),
            Some(first) => first.append(next).with_context(|| shown)?,
        }
    }
    let whole = whole.ok_or_else(|| Problem::new(format!("{} has no parts", shown(path))))?;
    let architecture = gguf::architecture(&whole).with_context(|| shown(path))?;
    let origin = match parts.len() {
        1 => format!("header of {}", shown(path)),
        count => format!("headers of {count} parts of {}", shown(path)),
    };
    Ok(ResolvedModel {
        name,
        origin,
        architecture: stored::with_gguf(architecture, &whole),
        gguf: true,
    })
}

/// All parts of a file `name-00001-of-00003.gguf`, in order; of another file itself.
fn parts(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let alone = || Ok(vec![path.to_path_buf()]);
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return alone();
    };
    let Some((base, count)) = split_name(name) else {
        return alone();
    };
    let all: Vec<PathBuf> = (1..=count)
        .map(|part| path.with_file_name(format!("{base}-{part:05}-of-{count:05}.gguf")))
        .collect();
    match all.iter().find(|part| !part.is_file()) {
        Some(missing) => Err(Problem::new(format!(
            "{} is missing: {name} is one of {count} parts",
            shown(missing)
        ))
        .hint("download all parts into one directory")
        .into()),
        None => Ok(all),
    }
}

/// The base name and number of parts of `base-00002-of-00003.gguf`.
fn split_name(name: &str) -> Option<(&str, u64)> {
    let stem = name.strip_suffix(".gguf")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (base, part) = rest.rsplit_once('-')?;
    let number = |digits: &str| {
        (digits.len() == 5)
            .then(|| digits.parse::<u64>().ok())
            .flatten()
    };
    let (part, count) = (number(part)?, number(count)?);
    ((1..=count).contains(&part) && count <= MOST_PARTS).then_some((base, count))
}

/// Whether a file is the first part of several, or not split.
pub(super) fn is_first(name: &str) -> bool {
    split_name(name).is_none() || name.contains("-00001-of-")
}

#[cfg(test)]
mod tests {
    use super::split_name;

    #[test]
    fn parts_are_told_by_their_names() {
        for (name, expected) in [
            ("m-00001-of-00003.gguf", Some(("m", 3))),
            ("a-b-00002-of-00002.gguf", Some(("a-b", 2))),
            ("m.gguf", None),
            ("m-00004-of-00003.gguf", None),
            ("m-00000-of-00003.gguf", None),
            ("m-1-of-3.gguf", None),
            ("m-00001-of-99999.gguf", None),
        ] {
            assert_eq!(split_name(name), expected, "{name}");
        }
    }
}
