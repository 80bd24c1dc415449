//! How large the weights of a service are.

use crate::error::Problem;
use gpuwise_units::Bytes;
use std::{fs, path::Path};

/// Folders within folders.
const DEPTH: usize = 8;

/// As said, else as they lie on this machine; `None`: nothing is said of them.
pub(super) fn size(path: Option<&str>, said: Option<Bytes>) -> anyhow::Result<Option<u64>> {
    let Some(path) = path.filter(|_| said.is_none()) else {
        return Ok(said.map(Bytes::count));
    };
    let found = sum(Path::new(path), DEPTH).map_err(|source| {
        Problem::new(format!("--weights {path}: its size is not known here"))
            .because(source)
            .hint("--weights-size says it, such as 16GiB")
    })?;
    if found == 0 {
        let what = format!("--weights {path}: there is nothing in it");
        return Err(Problem::new(what).into());
    }
    Ok(Some(found))
}

fn sum(path: &Path, depth: usize) -> std::io::Result<u64> {
    let about = fs::metadata(path)?;
    if !about.is_dir() {
        return Ok(about.len());
    }
    let mut all = 0_u64;
    if depth > 0 {
        for entry in fs::read_dir(path)? {
            all = all.saturating_add(sum(&entry?.path(), depth - 1)?);
        }
    }
    Ok(all)
}
