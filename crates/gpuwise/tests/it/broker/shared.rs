//! Policies that say on which GPUs leases run, which of them share one, and which grow: with the daemon.

use super::Daemon;
use crate::suspend::{ask, runs, until};
use serde_json::Value;

fn lease(daemon: &Daemon, words: &[&str], command: &[&str]) -> String {
    let all = ["lease", "request", "--tenant", "vision"];
    let mut asked = daemon.command(&[&all[..], words].concat());
    asked.args(["--format", "json"]);
    if !command.is_empty() {
        asked.arg("--").args(command);
    }
    let output = asked.output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {errors}");
    let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    lease["id"].as_str().expect("an id").to_owned()
}

fn policy(daemon: &Daemon, text: &str) {
    daemon.place.write("policy.toml", text);
    daemon.json(&["policy", "set", "policy.toml"]);
}

fn node(daemon: &Daemon, lease: &str) -> String {
    let shown = daemon.until(lease, "active");
    shown["gpus"][0]["node"]
        .as_str()
        .expect("a node")
        .to_owned()
}

#[test]
fn what_is_preferred_decides_on_which_gpu_the_next_lease_runs() {
    let fleet = "name = \"mixed\"\n[[node]]\nname = \"slow\"\ngpus = \"1xL40S\"\ncpu = 8\nmemory = \"64GiB\"\n\
         [[node]]\nname = \"quick\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n\
         [[gpu_kind]]\nname = \"L40S\"\nprice = \"1 USD\"\n[[gpu_kind]]\nname = \"H100\"\nprice = \"3 USD\"\n";
    let daemon = &Daemon::start_on(fleet, &["--start-takes", "1ms"]);
    daemon.json(&["tenant", "create", "vision"]);
    let mut places = Vec::new();
    for prefer in ["fastest", "cheapest", "fastest"] {
        policy(daemon, &format!("prefer = \"{prefer}\"\n"));
        let one = lease(daemon, &["--gpu", "1"], &[]);
        places.push(node(daemon, &one));
        let why = daemon.json(&["lease", "explain", &one]);
        assert!(
            !why["weighed"].as_array().expect("a list").is_empty(),
            "{why}"
        );
        daemon.json(&["lease", "release", &one]);
        daemon.until(&one, "ended");
    }
    assert_eq!(places, ["quick", "slow", "quick"]);
    // What is cheapest is what the price book says by now, not what the fleet's file said once.
    policy(daemon, "prefer = \"cheapest\"\n");
    daemon.json(&["prices", "set", "L40S", "5usd"]);
    let one = lease(daemon, &["--gpu", "1"], &[]);
    assert_eq!(node(daemon, &one), "quick");
    // Of what may be stopped it says another price.
    daemon.json(&["prices", "set", "L40S", "0.5usd", "--class", "spot"]);
    daemon.json(&["lease", "release", &one]);
    daemon.until(&one, "ended");
    let spot = lease(daemon, &["--gpu", "1", "--preemptible"], &[]);
    assert_eq!(node(daemon, &spot), "slow");
}

const ONE: &str = "name = \"one\"\n[[gpu_kind]]\nname = \"H100\"\nprice = \"2.50 USD\"\n\
     [[node]]\nname = \"n\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n";

fn pair(round: &str) -> String {
    format!(
        "[rounds]\nlength = \"{round}\"\n[[rounds.pair]]\njobs = [\"resnet-*\", \"lstm-*\"]\n\
         gpu = \"H100 SXM5 80GB\"\nspeeds = [0.9, 0.6]\n"
    )
}

/// 0.9 and 0.6 of what each does alone: the first is charged 0.9 / 1.5 of the GPU, the second the rest. An hour of the
/// second is 0.4 GPU-hours at 2.50 USD.
#[test]
fn two_leases_share_a_gpu_and_each_pays_for_its_speed() {
    let daemon = Daemon::start_on(ONE, &["--start-takes", "1s", "--speed", "3600"]);
    daemon.json(&["tenant", "create", "vision"]);
    policy(&daemon, &pair("6min"));
    let ask = ["--gpu", "1xH100", "--preemptible", "--name"];
    let first = lease(
        &daemon,
        &[&ask[..], &["resnet-1", "--for", "200h"]].concat(),
        &[],
    );
    daemon.until(&first, "active");
    let second = lease(
        &daemon,
        &[&ask[..], &["lstm-1", "--for", "1h"]].concat(),
        &[],
    );
    daemon.until(&second, "active");
    let part = |id: &str| daemon.json(&["lease", "show", id])["gpus"][0]["part"].clone();
    let (one, other) = (part(&first), part(&second));
    let over = daemon.until(&second, "ended");
    assert_eq!((one, other), ("0.6".into(), "0.4".into()));
    let cost = over["cost"].as_str().expect("a cost");
    let dollars: f64 = cost
        .split(' ')
        .next()
        .and_then(|text| text.parse().ok())
        .expect("a number");
    // Stopping it takes more, in which it holds its part; a tenth of a second of a busy machine is six minutes of it.
    assert!((1.0..1.2).contains(&dollars), "{cost}");
    // Who is left has the GPU for itself, without having been stopped.
    until("the first has it all", || part(&first) == "whole");
    let explained = daemon.json(&["lease", "show", &first]);
    assert_eq!(explained["state"], "active", "{explained}");
}

