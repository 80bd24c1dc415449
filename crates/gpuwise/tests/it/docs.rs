//! The documentation shows what the program prints: sessions in fenced `console` blocks are run
//! again, and generated pages are generated again. `GPUWISE_UPDATE_DOCS=1` writes instead of
//! comparing.
//!
//! In a block, a line that begins with `$ ` is a command for `sh`, continued while lines end in a
//! backslash; what follows is its output, errors included. `[exit code N]` ends the output of a
//! command that did not end with 0; a command that now ends otherwise is not written over, unless
//! its output is taken away first. Each page has a folder of its own, with the files of
//! `docs/guides/files` in it.

use gpuwise_size::constants::PARAMETERS;
use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn updating() -> bool {
    env::var_os("GPUWISE_UPDATE_DOCS").is_some()
}

/// Compares a page with what it should be, or writes it.
fn hold(page: &Path, shown: &str, wanted: &str) {
    if shown == wanted {
        return;
    }
    if updating() {
        fs::write(page, wanted).expect("a page that can be written");
        return;
    }
    let at = shown
        .lines()
        .zip(wanted.lines())
        .take_while(|(a, b)| a == b)
        .count();
    panic!(
        "{}, line {}: not what the program prints\nshown:   {}\nprinted: {}\nrun GPUWISE_UPDATE_DOCS=1 cargo test -p gpuwise docs, and review the difference",
        page.display(),
        at + 1,
        shown.lines().nth(at).unwrap_or("(end)"),
        wanted.lines().nth(at).unwrap_or("(end)"),
    );
}

/// A folder for the commands of a page, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(page: &Path) -> Self {
        let name = page
            .file_stem()
            .expect("a page has a name")
            .to_string_lossy()
            .into_owned();
        let folder = env::temp_dir().join(format!("gpuwise-docs-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for a page");
        let copied = Command::new("cp")
            .arg("-r")
            .arg(root().join("docs/guides/files/."))
            .arg(&folder)
            .status();
        assert!(
            copied.is_ok_and(|status| status.success()),
            "the files of the guides are copied"
        );
        Self(folder)
    }

    /// What a command prints.
    fn run(&self, command: &str) -> String {
        let binaries = Path::new(env!("CARGO_BIN_EXE_gpuwise"))
            .parent()
            .expect("a folder of binaries");
        let mut path = binaries.as_os_str().to_owned();
        path.push(":/usr/local/bin:/usr/bin:/bin");
        let command = command.replace("cargo run --release -p gpuwise --", "gpuwise");
        let done = Command::new("sh")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .env_clear()
            .envs([
                ("HOME", "~"),
                ("NO_COLOR", "1"),
                ("COLUMNS", "100"),
                ("LC_ALL", "C.UTF-8"),
                ("SOURCE_DATE_EPOCH", "1795305600"),
            ])
            .env("HF_ENDPOINT", "http://127.0.0.1:9")
            .env("PATH", path)
            .current_dir(&self.0)
            .output()
            .expect("sh runs");
        let mut text = String::from_utf8(done.stdout).expect("the program prints UTF-8");
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if !done.status.success() {
            let code = done
                .status
                .code()
                .map_or("by a signal".into(), |code| code.to_string());
            writeln!(text, "[exit code {code}]").expect("text can be written to a string");
        }
        // Spaces at the ends of lines are invisible, and editors take them away.
        let mut trimmed = String::new();
        for line in text.lines() {
            trimmed.extend([line.trim_end(), "\n"]);
        }
        trimmed
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a command ended, by the last line of its output.
fn ending<'a>(lines: &[&'a str]) -> Option<&'a str> {
    lines
        .last()
        .copied()
        .filter(|line| line.starts_with("[exit code "))
}

/// The page with what its commands print now.
fn played(page: &Path, text: &str) -> String {
    let folder = Folder::new(page);
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    let mut inside = false;
    while let Some(line) = lines.next() {
        out.extend([line, "\n"]);
        if line.starts_with("```") {
            inside = line == "```console";
        }
        let Some(first) = line.strip_prefix("$ ").filter(|_| inside) else {
            continue;
        };
        let mut command = first.to_owned();
        while command.ends_with('\\') {
            let next = lines.next().expect("a command that goes on");
            out.extend([next, "\n"]);
            command.extend(["\n", next]);
        }
        let mut shown = Vec::new();
        while let Some(next) = lines.next_if(|next| !next.starts_with("$ ") && *next != "```") {
            shown.push(next);
        }
        let printed = folder.run(&command);
        let ends = ending(&printed.lines().collect::<Vec<_>>()) == ending(&shown);
        assert!(
            ends || shown.is_empty(),
            "{}: `{command}` ends otherwise than shown:\n{printed}",
            page.display()
        );
        out.push_str(&printed);
    }
    out
}

