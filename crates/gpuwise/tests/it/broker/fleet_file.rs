//! A fleet that changes while its broker runs, and while it does not.

use super::{Daemon, FLEET};
use serde_json::Value;
use std::collections::BTreeMap;

/// Nodes with their health and how many GPUs each has.
fn nodes(daemon: &Daemon) -> BTreeMap<String, (String, usize)> {
    let list = daemon.json(&["node", "list"]);
    let nodes = list["nodes"].as_array().expect("nodes").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let gpus = |node: &Value| node["gpus"].as_array().expect("GPUs").len();
    nodes
        .map(|node| (text(&node["name"]), (text(&node["health"]), gpus(node))))
        .collect()
}

fn up(all: &[(&str, usize)]) -> BTreeMap<String, (String, usize)> {
    let node = |(name, gpus): &(&str, usize)| ((*name).to_owned(), ("up".to_owned(), *gpus));
    all.iter().map(node).collect()
}

#[test]
fn a_start_takes_over_what_the_fleet_file_says_otherwise() {
    let mut daemon = Daemon::start(&[]);
    daemon.json(&["tenant", "create", "a"]);
    // The first node is held, and may not leave.
    daemon.json(&["lease", "request", "--tenant", "a", "--gpu", "8xH100"]);
    daemon.until("L-1", "active");
    daemon.json(&["prices", "set", "H100", "7 USD", "--tenant", "a"]);
    let changed = FLEET
        .replace("n{1..2}", "n{2..3}")
        .replace("2.50 USD", "3 USD");
    daemon.place.write("fleet.toml", &changed);
    daemon.crash(&[]);
    assert_eq!(nodes(&daemon), up(&[("n1", 8), ("n2", 8), ("n3", 8)]));
    assert_eq!(daemon.until("L-1", "active")["state"], "active");
    let prices = daemon.json(&["prices", "list"]);
    let prices = prices["items"].as_array().expect("prices").iter();
    let now: Vec<&Value> = prices
        .filter(|one| one["to"].is_null())
        .map(|one| &one["price"])
        .collect();
    assert_eq!(now, ["7 USD", "3 USD"]);
    // What was refused is told again, and is applied once it can be.
    let said = daemon.json_of(&["node", "reload", "fleet.toml"], 1);
    assert_eq!(said["applied"], false);
    let items = said["items"].as_array().expect("changes");
    assert_eq!(items.len(), 1, "{said}");
    assert_eq!(items[0]["name"], "n1");
    assert!(items[0]["refused"].as_str().expect("why").contains("L-1"));
    daemon.json(&["lease", "release", "L-1"]);
    daemon.until("L-1", "ended");
    daemon.json(&["node", "reload", "fleet.toml", "--yes"]);
    assert_eq!(nodes(&daemon), up(&[("n2", 8), ("n3", 8)]));
}

#[test]
fn nodes_are_added_cordoned_drained_and_removed() {
    let mut daemon = Daemon::start(&[]);
    daemon.json(&["tenant", "create", "a"]);
    daemon.json(&["node", "add", "m{1..2}", "--gpus", "4xH100", "--cpu", "32"]);
    daemon.json(&["node", "add", "o1", "--gpus", "2xL40S", "--rack", "r9"]);
    assert_eq!(
        nodes(&daemon),
        up(&[("m1", 4), ("m2", 4), ("n1", 8), ("n2", 8), ("o1", 2)])
    );
    // What joins is leased.
    daemon.json(&["lease", "request", "--tenant", "a", "--gpu", "2xL40S"]);
    daemon.until("L-1", "active");
    let why = daemon.refused(&["node", "remove", "o1"]);
    assert!(
        why.contains("L-1") && why.contains("node drain o1"),
        "{why}"
    );
    daemon.json(&["node", "cordon", "n2"]);
    daemon.json(&["node", "drain", "o1", "--end"]);
    daemon.until("L-1", "ended");
    daemon.json(&["node", "remove", "o1"]);
    daemon.json(&["node", "remove", "m2"]);
    // A restart with the file that was there before changes nothing of that.
    daemon.crash(&[]);
    let mut wanted = up(&[("m1", 4), ("n1", 8), ("n2", 8)]);
    wanted.insert("n2".into(), ("cordoned".into(), 8));
    assert_eq!(nodes(&daemon), wanted);
    daemon.json(&["node", "uncordon", "n2"]);
    assert_eq!(nodes(&daemon)["n2"].0, "up");
    for wrong in ["n9", "../n1", ""] {
        let why = daemon.refused(&["node", "cordon", wrong]);
        assert!(why.contains("no"), "{why}");
    }
    // Of a file with several nodes only the one that is named joins, with its own GPUs.
    let file = FLEET.replace("n{1..2}", "p{1..3}");
    daemon.place.write("more.toml", &file);
    daemon.json(&["node", "add", "p2", "--fleet", "more.toml"]);
    assert_eq!(
        nodes(&daemon),
        up(&[("m1", 4), ("n1", 8), ("n2", 8), ("p2", 8)])
    );
    let why = daemon.refused(&["node", "add", "p9", "--fleet", "more.toml"]);
    assert!(why.contains("p9") && why.contains("p1"), "{why}");
    let why = daemon.refused(&["node", "add", "x", "--gpus", "4xNoSuchGpu"]);
    assert!(why.contains("NoSuchGpu"), "{why}");
    let why = daemon.refused(&["node", "add", "n1", "--gpus", "4xH100"]);
    assert!(why.contains("already"), "{why}");
    let operators = daemon.json(&["token", "audit"]);
    assert!(operators.to_string().contains("drain: o1"), "{operators}");
}
