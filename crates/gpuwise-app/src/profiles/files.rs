//! Files of profiles: directories opened, ranks told by names.

use super::bucket;
use crate::error::Problem;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Endings of files that a directory is searched for.
const ENDINGS: &[&str] = &[
    ".json",
    ".json.gz",
    ".sqlite",
    ".sqlite.gz",
    ".xplane.pb",
    ".pickle",
    ".pickle.gz",
    ".nsys-rep",
    ".ncu-rep",
];

/// Files as named; of directories those that look like profiles, in the order of their names with
/// numbers as numbers.
///
/// # Errors
/// When a place does not exist, a directory or bucket holds no profile, or a bucket cannot be asked.
pub fn expand(places: &[PathBuf], offline: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for place in places {
        if bucket::is_in_one(place) {
            files.extend(of_bucket(place, offline)?);
            continue;
        }
        if !place.is_dir() {
            files.push(place.clone());
            continue;
        }
        let cannot =
            |error| Problem::new(format!("cannot read {}", place.display())).because(error);
        let mut found = Vec::new();
        for entry in fs::read_dir(place).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if is_profile(&path) && path.is_file() {
                found.push(path);
            }
        }
        if found.is_empty() {
            return Err(nothing_in(place).into());
        }
        found.sort_by_key(|path| by_number(&path.to_string_lossy()));
        files.extend(found);
    }
    Ok(files)
}

/// Whether a file looks like a profile by its name.
fn is_profile(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| ENDINGS.iter().any(|ending| name.ends_with(ending)))
}

fn nothing_in(place: &Path) -> Problem {
    Problem::new(format!("{}: no profile is in it", place.display())).hint(format!(
        "name files, or a directory with files that end in {}",
        ENDINGS.join(", ")
    ))
}

/// Profiles of a bucket whose keys begin so.
fn of_bucket(place: &Path, offline: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = bucket::list(place, offline)?;
    found.retain(|file| is_profile(file));
    if found.is_empty() {
        return Err(nothing_in(place).into());
    }
    found.sort_by_key(|path| by_number(&path.to_string_lossy()));
    Ok(found)
}

/// A name in pieces, numbers as numbers: `rank10` after `rank9`.
fn by_number(name: &str) -> Vec<(String, u64)> {
    let mut pieces = vec![(String::new(), 0_u64)];
    let mut in_number = false;
    for c in name.chars() {
        if let Some(digit) = c.to_digit(10) {
            in_number = true;
            if let Some((_, number)) = pieces.last_mut() {
                *number = number.saturating_mul(10).saturating_add(u64::from(digit));
            }
        } else {
            if in_number {
                pieces.push((String::new(), 0));
                in_number = false;
            }
            if let Some((text, _)) = pieces.last_mut() {
                text.push(c);
            }
        }
    }
    pieces
}

/// The rank that a file's name states: `rank7.json.gz`, `trace_rank-3.json`.
pub fn rank_in_name(file: &Path) -> Option<u32> {
    let name = file.file_name()?.to_string_lossy().to_ascii_lowercase();
    let (_, after) = name.rsplit_once("rank")?;
    let after = after.trim_start_matches(['_', '-', '.', '=']);
    let digits = after
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(after.len());
    after.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_state_ranks() {
        let check = |name: &str, rank: Option<u32>| {
            assert_eq!(rank_in_name(Path::new(name)), rank, "{name}");
        };
        check("a/rank7.json.gz", Some(7));
        check("trace_rank-12.json", Some(12));
        check("ranking.json", None);
        check("trace.json", None);
    }

    #[test]
    fn numbers_are_ordered_as_numbers() {
        let mut names = ["rank10.json", "rank9.json", "rank1.json"];
        names.sort_by_key(|name| by_number(name));
        assert_eq!(names, ["rank1.json", "rank9.json", "rank10.json"]);
    }
}
