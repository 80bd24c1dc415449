//! The built binary, as people and scripts see it.

mod docs;
mod answers;
mod bad_input;
mod models;
mod support;
mod hub;
mod plan;
