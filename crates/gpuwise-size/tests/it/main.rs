//! Integration tests of sizing.

mod fixture;
mod search;
