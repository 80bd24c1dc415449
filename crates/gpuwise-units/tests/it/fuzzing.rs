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
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let targets = stems(&fuzz.join("fuzz_targets"));
    assert!(!targets.is_empty());
    assert_eq!(targets, stems(&fuzz.join("seeds")));
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("a manifest");
    for target in targets {
        assert!(
            manifest.contains(&format!("name = \"{target}\"")),
            "{target}"
        );
        let seeds = fs::read_dir(fuzz.join("seeds").join(&target)).expect("a folder");
        assert!(seeds.count() > 0, "{target} has no seed");
    }
}
