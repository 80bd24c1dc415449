//! Leases as commands of batch systems: the workflow of `deploy/argo` is run command by command.

use super::broker::Daemon;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

/// The commands of the workflow's pods, with its parameters filled in, as Argo does.
fn pods(seed: &str) -> Vec<Vec<String>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/argo/batch.yaml");
    let text = fs::read_to_string(file).expect("reads");
    let filled = [
        ("{{workflow.parameters.tenant}}", "batch"),
        ("{{workflow.parameters.gpu}}", "1xH100"),
        ("{{workflow.name}}", "gpuwise-batch-x"),
        ("{{workflow.uid}}", "7d3f"),
        ("{{inputs.parameters.seed}}", seed),
    ];
    let args = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("args: "));
    let fill = |word: &String| {
        filled.iter().fold(word.clone(), |word, (name, value)| {
            word.replace(name, value)
        })
    };
    let each = args.map(|args| {
        let words: Vec<String> = serde_json::from_str(args).expect("a list of words");
        words.iter().map(fill).collect::<Vec<_>>()
    });
    let all: Vec<Vec<String>> = each.collect();
    assert!(
        all.iter().flatten().all(|word| !word.contains("{{")),
        "{all:?}"
    );
    all
}

fn started() -> Daemon {
    let daemon = Daemon::start(&["--executor", "local"]);
    daemon.json(&["tenant", "create", "batch"]);
    daemon
}

fn run(daemon: &Daemon, words: &[String]) -> (Option<i32>, String) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = daemon.command(&words).output().expect("runs");
    (
        output.status.code(),
        String::from_utf8(output.stdout).expect("UTF-8"),
    )
}

#[test]
fn the_pods_of_the_workflow_get_leases_and_end_as_their_commands_do() {
    let daemon = started();
    let [train, evaluate] = &pods("3")[..] else {
        panic!("two templates");
    };
    let (code, text) = run(&daemon, train);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "training with seed 3 on n1/0\n")
    );
    // A pod that is started again asks for nothing new.
    assert_eq!(run(&daemon, train), (code, text));
    assert_eq!(run(&daemon, evaluate), (Some(0), "evaluating\n".into()));
    let all = daemon.json(&["lease", "list", "--all"]);
    assert_eq!(all["items"].as_array().map(Vec::len), Some(2), "{all}");
    let bad = [
        "lease", "request", "--wait", "--tenant", "batch", "--gpu", "1xH100", "--", "sh", "-c",
        "exit 7",
    ];
    assert_eq!(
        daemon.command(&bad).output().expect("runs").status.code(),
        Some(7)
    );
}

#[test]
fn a_pod_that_is_ended_gives_its_lease_back() {
    let daemon = started();
    let words = [
        "lease",
        "request",
        "--wait",
        "--tenant",
        "batch",
        "--gpu",
        "1xH100",
        "--",
        "sh",
        "-c",
        "echo begun; sleep 1000",
    ];
    let mut pod = daemon
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut first = String::new();
    let mut lines = BufReader::new(pod.stdout.take().expect("a pipe"));
    lines.read_line(&mut first).expect("reads");
    assert_eq!(first, "begun\n");
    let number = pod.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &number])
            .status()
            .expect("kill runs")
            .success()
    );
    assert_eq!(pod.wait().expect("ends").code(), Some(143));
    let lease: Value = daemon.json(&["lease", "show", "L-1"]);
    assert_eq!(
        (&lease["state"], &lease["reason"]),
        (&"ended".into(), &"released".into())
    );
}

/// A broker that is gone is spoken of at once, and asked for as long as was said.
#[test]
fn a_broker_that_is_gone_is_named_at_once_and_not_waited_for_for_ever() {
    let mut daemon = started();
    let words = [
        "lease",
        "request",
        "--wait",
        "--broker-timeout",
        "1s",
        "--tenant",
        "batch",
        "--gpu",
        "1xH100",
        "--",
        "sleep",
        "1000",
    ];
    let mut pod = daemon
        .command(&words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(pod.stderr.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("UTF-8");
    assert!(first.contains("is asked for"), "{first}");
    daemon.stop();
    let rest: Vec<String> = lines.map(|line| line.expect("UTF-8")).collect();
    let rest = rest.join("\n");
    assert_eq!(pod.wait().expect("ends").code(), Some(2), "{rest}");
    assert!(rest.contains("does not answer"), "{rest}");
    assert!(rest.contains("it is asked again for "), "{rest}");
    assert!(rest.contains("has not answered for 1 s"), "{rest}");
    assert!(rest.contains("--broker-timeout"), "{rest}");
}
