//! How many replicas now, and in ten minutes.
//!
//! Everything is a function of what was observed: no clock, file or thread. State is a value that can be written
//! down and read back, and then goes on to the same answers.
//!
//! - [`forecast`]: demand with ranges, learned while it is watched.

#[cfg(doctest)]
mod concepts;
pub mod forecast;
