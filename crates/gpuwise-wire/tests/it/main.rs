//! Documents read back as they were written, and refused where they are not theirs.

// Tests read the schemas that are committed.
#![allow(clippy::unwrap_used)]

mod documents;
mod live;
mod nouns;
mod plans;
mod proposals;
mod runs;
mod schemas;
