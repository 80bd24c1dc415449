//! The form of the state: a hash of the sources that say what it is made of, so that no build reads the
//! image of a state that another one wrote.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it reads sources while the crate is built; the crate reads nothing"
)]

use std::{fs, path::Path};

/// Crates whose types a state is made of.
const CRATES: [&str; 7] = [
    "units", "domain", "sched", "scale", "account", "wire", "broker",
];

fn main() {
    // FNV-1a, 64 bits: it tells builds of ours apart, and guards against nobody.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(env!("CARGO_PKG_VERSION").as_bytes());
    for name in CRATES {
        // Beside this crate where it is built from the repository; elsewhere the version says it all.
        let folder = format!("../gpuwise-{name}/src");
        println!("cargo::rerun-if-changed={folder}");
        walk(Path::new(&folder), &mut add);
    }
    println!("cargo::rustc-env=GPUWISE_STATE_FORM={hash:016x}");
}

fn walk(folder: &Path, add: &mut impl FnMut(&[u8])) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, add);
        } else if let Ok(bytes) = fs::read(&path) {
            add(path.to_string_lossy().as_bytes());
            add(&bytes);
        }
    }
}
