//! The rings: which crate may depend on which, and what the pure crates may bring with them.
//!
//! It lives in the tests of the innermost crate, which build fastest; it reads `cargo metadata`,
//! so that every crate of the workspace is held to it. `docs/decisions/0001-rings-and-purity.md`
//! says why the rings are there.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A crate of the workspace and where it stands.
struct Place {
    name: &'static str,
    ring: Ring,
    /// Crates of the workspace that it may name; those under them are included.
    may_name: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ring {
    /// Pure and `no_std`.
    Core,
    /// Pure, on the standard library: its clippy configuration forbids what is not pure.
    Pure,
    /// Reads and writes files, sockets and clocks; only the direction of its arrows is held.
    Edge,
    /// Saved documents; only the direction of its arrows is held.
    Seam,
    /// Puts all together.
    Top,
}

const PLACES: &[Place] = &[
    Place {
        name: "gpuwise-units",
        ring: Ring::Core,
        may_name: &[],
    },
    Place {
        name: "gpuwise-domain",
        ring: Ring::Core,
        may_name: &["gpuwise-units"],
    },
    Place {
        name: "gpuwise-size",
        ring: Ring::Core,
        may_name: &["gpuwise-domain", "gpuwise-operators"],
    },
    Place {
        name: "gpuwise-operators",
        ring: Ring::Core,
        may_name: &["gpuwise-domain"],
    },
    Place {
        name: "gpuwise-scan",
        ring: Ring::Pure,
        may_name: &["gpuwise-domain"],
    },
    Place {
        name: "gpuwise-read",
        ring: Ring::Pure,
        may_name: &["gpuwise-scan"],
    },
    // What it makes is bytes, whoever asks: it knows no noun.
    Place {
        name: "gpuwise-compress",
        ring: Ring::Pure,
        may_name: &[],
    },
    Place {
        name: "gpuwise-view",
        ring: Ring::Pure,
        may_name: &["gpuwise-domain"],
    },
    Place {
        name: "gpuwise-sched",
        ring: Ring::Pure,
        may_name: &["gpuwise-domain"],
    },
    Place {
        name: "gpuwise-scale",
        ring: Ring::Pure,
        may_name: &["gpuwise-domain"],
    },
    Place {
        name: "gpuwise-account",
        ring: Ring::Pure,
        may_name: &["gpuwise-domain"],
    },
    Place {
        name: "gpuwise-sim",
        ring: Ring::Pure,
        may_name: &[
            "gpuwise-domain",
            "gpuwise-scale",
            "gpuwise-size",
            "gpuwise-sched",
        ],
    },
    Place {
        name: "gpuwise-measure",
        ring: Ring::Pure,
        may_name: &["gpuwise-domain", "gpuwise-operators", "gpuwise-size"],
    },
    Place {
        name: "gpuwise-lab",
        ring: Ring::Edge,
        may_name: &[
            "gpuwise-operators",
            "gpuwise-read",
            "gpuwise-sched",
            "gpuwise-sim",
            "gpuwise-size",
            "gpuwise-view",
        ],
    },
    Place {
        name: "gpuwise-wire",
        ring: Ring::Seam,
        may_name: &["gpuwise-domain"],
    },
    // Pure, though it speaks in documents: its log is made of them.
    Place {
        name: "gpuwise-broker",
        ring: Ring::Seam,
        may_name: &[
            "gpuwise-account",
            "gpuwise-scale",
            "gpuwise-sched",
            "gpuwise-wire",
        ],
    },
    // Under the edges that are watched: how spans are written and sent is one thing.
    Place {
        name: "gpuwise-otlp",
        ring: Ring::Edge,
        may_name: &[],
    },
    Place {
        name: "gpuwise-server",
        ring: Ring::Edge,
        may_name: &[
            "gpuwise-broker",
            "gpuwise-otlp",
            "gpuwise-scale",
            "gpuwise-sim",
            "gpuwise-store",
        ],
    },
    Place {
        name: "gpuwise-probe",
        ring: Ring::Edge,
        may_name: &["gpuwise-wire", "gpuwise-read"],
    },
    Place {
        name: "gpuwise-store",
        ring: Ring::Edge,
        may_name: &["gpuwise-wire"],
    },
    Place {
        name: "gpuwise-cuda",
        ring: Ring::Edge,
        may_name: &["gpuwise-wire"],
    },
    Place {
        name: "gpuwise-k8s",
        ring: Ring::Edge,
        may_name: &[
            "gpuwise-broker",
            "gpuwise-otlp",
            "gpuwise-read",
            "gpuwise-sched",
            "gpuwise-wire",
        ],
    },
    // Nothing but fuzzing names it.
    Place {
        name: "gpuwise-fuzz",
        ring: Ring::Top,
        may_name: &[
            "gpuwise-compress",
            "gpuwise-measure",
            "gpuwise-probe",
            "gpuwise-read",
            "gpuwise-wire",
        ],
    },
    // Beside the others: tests alone may have it, and arrows of tests are not held.
    Place {
        name: "gpuwise-needs",
        ring: Ring::Edge,
        may_name: &[],
    },
    Place {
        name: "gpuwise-app",
        ring: Ring::Top,
        may_name: &[
            "gpuwise-compress",
            "gpuwise-cuda",
            "gpuwise-k8s",
            "gpuwise-lab",
            "gpuwise-measure",
            "gpuwise-operators",
            "gpuwise-server",
            "gpuwise-store",
            "gpuwise-probe",
            "gpuwise-read",
            "gpuwise-scale",
            "gpuwise-sched",
            "gpuwise-sim",
            "gpuwise-size",
            "gpuwise-view",
            "gpuwise-wire",
        ],
    },
    Place {
        name: "gpuwise-py",
        ring: Ring::Top,
        may_name: &["gpuwise-app"],
    },
    Place {
        name: "gpuwise",
        ring: Ring::Top,
        may_name: &["gpuwise-app"],
    },
];

/// Crates from outside that run inside the pure crates: (name, whether `no_std` crates may have
/// it, why it is there and why it is pure).
const ALLOWED: &[(&str, bool, &str)] = &[
    ("thiserror", true, "error texts; a derive"),
    (
        "libm",
        true,
        "elementary functions that are equal on every platform",
    ),
    (
        "once_cell",
        true,
        "a value that is made once, by an atomic pointer; its `race` part starts no thread and waits for none",
    ),
    (
        "rand_chacha",
        true,
        "seeded streams that stay the same from version to version",
    ),
    (
        "rand_core",
        true,
        "traits of rand_chacha, without its operating-system source",
    ),
    ("ppv-lite86", true, "vector arithmetic of rand_chacha"),
    ("zerocopy", true, "views of bytes for ppv-lite86"),
    ("serde", true, "derives of file formats"),
    ("serde_core", true, "traits of serde"),
    (
        "serde_json",
        false,
        "reads and writes JSON values in memory",
    ),
    ("itoa", false, "prints integers for serde_json and csv"),
    ("zmij", false, "prints reals for serde_json"),
    ("ryu", false, "prints reals for csv"),
    ("base64", false, "bytes as text, both ways, in memory"),
    ("memchr", false, "finds bytes"),
    (
        "pulp",
        false,
        "loops by the widest instructions there are, which it asks of the processor; results are the same by any",
    ),
    ("raw-cpuid", false, "the instruction of pulp that asks"),
    ("bitflags", false, "sets of bits of raw-cpuid"),
    ("bytemuck", false, "views of bytes for pulp"),
    ("num-complex", false, "a number type in pulp's signatures"),
    ("reborrow", false, "a trait of pulp"),
    (
        "pulp-wasm-simd-flag",
        false,
        "a constant of pulp, where instructions are those of WebAssembly",
    ),
    ("quick-xml", false, "pulls events out of XML text in memory"),
    (
        "indexmap",
        false,
        "keeps the order of keys: its iteration is not by hash",
    ),
    (
        "hashbrown",
        false,
        "table under indexmap, never iterated itself",
    ),
    (
        "rustc-hash",
        false,
        "a fixed hash for look-ups in inner loops",
    ),
    ("foldhash", false, "hash of hashbrown"),
    ("equivalent", false, "key comparison of indexmap"),
    ("toml", false, "reads the catalogue from text"),
    ("toml_datetime", false, "dates of toml"),
    ("toml_parser", false, "grammar of toml"),
    ("toml_writer", false, "writes toml"),
    ("serde_spanned", false, "places in toml, for error texts"),
    ("winnow", false, "parser combinators of toml"),
    ("csv", false, "reads and writes tables in memory"),
    ("csv-core", false, "grammar of csv"),
    (
        "serde-saphyr",
        false,
        "reads YAML workloads, with bounds on aliases and depth",
    ),
    ("granit-parser", false, "grammar of serde-saphyr"),
    ("arraydeque", false, "fixed queue of granit-parser"),
    ("smallvec", false, "short lists of serde-saphyr"),
    (
        "nohash-hasher",
        false,
        "takes numbers for their hash, where serde-saphyr also writes",
    ),
    ("num-traits", false, "numbers of serde-saphyr"),
    ("encoding_rs", false, "byte order marks of YAML"),
    ("encoding_rs_io", false, "the same over a reader in memory"),
    ("annotate-snippets", false, "shows where YAML is wrong"),
    (
        "anstyle",
        false,
        "style values of annotate-snippets; asks no terminal",
    ),
    ("flate2", false, "unpacks .gz bytes in memory"),
    ("zlib-rs", false, "inflate in Rust, for flate2"),
    ("simdutf8", false, "checks UTF-8"),
    (
        "jiff",
        false,
        "days of the calendar; its clock is not asked",
    ),
    ("jiff-core", false, "arithmetic of jiff"),
    ("log", false, "what jiff would say to a logger; none is set"),
    ("cfg-if", false, "conditional compilation"),
    (
        "core_detect",
        false,
        "asks the processor which instructions it has, for zlib-rs",
    ),
    ("scopeguard", false, "runs a closure at the end of a scope"),
    (
        "comfy-table",
        false,
        "lays out tables; without its `tty` feature it asks no terminal",
    ),
    ("unicode-width", false, "columns that a character takes"),
    ("unicode-segmentation", false, "where text may be cut"),
];

/// What `cargo metadata` says, as names.
struct Metadata {
    root: PathBuf,
    members: BTreeSet<String>,
    /// Normal and build dependencies by package id; `None`: a macro, which does not run with us.
    dependencies: BTreeMap<String, Vec<String>>,
    names: BTreeMap<String, String>,
    macros: BTreeSet<String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Metadata {
    fn read() -> Self {
        let host = Command::new("rustc")
            .arg("-vV")
            .output()
            .expect("rustc -vV runs");
        let host = String::from_utf8(host.stdout).expect("rustc prints UTF-8");
        let host = host
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .expect("rustc -vV names its host");
        let output = Command::new(env!("CARGO"))
            .args([
                "metadata",
                "--format-version=1",
                "--offline",
                "--filter-platform",
                host,
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo metadata runs");
        assert!(
            output.status.success(),
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let json: Value =
            serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
        let is_macro = |package: &Value| {
            list(&package["targets"])
                .any(|target| list(&target["kind"]).any(|kind| kind == "proc-macro"))
        };
        let names: BTreeMap<String, String> = list(&json["packages"])
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let runs =
            |dependency: &&Value| list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
        Self {
            root: PathBuf::from(text(&json["workspace_root"])),
            members: list(&json["workspace_members"])
                .map(|id| names[&text(id)].clone())
                .collect(),
            dependencies: list(&json["resolve"]["nodes"])
                .map(|node| {
                    let under = list(&node["deps"])
                        .filter(runs)
                        .map(|dependency| text(&dependency["pkg"]));
                    (text(&node["id"]), under.collect())
                })
                .collect(),
            macros: list(&json["packages"])
                .filter(|p| is_macro(p))
                .map(|p| text(&p["id"]))
                .collect(),
            names,
        }
    }

    fn id(&self, name: &str) -> &str {
        let found = self.names.iter().find(|(_, of)| *of == name);
        found
            .unwrap_or_else(|| {
                panic!("{name} is in the table but not in the workspace: remove its row")
            })
            .0
    }

    /// Names of what a crate depends on itself.
    fn direct(&self, name: &str) -> BTreeSet<&str> {
        self.dependencies[self.id(name)]
            .iter()
            .map(|id| self.names[id].as_str())
            .collect()
    }

    /// Names of all that runs inside a crate, itself and macros left out.
    fn under(&self, name: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![self.id(name)];
        while let Some(id) = open.pop() {
            for next in &self.dependencies[id] {
                if !self.macros.contains(next) && seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        seen.into_iter().map(|id| self.names[id].as_str()).collect()
    }
}

fn place(name: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.name == name)
}

/// The crates that a place may name, with those under them.
fn reachable(place: &Place) -> BTreeSet<&'static str> {
    let mut reach = BTreeSet::new();
    for name in place.may_name {
        reach.insert(*name);
        reach.extend(self::place(name).map(reachable).unwrap_or_default());
    }
    reach
}

#[test]
fn arrows_go_down_only() {
    let metadata = Metadata::read();
    let mut wrong = Vec::new();
    for name in &metadata.members {
        let Some(place) = place(name) else {
            wrong.push(format!(
                "{name} has no row in PLACES: say in which ring it is and what it may name"
            ));
            continue;
        };
        let may = reachable(place);
        for other in metadata.direct(name) {
            if metadata.members.contains(other) && !may.contains(other) {
                wrong.push(format!(
                    "{name} depends on {other}, which is not under it: move what is shared down, or hand it in as an argument"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// The crates of the workspace as they are declared, features and platforms aside.
fn declared() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline", "--no-deps"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    let json: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    list(&json["packages"]).cloned().collect()
}

#[test]
fn every_declared_dependency_is_named() {
    let mut seen = 0;
    let mut idle = Vec::new();
    for package in declared() {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let mut paths = sources(manifest.parent().expect("a folder of the crate"));
        paths.extend(list(&package["targets"]).map(|target| text(&target["src_path"]).into()));
        let read = |path: &PathBuf| fs::read_to_string(path).expect("a readable source");
        let source: String = paths.iter().map(read).collect();
        let words: BTreeSet<&str> = source
            .split(|at: char| !at.is_alphanumeric() && at != '_')
            .collect();
        for dependency in list(&package["dependencies"]) {
            let known = ["rename", "name"].map(|field| dependency[field].as_str());
            let name = known.into_iter().flatten().next().expect("a name");
            seen += 1;
            if !words.contains(name.replace('-', "_").as_str()) {
                idle.push(format!("{}: {name}", manifest.display()));
            }
        }
    }
    assert!(seen > 150, "only {seen} dependencies were read");
    assert!(
        idle.is_empty(),
        "declared, and named in no source: remove it\n{}",
        idle.join("\n")
    );
}

#[test]
fn the_map_has_every_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("a readable page");
    let picture = page.split("```").nth(1).expect("a picture");
    let words: BTreeSet<&str> = picture
        .split(|at: char| !at.is_alphanumeric() && at != '-')
        .collect();
    let packages = declared();
    assert!(
        packages.len() > 20,
        "only {} crates were read",
        packages.len()
    );
    for package in &packages {
        let name = text(&package["name"]);
        assert!(
            page.contains(&format!("`{name}`")),
            "ARCHITECTURE.md has no row of {name}"
        );
        let short = name.strip_prefix("gpuwise-").unwrap_or(&name);
        let outside = matches!(short, "needs" | "fuzz");
        assert!(
            outside || words.contains(short) || words.contains(name.as_str()),
            "the picture in ARCHITECTURE.md lacks {name}"
        );
    }
}

#[test]
fn pure_crates_bring_only_what_is_listed() {
    let metadata = Metadata::read();
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for place in PLACES
        .iter()
        .filter(|place| matches!(place.ring, Ring::Core | Ring::Pure))
    {
        for other in metadata.under(place.name) {
            if metadata.members.contains(other) {
                continue;
            }
            used.insert(other);
            match ALLOWED.iter().find(|(name, ..)| *name == other) {
                None => wrong.push(format!(
                    "{} brings {other}, which is not in ALLOWED: show that it reads no clock, file or environment and starts no thread, then add it with the reason; else depend on it further out",
                    place.name
                )),
                Some((_, false, _)) if place.ring == Ring::Core => wrong.push(format!(
                    "{} is no_std and brings {other}, which ALLOWED keeps to crates on the standard library",
                    place.name
                )),
                Some(_) => {}
            }
        }
    }
    for (name, ..) in ALLOWED {
        if !used.contains(name) {
            wrong.push(format!(
                "{name} is in ALLOWED and no pure crate brings it: remove its row"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

fn contains(path: &Path, wanted: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(wanted))
}

/// Rust files under a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

/// A crate without a unit-test binary says `test = false`; a unit test in it would never run, unless an
/// integration binary includes its module by path.
#[test]
fn unit_tests_are_run() {
    let root = Metadata::read().root;
    let mut included = String::new();
    for place in PLACES {
        let main = root
            .join("crates")
            .join(place.name)
            .join("tests/it/main.rs");
        included += &std::fs::read_to_string(main).unwrap_or_default();
    }
    let mut wrong = Vec::new();
    for place in PLACES {
        let folder = root.join("crates").join(place.name);
        if !contains(&folder.join("Cargo.toml"), "\ntest = false\n") {
            continue;
        }
        for path in sources(&folder.join("src")) {
            let within = path.strip_prefix(&folder).unwrap_or(&path);
            let within = within.to_string_lossy().replace('\\', "/");
            if contains(&path, "#[test]") && !included.contains(&format!("/{within}\"]")) {
                wrong.push(format!(
                    "{}: {within} has unit tests, which no binary runs: move them to tests/it, or include the module there by #[path]",
                    place.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn pure_crates_are_held_pure() {
    let root = Metadata::read().root;
    let mut wrong = Vec::new();
    for place in PLACES {
        let folder = root.join("crates").join(place.name);
        match place.ring {
            Ring::Core if !contains(&folder.join("src/lib.rs"), "\n#![no_std]\n") => {
                wrong.push(format!("{}: src/lib.rs must say #![no_std]", place.name));
            }
            Ring::Pure if !contains(&folder.join("clippy.toml"), "std::time::Instant") => {
                wrong.push(format!(
                    "{}: needs the clippy.toml of gpuwise-read, which forbids files, clocks, threads and hash order",
                    place.name
                ));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
