//! The application as a library: what a program sees that calls it.

mod examples;
mod files;
mod measured;
