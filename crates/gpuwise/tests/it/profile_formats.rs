//! `gpuwise profile` on files of every profiler: what is told is what was computed elsewhere.

use crate::support::{Place, Ran};
use serde_json::Value;
use std::path::Path;

fn profile(file: &Path, format: &str) -> Ran {
    let file = file.to_str().expect("a path");
    Place::new().run(&["profile", file, "--format", format])
}

fn json(file: &Path) -> Value {
    let ran = profile(file, "json");
    assert_eq!(ran.code, 0, "{}: {}", file.display(), ran.err);
    serde_json::from_str(&ran.out).expect("JSON")
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).expect("expected figures")).expect("JSON")
}

/// Everything that is wanted is there, under the same names; more may be.
fn holds(got: &Value, want: &Value, place: &str) {
    match (got, want) {
        (Value::Object(got), Value::Object(want)) => {
            for (key, want) in want {
                let got = got.get(key).unwrap_or_else(|| panic!("{place}: no {key}"));
                holds(got, want, &format!("{place}.{key}"));
            }
        }
        (Value::Array(got), Value::Array(want)) => {
            assert_eq!(got.len(), want.len(), "{place}");
            for (at, (got, want)) in got.iter().zip(want).enumerate() {
                holds(got, want, &format!("{place}[{at}]"));
            }
        }
        (got, want) => assert_eq!(got, want, "{place}"),
    }
}

#[test]
fn figures_have_the_names_and_values_of_the_expected_files() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let other = read(&folder.join("expected_other.json"));
    let planes = read(&folder.join("xplane/expected_xplane.json"));
    let kinds = [
        (&other["nsys"], "nsys", ".gz", "nsight_systems"),
        (
            &other["memsnap"],
            "memory_snapshots",
            ".gz",
            "memory_snapshot",
        ),
        (&planes, "xplane", "", "xplane"),
    ];
    for (expected, place, ending, format) in kinds {
        for (name, want) in expected.as_object().expect("files") {
            let got = json(&folder.join(place).join(format!("{name}{ending}")));
            let source = &got["sources"][0];
            assert_eq!(source["format"], format, "{name}");
            holds(source, want, name);
        }
    }
}

#[test]
fn a_person_reads_the_answer_first() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    for (file, told) in [
        (
            "nsys/mfu_2gpu_before.sqlite.gz",
            "because the host waited for it, mostly in `cudaStreamSynchronize_v3020`",
        ),
        (
            "memory_snapshots/wedsonlin_medium_512_training.pickle.gz",
            "at most 11.6 GiB in use",
        ),
        ("memory_snapshots/hta_memory_timeline.raw.gz", "live, "),
        (
            "ncu/superbench_cublaslt_cc100_details.csv",
            "1 launch was counted; its time is limited by latency (100 %).",
        ),
        ("ncu/rtx5070_saxpy.csv", "what limits cannot be told"),
        (
            "xplane/xprof_tpu_inference_2.xplane.pb",
            "7 planes of TensorFlow's or JAX's profiler, 4 of 4 devices",
        ),
        (
            "nccl_flight/tutorial_sample.json",
            "1 dump of a flight recorder",
        ),
    ] {
        let file = folder.join(file);
        let ran = profile(&file, "table");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let first: Vec<&str> = ran.out.lines().take(4).collect();
        let first = first.join(" ").replace("  ", " ");
        assert!(first.contains(told), "{told}\n{}", ran.out);
        let wide = ran.out.lines().map(|line| line.chars().count()).max();
        assert!(wide.unwrap_or(0) <= 100, "{}", ran.out);
        assert_eq!(profile(&file, "md").code, 0);
        assert_eq!(profile(&file, "csv").code, 0);
        assert_eq!(profile(&file, "table").out, ran.out, "twice the same");
    }
}

