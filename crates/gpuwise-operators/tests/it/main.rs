//! Integration tests of operator functions.

#![allow(clippy::unwrap_used, reason = "tests may fail at once")]

mod attention;
mod fit;
mod laws;
mod support;
mod text;
