//! A stand-in for the driver's management library, built by the C compiler of this machine: two H100 that can be cut
//! into MIG instances, the first with MIG off, the second with MIG on.

#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "tests may fail at once"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The environment variable that names the file in which its GPUs are kept.
pub const STATE: &str = "STUB_NVML";

/// Its GPUs as the driver calls them.
pub const GPUS: [&str; 2] = [
    "GPU-00000000-0000-0000-0000-000000000000",
    "GPU-00000001-0000-0000-0000-000000000000",
];

/// Builds it into a folder; `None`, said aloud, where there is no C compiler. An `old` one lacks what makes instances.
pub fn stub(folder: &Path, old: bool) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let (source, library) = (folder.join("nvml.c"), folder.join("libnvml-stub.so"));
    fs::write(&source, include_str!("stub.c")).expect("writes");
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]);
    command.args(old.then_some("-DOLD"));
    let Ok(built) = command.arg("-o").arg(&library).arg(&source).output() else {
        crate::skipped(&format!(
            "no C compiler ({compiler}) to build a stand-in for the driver's library"
        ));
        return None;
    };
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{compiler}: {said}");
    Some(library)
}

/// Lets a function of one with this state fail with a code of `nvmlReturn_t`, or nothing fail.
pub fn fault(state: &Path, fault: Option<(&str, u32)>) {
    let file = state.with_added_extension("fault");
    match fault {
        Some((function, code)) => fs::write(file, format!("{function} {code}\n")).expect("writes"),
        // There may have been none.
        None => drop(fs::remove_file(file)),
    }
}
