//! Readers against reference counts, worked examples and hostile input.

mod models;
