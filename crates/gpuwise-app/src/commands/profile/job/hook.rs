//! PyTorch's profiler without a change to the program: a module that Python imports by itself.

use crate::error::Problem;
use std::{ffi::OsString, fs, path::Path};

/// What Python imports when it starts, by the name it looks for.
const HOOK: &str = include_str!("hook.py");

/// Writes the hook into a folder and gives the variables that make Python find it.
///
/// # Errors
/// When the folder cannot be written.
pub(super) fn variables(
    folder: &Path,
    steps: (u32, u32),
) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let code = folder.join("python");
    let cannot = |error| Problem::new(format!("cannot write {}", code.display())).because(error);
    fs::create_dir_all(&code).map_err(cannot)?;
    fs::write(code.join("sitecustomize.py"), HOOK).map_err(cannot)?;
    let mut path = code.clone().into_os_string();
    if let Some(given) = std::env::var_os("PYTHONPATH").filter(|given| !given.is_empty()) {
        path.push(if cfg!(windows) { ";" } else { ":" });
        path.push(given);
    }
    Ok(vec![
        ("PYTHONPATH", path),
        ("GPUWISE_PROFILE_FOLDER", folder.into()),
        ("GPUWISE_PROFILE_FIRST", steps.0.to_string().into()),
        ("GPUWISE_PROFILE_LAST", steps.1.to_string().into()),
    ])
}

/// Why a job left no trace, from the notes of its processes.
pub(super) fn why_nothing(folder: &Path, steps: (u32, u32)) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let counts: Vec<u32> = entries
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "steps")
        })
        .filter_map(|entry| fs::read_to_string(entry.path()).ok()?.trim().parse().ok())
        .collect();
    match counts.iter().max() {
        None => "no trace was made: the job did not import torch, or was ended at once".into(),
        Some(0) => "no trace was made: the job imported torch and made no step of an optimizer, \
             nor a pass with gradients off; --steps 0..1 profiles all of it"
            .into(),
        Some(count) => format!(
            "no trace was made: the job ended after {count} steps, before step {}; give --steps 0..{count}",
            steps.0
        ),
    }
}
