//! Enumerating deployments, testing them against the promise, and ranking what remains.

mod request;

pub use request::{Choices, Fixed, Request};
