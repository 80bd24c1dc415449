//! Foreign calls against a library that stands in for the driver's.
#![cfg(feature = "mig")]
#![allow(clippy::expect_used, reason = "tests may fail at once")]

use gpuwise_cuda::Boards;
use gpuwise_domain::placement::CutError;
use gpuwise_needs::nvml::{GPUS, STATE, fault, stub};
use std::path::PathBuf;

const OFF: &str = GPUS[0];
const ON: &str = GPUS[1];

/// GPUs of their own. Where they are kept is told by the environment, which is the whole program's: all is one test.
fn boards(old: bool) -> Option<(tempfile::TempDir, PathBuf, Boards)> {
    let folder = tempfile::tempdir().expect("a folder");
    let library = stub(folder.path(), old)?;
    // `STATE` is set by who runs this test: see `in_a_program_of_its_own`.
    let state = PathBuf::from(std::env::var_os(STATE)?);
    let boards = Boards::load(Some(library.as_os_str())).expect("loads");
    Some((folder, state, boards))
}

/// Runs a test again in a program whose environment says where the GPUs are kept.
fn in_a_program_of_its_own(test: &str) -> bool {
    if std::env::var_os(STATE).is_some() {
        return false;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let own = std::env::current_exe().expect("runs");
    let ran = std::process::Command::new(own)
        .args(["--exact", test, "--nocapture"])
        .env(STATE, folder.path().join("gpus"))
        .status()
        .expect("starts");
    assert!(ran.success(), "{test}");
    true
}

#[test]
fn instances_are_made_found_and_destroyed() {
    if in_a_program_of_its_own("instances_are_made_found_and_destroyed") {
        return;
    }
    let Some((_folder, state, boards)) = boards(false) else {
        return;
    };
    let gpus = boards.gpus().expect("lists");
    let modes: Vec<_> = gpus
        .iter()
        .map(|gpu| (gpu.uuid.as_str(), gpu.mode))
        .collect();
    assert_eq!(modes, [(OFF, Some(false)), (ON, Some(true))]);
    assert_eq!(gpus[0].memory_mib, Some(81559));
    let first = boards.create(ON, "1g.10gb", 2).expect("is made");
    assert!(first.starts_with("MIG-"), "{first}");
    // Once more is the same one.
    assert_eq!(boards.create(ON, "1g.10gb", 2), Ok(first.clone()));
    let large = boards.create(ON, "3g.40gb", 4).expect("is made");
    let found = boards.instances(ON).expect("lists");
    let shown: Vec<_> = found
        .iter()
        .map(|one| {
            (
                one.profile.as_str(),
                one.start,
                one.size,
                one.uuid.as_deref(),
            )
        })
        .collect();
    let expected = [
        ("1g.10gb", 2, 1, Some(first.as_str())),
        ("3g.40gb", 4, 4, Some(large.as_str())),
    ];
    assert_eq!(shown, expected);
    let refused = boards.create(ON, "2g.20gb", 2).expect_err("is taken");
    assert_eq!(refused.name(), "insufficient-resources");
    assert!(
        refused
            .to_string()
            .ends_with("slice 2: there is 1g.10gb at 2"),
        "{refused}"
    );
    boards.destroy(ON, 2).expect("is destroyed");
    boards.destroy(ON, 2).expect("is gone already");
    boards.create(ON, "2g.20gb", 2).expect("has room now");
    // Of half a creation nothing is left, and one that somebody left half is completed.
    fault(&state, Some(("nvmlGpuInstanceCreateComputeInstance", 4)));
    let refused = boards.create(ON, "1g.10gb", 0).expect_err("may not");
    assert_eq!(refused, CutError::NoPermission(ON.into()));
    assert_eq!(boards.instances(ON).expect("lists").len(), 2);
    fault(&state, Some(("nvmlComputeInstanceDestroy", 19)));
    assert_eq!(boards.destroy(ON, 4), Err(CutError::InUse(ON.into())));
    fault(&state, Some(("nvmlGpuInstanceDestroy", 19)));
    assert_eq!(boards.destroy(ON, 4), Err(CutError::InUse(ON.into())));
    fault(&state, None);
    let left = boards.instances(ON).expect("lists");
    assert_eq!(left[1].uuid, None, "its compute instance is gone");
    assert!(boards.create(ON, "3g.40gb", 4).is_ok());
    // Switching: not while it is cut, and not where only a reset would do.
    assert_eq!(boards.set_mode(ON, false), Err(CutError::InUse(ON.into())));
    assert_eq!(
        boards.create(OFF, "7g.80gb", 0),
        Err(CutError::ModeOff(OFF.into()))
    );
    fault(&state, Some(("activation", 16)));
    assert_eq!(
        boards.set_mode(OFF, true),
        Err(CutError::ResetNeeded(OFF.into()))
    );
    assert_eq!(
        boards.instances(OFF),
        Err(CutError::ResetNeeded(OFF.into()))
    );
    fault(&state, None);
    boards.set_mode(OFF, true).expect("switches");
    boards.create(OFF, "7g.80gb", 0).expect("is made");
    for (profile, start) in [("9g.80gb", 0), ("3g.40gb", 2)] {
        let refused = boards
            .create(OFF, profile, start)
            .expect_err("there is none");
        assert_eq!(refused.name(), "no-such-profile");
    }
    let gone = "GPU-00000007-0000-0000-0000-000000000000";
    assert_eq!(
        boards.destroy(gone, 0),
        Err(CutError::NoSuchGpu(gone.into()))
    );
}

#[test]
fn an_old_driver_is_named() {
    if in_a_program_of_its_own("an_old_driver_is_named") {
        return;
    }
    let Some((_folder, _, boards)) = boards(true) else {
        return;
    };
    let refused = boards.create(ON, "1g.10gb", 0);
    let missing = "nvmlDeviceCreateGpuInstanceWithPlacement";
    assert_eq!(refused, Err(CutError::TooOld(missing)));
}

#[test]
fn no_driver_is_said() {
    let none = Boards::load(Some("/nowhere/libnvidia-ml.so".as_ref()));
    let error = none.expect_err("there is none");
    assert_eq!(error.name(), "no-driver");
    assert!(
        error
            .to_string()
            .contains("/nowhere/libnvidia-ml.so cannot be loaded"),
        "{error}"
    );
}
