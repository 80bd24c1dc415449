//! Settings of files: which win, and what is said of those that are wrong.

use clap::CommandFactory as _;
use gpuwise_app::settings::{Place, Plan, file::Files, parse_with};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

/// Settings of `plan`, under flags and files from the weakest on.
fn plan(flags: &[&str], files: &[&str]) -> Result<Plan, String> {
    let folder = Folder::new();
    let numbered = files.iter().enumerate();
    let paths: Vec<PathBuf> = numbered
        .map(|(i, text)| folder.file(&format!("{i}.toml"), text))
        .collect();
    let read = Files::read(paths).map_err(|error| error.to_string())?;
    parse_with("plan", flags, &read).map_err(|error| error.to_string())
}

#[test]
fn a_flag_wins_over_a_project_and_that_over_a_user() {
    let user = "[plan]\ntop = 2\nttft = \"p95:2s\"\nprecision = [\"bf16\"]";
    let project = "[plan]\nttft = \"p95:1s\"";
    let found = plan(&["m", "--precision", "fp8,int4"], &[user, project]).expect("settings");
    assert_eq!(found.result.top, 2);
    assert_eq!(found.slo.ttft.as_deref(), Some("p95:1s"));
    assert_eq!(found.engine.precision, ["fp8", "int4"]);
}

#[test]
fn what_stands_at_the_top_holds_where_a_flag_takes_it() {
    let found = plan(
        &["m"],
        &["gpu = [\"H100\", \"L40S\"]\nexport = \"sheet.csv\""],
    );
    assert_eq!(found.expect("settings").limits.market.gpu, ["H100", "L40S"]);
}

#[test]
fn a_flag_takes_the_place_of_the_one_that_it_excludes() {
    let found = plan(&["m", "--concurrency", "8"], &["rate = \"4/s\""]).expect("settings");
    assert_eq!(found.traffic.rate, None);
    assert_eq!(found.traffic.concurrency.as_deref(), Some("8"));
}

#[test]
fn switches_are_turned_on() {
    let found = plan(&["m"], &["[plan]\nno_slices = true"]).expect("settings");
    assert!(found.result.no_slices);
}

#[test]
fn what_is_wrong_is_said_with_its_file_and_key() {
    for (text, said) in [
        ("[plan]\ntopp = 1", "topp: no command has a flag --topp"),
        ("[plan]\ntop = \"many\"", "top: invalid value 'many'"),
        ("[plan]\ntop = 0", "top: invalid value '0'"),
        (
            "[plan]\ntop = [1, 2]",
            "top takes one value, and 2 are given",
        ),
        (
            "[plan]\nsimulate = 1",
            "simulate is 1: expected true or false",
        ),
        ("[plan]\ngpu = [[1]]", "gpu: expected a text, a number"),
        ("a = 1\ntop =", "0.toml, line 2: "),
    ] {
        let error = plan(&["m"], &[text]).expect_err(text);
        assert!(
            error.contains("0.toml") && error.contains(said),
            "{text}: {error}"
        );
    }
}

/// A flag may exclude another: trying its value must not look for that one alone.
#[test]
fn a_flag_that_excludes_another_is_taken() {
    let folder = Folder::new();
    let file = folder.file("place.toml", "[place]\nwhat-if = [\"+n3\"]");
    let read = Files::read([file]).expect("a file");
    let place: Place = parse_with("place", ["fleet.toml", "jobs.toml"], &read).expect("settings");
    assert_eq!(place.what_if, ["+n3"]);
}

/// A program of two commands of which one takes many GPUs and the other one.
#[derive(clap::Parser)]
enum Program {
    Many(Many),
    One(One),
}

#[derive(clap::Args)]
struct Many {
    #[arg(long, value_delimiter = ',')]
    gpu: Vec<String>,
}

#[derive(clap::Args)]
struct One {
    #[arg(long)]
    gpu: Option<String>,
}

#[test]
fn a_list_is_for_commands_that_take_one() {
    let folder = Folder::new();
    let list = folder.file("list.toml", "gpu = [\"A\", \"B\"]");
    let command = Files::read([list]).and_then(|files| files.apply(Program::command()));
    let command = command.expect("one of both takes it");
    let gpus = |name: &str| {
        let matches = command.clone().get_matches_from(["program", name]);
        let (_, matches) = matches.subcommand().expect("a command");
        let given = matches.get_many::<String>("gpu");
        given.into_iter().flatten().cloned().collect::<Vec<_>>()
    };
    assert_eq!(gpus("many"), ["A", "B"]);
    assert!(gpus("one").is_empty());
    let nowhere = folder.file("nowhere.toml", "[one]\ngpu = [\"A\", \"B\"]");
    let refused = Files::read([nowhere]).and_then(|files| files.apply(Program::command()));
    let said = refused.expect_err("it takes one").to_string();
    assert!(said.contains("gpu takes one value"), "{said}");
}
