//! Documents read back as they were written, and refused where they are not theirs.

// Tests read the schemas that are committed.
#![allow(clippy::unwrap_used)]

mod documents;
mod nouns;
mod proposals;
mod runs;
mod plans;
mod schemas;