#[test]
fn what_cannot_be_read_is_told_with_what_to_do() {
    let place = Place::new();
    let check = |name: &str, bytes: &[u8], told: &str, hint: &str| {
        place.write(name, bytes);
        let ran = place.run(&["profile", name]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.out);
        assert!(ran.err.contains(told), "{name}: {}", ran.err);
        assert!(ran.err.contains(hint), "{name}: {}", ran.err);
    };
    // A pickle that would run a command, were it given to Python.
    let evil = b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.";
    check(
        "evil.pickle",
        evil,
        "STACK_GLOBAL (0x93) at byte 17 is refused",
        "traces of the PyTorch profiler",
    );
    check("list.pickle", b"\x80\x04]\x94.", "segment", "");
    check(
        "other.sqlite",
        b"SQLite format 3\0 and no more",
        "damaged or cut-off",
        "nsys export",
    );
    check(
        "job.nsys-rep",
        b"of the vendor",
        "nsys",
        "nsys export --type sqlite job.nsys-rep",
    );
    check(
        "job.ncu-rep",
        b"of the vendor",
        "ncu",
        "ncu --import job.ncu-rep --page raw --csv",
    );
    check(
        "notes.csv",
        b"a,b\n1,2\n",
        "no header with \"ID\" and \"Kernel Name\"",
        "traces of the PyTorch profiler",
    );
    check(
        "cut.xplane.pb",
        b"\x0a\x20\x08\x01\x12\x0d/device:GPU:0",
        "cut off",
        "traces of the PyTorch profiler",
    );
    check(
        "memory.json",
        b"[[1, 9, 3, 4]]",
        "action 9 is none of 1 to 4",
        "traces of the PyTorch profiler",
    );
}

#[test]
fn an_export_that_would_fill_the_disk_is_not_unpacked() {
    let place = Place::new();
    // A few bytes that say they are 64 TiB: two to the 30 pages of 64 KiB.
    let mut head = b"SQLite format 3\0".to_vec();
    head.resize(100, 0);
    head[17] = 1;
    head[28..32].copy_from_slice(&(1_u32 << 30).to_be_bytes());
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &head).expect("packs");
    place.write("bomb.sqlite.gz", packed.finish().expect("packs"));
    std::fs::create_dir(place.path("tmp")).expect("a folder");
    let mut command = place.command(&["profile", "bomb.sqlite.gz"]);
    let ran = crate::support::ran(command.env("TMPDIR", place.path("tmp")));
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(
        ran.err.contains("bomb.sqlite.gz") && ran.err.contains("65,500 GiB"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("hint:"), "{}", ran.err);
    let left = std::fs::read_dir(place.path("tmp"))
        .expect("a folder")
        .count();
    assert_eq!(left, 0, "nothing is left");
}

/// A file `findings.toml` of a user's catalogue replaces thresholds; one that does not fit is named.
#[test]
fn thresholds_of_ones_own() {
    let place = Place::new();
    let trace = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/guides/files/loop.json"
    );
    let row =
        |name: &str, value: f64| format!("[[threshold]]\nname = \"{name}\"\nvalue = {value}\n");
    let found = |rows: &str| {
        place.write("mine/findings.toml", rows);
        let mut command = place.command(&["profile", trace, "--format", "json"]);
        crate::support::ran(command.env("GPUWISE_CATALOGUE", place.path("mine")))
    };
    let classes = |ran: &Ran| -> Vec<String> {
        let all: Value = serde_json::from_str(&ran.out).expect("JSON");
        let found = all["summary"]["findings"].as_array().expect("findings");
        let classes = found.iter().filter_map(|one| one["class"].as_str());
        classes.map(str::to_owned).collect()
    };
    let said = |ran: &Ran| classes(ran).iter().any(|class| class == "data_loading");
    assert!(said(&found(&row("loader_share", 0.01))));
    assert!(!said(&found(&row("loader_share", 0.99))));
    let wrong = found(&row("loader", 0.99));
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    for expected in ["findings.toml", "`loader`", "loader_share"] {
        assert!(wrong.err.contains(expected), "{expected}: {}", wrong.err);
    }
    let file = place.path("mine/findings.toml");
    let checked = place.run(&["gpus", "--check", file.to_str().expect("a path")]);
    assert!(
        checked.code != 0 && checked.out.contains("`loader`"),
        "{}",
        checked.out
    );
}
