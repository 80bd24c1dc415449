//! The example runs, and the guide shows it as it is.

use std::{fs, path::Path};

#[allow(dead_code, reason = "its functions are called here")]
#[path = "../../examples/library.rs"]
mod library;

#[test]
fn the_example_answers() {
    library::main().expect("all three are answered");
}

#[test]
fn the_guide_shows_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).expect(path);
    let example = read("examples/library.rs");
    let code = example.split_once("use gpuwise_app").expect("code").1;
    let guide = read("../../docs/guides/library.md");
    assert!(
        guide.contains(code),
        "copy examples/library.rs into the guide"
    );
}