#[test]
fn processes_that_share_a_gpu_run_on_when_the_other_comes_and_goes() {
    let daemon = Daemon::start_on(ONE, &["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    policy(&daemon, &pair("1s"));
    let command = [
        "sh",
        "-c",
        "echo began on $CUDA_VISIBLE_DEVICES; exec sleep 1000",
    ];
    let ask = ["--gpu", "1xH100", "--preemptible", "--name"];
    let first = lease(&daemon, &[&ask[..], &["resnet-1"]].concat(), &command);
    daemon.until(&first, "active");
    let second = lease(&daemon, &[&ask[..], &["lstm-1"]].concat(), &command);
    daemon.until(&second, "active");
    let part = |id: &str| daemon.json(&["lease", "show", id])["gpus"][0]["part"].clone();
    until("they share", || {
        (part(&first), part(&second)) == ("0.6".into(), "0.4".into())
    });
    daemon.json(&["lease", "release", &second]);
    daemon.until(&second, "ended");
    until("the first has it all", || part(&first) == "whole");
    for one in [&first, &second] {
        let log = daemon.log(one);
        assert_eq!(log.matches("began").count(), 1, "{log}");
        assert!(log.starts_with("began on n/0\n"), "{log}");
    }
}

const TWO: &str =
    "name = \"two\"\n[[node]]\nname = \"n\"\ngpus = \"2xH100\"\ncpu = 8\nmemory = \"64GiB\"\n";
const ELASTIC: &str = "[upkeep]\ngrow = true\n[disruption]\npreempt = true\nelastic = true\n";

#[test]
fn a_service_grows_and_shrinks_and_what_stays_runs_on() {
    let daemon = Daemon::start_on(TWO, &["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let engine = [
        env!("CARGO_BIN_EXE_gpuwise"),
        "engine",
        "--model",
        "tiny",
        "--listen",
        "127.0.0.1:{port}",
    ];
    let words = [
        "--gpu",
        "1xH100",
        "--preemptible",
        "--max-workers",
        "2",
        "--serve",
        "tiny",
    ];
    let service = lease(&daemon, &words, &engine);
    daemon.until(&service, "active");
    let processes = || runs(&daemon, &service).map(|all| all["processes"].clone());
    let one = processes().expect("it runs");
    assert_eq!(one.as_array().map(Vec::len), Some(1), "{one}");
    policy(&daemon, ELASTIC);
    let count =
        |many: usize| processes().is_some_and(|all| all.as_array().map(Vec::len) == Some(many));
    until("it has grown", || count(2));
    daemon.until(&service, "active");
    assert_eq!(ask(&daemon), 200);
    assert_eq!(
        processes().expect("they run")[0],
        one[0],
        "the first is the same process"
    );
    let urgent = lease(
        &daemon,
        &["--gpu", "1xH100", "--priority", "9"],
        &["sleep", "1000"],
    );
    daemon.until(&urgent, "active");
    let two = processes().expect("it runs");
    assert_eq!(two.as_array().map(Vec::len), Some(1), "{two}");
    assert_eq!(ask(&daemon), 200);
    daemon.json(&["lease", "release", &urgent]);
    until("it has grown again", || count(2));
}

/// Of a command that is no service all is started anew, on all GPUs that it has then.
#[test]
fn another_command_that_grows_is_started_anew_on_all_its_gpus() {
    let daemon = Daemon::start_on(TWO, &["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let command = [
        "sh",
        "-c",
        "echo began on $CUDA_VISIBLE_DEVICES; exec sleep 1000",
    ];
    let words = ["--gpu", "1xH100", "--preemptible", "--max-workers", "2"];
    let grows = lease(&daemon, &words, &command);
    daemon.until(&grows, "active");
    policy(&daemon, ELASTIC);
    until("it has grown", || {
        daemon.log(&grows).contains("n/0,n/1") || daemon.log(&grows).contains("n/1,n/0")
    });
    daemon.until(&grows, "active");
    assert_eq!(daemon.log(&grows).matches("began").count(), 2);
    let refused = daemon.refused(&[
        "lease",
        "request",
        "--tenant",
        "vision",
        "--gpu",
        "1",
        "--workers",
        "3",
        "--max-workers",
        "2",
    ]);
    assert!(refused.contains("max_workers"), "{refused}");
    let asked = ["lease", "request", "--tenant", "vision", "--gpu", "1"];
    let refused = daemon.refused(&[&asked[..], &["--max-workers", "2"]].concat());
    assert!(refused.contains("--preemptible"), "{refused}");
}
