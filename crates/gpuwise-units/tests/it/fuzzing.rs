//! Every fuzz target is declared and has seeds: without them its run ends before it begins.

use std::{collections::BTreeSet, fs, path::Path};

fn stems(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder)
        .expect("a readable folder")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

#[test]
fn every_fuzz_target_has_seeds() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let fuzz = crates.join("../fuzz");
    let targets = stems(&fuzz.join("fuzz_targets"));
    assert!(!targets.is_empty());
    assert_eq!(targets, stems(&fuzz.join("seeds")));
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("a manifest");
    let readers = crates.join("gpuwise-fuzz/src/readers");
    let checks = fs::read_to_string(readers.join("mod.rs")).expect("a list of checks");
    for target in targets {
        assert!(
            checks.contains(&format!("(\"{target}\", {target}::check)")),
            "{target} is not run by the stable compiler"
        );
        assert!(
            manifest.contains(&format!("name = \"{target}\"")),
            "{target}"
        );
        let seeds = fs::read_dir(fuzz.join("seeds").join(&target)).expect("a folder");
        assert!(seeds.count() > 0, "{target} has no seed");
    }
}
