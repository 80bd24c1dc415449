//! `gpuwise optimize model.onnx --fuse`: a program that answers as the script would stands for Python with onnxsim.

use crate::support::{Place, Ran, ran};
use std::{env, fs, os::unix::fs::PermissionsExt as _};

/// Runs with a `python3` that prints this, after writing the file that it is to write.
fn asked(answer: &str, flags: &[&str]) -> (Place, Ran) {
    let place = Place::new();
    place.write("model.onnx", "a graph");
    // -c SCRIPT MODEL OUT HOW
    let script = format!(
        "#!/bin/sh\nprintf 'smaller' > \"$4\"\necho \"$5\" > how\ncat <<'END'\n{answer}\nEND\n"
    );
    let python = place.write("bin/python3", script);
    fs::set_permissions(python, fs::Permissions::from_mode(0o755)).unwrap();
    let all = [&["optimize", "model.onnx"], flags].concat();
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", place.path("bin").display());
    let ran = ran(place.command(&all).env("PATH", path));
    (place, ran)
}

const FUSED: &str = r#"{"before": {"Conv": 2, "BatchNormalization": 2, "Relu": 1}, "after": {"Conv": 2, "Relu": 1}, "off": 3e-07, "why": null, "by": "onnxsim 0.8.1, onnxruntime 1.32.0"}"#;

#[test]
fn operators_are_counted_before_and_after() {
    let flags = ["--fuse", "batchnorm,dead", "-o", "fused.onnx"];
    let (place, ran) = asked(FUSED, &flags);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for line in [
        "BatchNormalization       2      0",
        "all                      5      3",
        "3.0e-7",
        "onnxsim 0.8.1",
    ] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    assert_eq!(
        fs::read_to_string(place.path("fused.onnx")).unwrap(),
        "smaller"
    );
    assert_eq!(fs::read_to_string(place.path("how")).unwrap(), "fuse\n");
    let (place, _) = asked(FUSED, &["--fuse", "dead", "-o", "fused.onnx"]);
    assert_eq!(fs::read_to_string(place.path("how")).unwrap(), "skip\n");
}

#[test]
fn what_is_not_the_same_is_not_written() {
    let flags = ["--fuse", "batchnorm", "-o", "fused.onnx"];
    for (answer, said) in [
        (FUSED.replace("3e-07", "2e-4"), "off by 2.0e-4"),
        (
            FUSED
                .replace("3e-07", "null")
                .replace("\"why\": null", "\"why\": \"no kernel\""),
            "no kernel",
        ),
        (
            r#"{"missing": "onnxsim"}"#.into(),
            "pip install onnx onnxsim",
        ),
        (
            r#"{"failed": "Unexpected end of the graph"}"#.into(),
            "Unexpected end",
        ),
        ("Killed".into(), "onnxsim ended with"),
    ] {
        let (place, ran) = asked(&answer, &flags);
        assert_eq!(ran.code, 2, "{answer}: {}", ran.out);
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
        let left: Vec<_> = fs::read_dir(place.path(""))
            .unwrap()
            .map(|one| one.unwrap().file_name())
            .collect();
        assert!(
            !left
                .iter()
                .any(|name| name.to_string_lossy().starts_with("fused")),
            "{left:?}"
        );
    }
}

#[test]
fn flags_of_checkpoints_say_nothing_of_a_graph() {
    for (flags, said) in [
        (
            &["--to", "fp8", "-o", "x.onnx"] as &[&str],
            "--to of model.onnx",
        ),
        (&["--rotate", "-o", "x.onnx"], "--rotate of model.onnx"),
        (
            &["--fuse", "qkv,gate-up", "-o", "x.onnx"],
            "expected --fuse batchnorm",
        ),
        (&["-o", "x.onnx"], "expected --fuse batchnorm"),
        (&["--fuse", "dead"], "--output FILE is missing"),
        (&["--fuse", "dead", "-o", "model.onnx"], "is there already"),
    ] {
        let (_, ran) = asked(FUSED, flags);
        assert_eq!(ran.code, 2, "{flags:?}: {}", ran.out);
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
}
