//! The mutating webhook: which pods wait for a decision, and the certificates it answers with.

mod certificate;
mod review;
mod server;

pub use certificate::{Certificate, CertificateError, names};
pub use review::{GATED_AT, NAMESPACE_LABEL, WARNING, review};
pub use server::{Served, listen, serve};

/// Where the webhook is asked.
pub const WEBHOOK_PATH: &str = "/mutate-pods";
