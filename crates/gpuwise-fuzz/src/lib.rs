//! What fuzzing hands to the readers and holds of their answers.
//!
//! The same checks run in two ways: under libFuzzer, which sees what of the code is reached and needs
//! a nightly compiler (`fuzz/` in the root of the repository), and from the example `seeds`, which changes
//! the seeds blindly and needs the stable compiler alone.

mod mutate;
mod readers;

pub use mutate::{Mutator, Random};

pub fn targets() -> impl Iterator<Item = &'static str> {
    readers::TARGETS.iter().map(|(name, _)| *name)
}

/// Hands bytes to a target; `false` where there is none of this name.
///
/// # Panics
/// When the reader does, or when what it answers cannot be: that is what is looked for.
pub fn check(target: &str, data: &[u8]) -> bool {
    let found = readers::TARGETS.iter().find(|(name, _)| *name == target);
    if let Some((_, check)) = found {
        check(data);
    }
    found.is_some()
}