fn pages() -> Vec<PathBuf> {
    let guides = fs::read_dir(root().join("docs/guides"))
        .into_iter()
        .flatten()
        .flatten();
    let mut pages: Vec<PathBuf> = guides.map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.extend([
        root().join("README.md"),
        root().join("docs/reference/cli.md"),
    ]);
    pages.sort();
    pages
}

#[test]
fn the_api_is_described_as_it_is() {
    let page = root().join("docs/reference/openapi.json");
    let shown = fs::read_to_string(&page).unwrap_or_default();
    hold(&page, &shown, &gpuwise_app::commands::broker::openapi());
}

#[test]
fn docs_show_what_is_printed() {
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a readable page");
        hold(&page, &text, &played(&page, &text));
    }
}

/// Pictures of the pages on concepts, and what draws them.
const PICTURES: [(&str, &str); 3] = [
    ("operators-gemm-h100.svg", "H100 gemm"),
    ("operators-attention-h100.svg", "H100 attention_generation"),
    ("operators-moe-h100.svg", "H100 moe"),
];

#[test]
fn docs_show_what_is_drawn() {
    let concepts = root().join("docs/concepts");
    let folder = Folder::new(&concepts.join("operators.md"));
    for (file, asked) in PICTURES {
        let show = format!("gpuwise operators show {asked} --output {file}");
        let drawn = folder.run(&format!("{show} > out && cat {file}"));
        let page = concepts.join(file);
        let shown = fs::read_to_string(&page).unwrap_or_default();
        hold(&page, &shown, &drawn);
    }
}

/// The commands that a help text lists: indented by two spaces, below any heading but those of what is given.
fn listed(help: &str) -> Vec<&str> {
    let mut below = false;
    let mut names = Vec::new();
    for line in help.lines() {
        if let Some(heading) = line.strip_suffix(':').filter(|_| !line.starts_with(' ')) {
            below = !matches!(heading, "Options" | "Arguments");
        }
        let name = line
            .strip_prefix("  ")
            .and_then(|line| line.split(' ').next());
        let starts = |name: &&str| name.starts_with(|first: char| first.is_ascii_lowercase());
        names.extend(name.filter(|_| below).filter(starts));
    }
    names.retain(|name| !matches!(*name, "help" | "gpuwise"));
    names
}

/// Every command below this one, each before its own.
fn commands(folder: &Folder, above: &str) -> Vec<String> {
    let help = folder.run(&format!("{above} --help"));
    if !help.contains("<COMMAND>") && !help.contains("[COMMAND]") {
        return Vec::new();
    }
    let names = listed(&help)
        .into_iter()
        .map(|name| format!("{above} {name}"));
    names
        .flat_map(|name| {
            let below = commands(folder, &name);
            std::iter::once(name).chain(below)
        })
        .collect()
}

#[test]
fn docs_have_every_command() {
    let page = root().join("docs/reference/cli.md");
    let text = fs::read_to_string(&page).expect("a readable page");
    let (intro, rest) = text.split_once("\n## ").expect("sections");
    let sections: Vec<(&str, &str)> = rest
        .split("\n## ")
        .map(|section| {
            (
                section.lines().next().unwrap_or_default(),
                section.trim_end(),
            )
        })
        .collect();
    let commands = commands(&Folder::new(&page), "gpuwise");
    assert!(
        commands.len() > 120 && commands.iter().any(|name| name == "gpuwise lease request"),
        "these are not all commands: {commands:?}"
    );
    let mut wanted = intro.trim_end().to_owned() + "\n";
    for name in &commands {
        let known = sections.iter().find(|(heading, _)| heading == name);
        let empty = format!("{name}\n\n```console\n$ {name} --help\n```");
        let section = known.map_or(empty.as_str(), |(_, section)| section);
        wanted.extend(["\n## ", section, "\n"]);
    }
    hold(&page, &text, &wanted);
}

#[test]
fn docs_have_every_constant() {
    let page = root().join("docs/reference/constants.md");
    let text = fs::read_to_string(&page).expect("a readable page");
    let (head, _) = text.split_once("\n| ").expect("a page with a table");
    let mut wanted = format!(
        "{head}\n| constant | meaning | unit | prior | spread | by generation | by engine |\n"
    );
    wanted.push_str("|---|---|---|--:|--:|--:|--:|\n");
    let spread = |value: f64| {
        if value == 0.0 {
            "–".into()
        } else {
            format!("{value}")
        }
    };
    for parameter in PARAMETERS {
        writeln!(
            wanted,
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            parameter.key,
            parameter.meaning,
            parameter.unit,
            parameter.default,
            spread(parameter.spread),
            spread(parameter.generation_spread),
            spread(parameter.engine_spread),
        )
        .expect("text can be written to a string");
    }
    hold(&page, &text, &wanted);
}
