//! A job is wrapped: its words, its exit code, and, where PyTorch is installed, its steps.

use crate::support::Place;
use std::process::Command;

#[test]
fn the_exit_code_is_that_of_the_job() {
    let place = Place::new();
    let ran = place.run(&["profile", "run", "--", "sh", "-c", "exit 7"]);
    assert_eq!(ran.code, 7, "{}", ran.err);
    assert!(ran.err.contains("the job ended with exit code 7"));
    let killed = place.run(&["profile", "run", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.code, 137, "{}", killed.err);
}

#[test]
fn values_reach_the_job_as_words_and_as_variables() {
    let place = Place::new();
    let ran = place.run(&[
        "profile",
        "run",
        "--batch-sizes",
        "2,8",
        "--sweep",
        "lr=0.1,0.2",
        "--",
        "sh",
        "-c",
        "echo {batch} $BATCH_SIZE {lr} $LR >> seen",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let seen = std::fs::read_to_string(place.path("seen")).expect("written");
    assert_eq!(seen, "2 2 0.1 0.1\n2 2 0.2 0.2\n8 8 0.1 0.1\n8 8 0.2 0.2\n");
    assert!(ran.out.contains("batch=8 lr=0.2"), "{}", ran.out);
}

#[test]
fn what_cannot_be_run_is_said() {
    let place = Place::new();
    let check = |arguments: &[&str], expect: &str| {
        let ran = place.run(&[&["profile", "run"], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(expect), "{}", ran.err);
    };
    check(
        &["--", "no-such-program-here"],
        "no-such-program-here cannot be started",
    );
    check(
        &["--steps", "9..3", "--", "true"],
        "the last step comes after the first",
    );
    check(&["--sweep", "lr", "--", "true"], "NAME=A,B");
    check(&["--how", "nsight", "--", "true"], "nsys is not installed");
}

const TRAINING: &str = r#"
import os, torch
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    loss = model(torch.randn(int(os.environ["BATCH_SIZE"]), 16)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"#;

/// A Python that has PyTorch.
fn python() -> Option<String> {
    let named = std::env::var("GPUWISE_PYTHON").unwrap_or_else(|_| "python3".into());
    let torch = Command::new(&named).args(["-c", "import torch"]).output();
    let found = torch.is_ok_and(|output| output.status.success());
    if !found {
        gpuwise_needs::skipped(&format!(
            "{named} has no torch; GPUWISE_PYTHON may name one that has"
        ));
    }
    found.then_some(named)
}

#[test]
fn steps_of_a_real_training_are_profiled_and_kept() {
    let Some(python) = python() else { return };
    let place = Place::new();
    place.write("train.py", TRAINING);
    let ran = place.run(&[
        "profile",
        "run",
        "--steps",
        "2..5",
        "--batch-sizes",
        "4",
        "--save",
        "--traces",
        "kept",
        "--",
        &python,
        "train.py",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("kept as run"), "{}", ran.err);
    let kept: Vec<_> = std::fs::read_dir(place.path("kept/batch_4"))
        .expect("a folder")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name.ends_with(".json.gz"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let trace = format!("kept/batch_4/{}", kept[0]);
    let read = place.run(&["profile", &trace]);
    assert!(read.out.contains("steps: 3"), "{}", read.out);
    let runs = place.run(&["runs", "list", "--label", "batch=4", "--format", "csv"]);
    assert_eq!(runs.out.lines().count(), 2, "{}", runs.out);
    // Before its first step nothing is there to see, and that is said.
    let late = place.run(&[
        "profile",
        "run",
        "--batch-sizes",
        "4",
        "--steps",
        "50..60",
        "--",
        &python,
        "train.py",
    ]);
    assert!(late.err.contains("ended after 6 steps"), "{}", late.err);
}
