//! Flags of whatever asks a Redfish service.

use clap::Args;
use gpuwise_units::Nanoseconds;
use std::path::PathBuf;

/// How the service lets us in, and how long it may take.
#[derive(Debug, Clone, Args)]
#[allow(
    clippy::struct_field_names,
    reason = "a flag has one name in all of a command"
)]
pub struct RedfishFlags {
    /// File that holds `user:password` for the Redfish service
    #[arg(long, value_name = "FILE")]
    pub(crate) redfish_user_file: Option<PathBuf>,
    /// Environment variable that holds `user:password` for the Redfish service
    #[arg(long, value_name = "NAME", conflicts_with = "redfish_user_file")]
    pub(crate) redfish_user_env: Option<String>,
    /// Log in once for a session; else user and password go with each request
    #[arg(long)]
    pub(crate) redfish_session: bool,
    /// Certificates (PEM) to trust for the Redfish service instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub(crate) redfish_ca_file: Option<PathBuf>,
    /// How long one answer of the Redfish service may take, composing a system included
    #[arg(long, value_name = "TIME", default_value = "2min")]
    pub(crate) redfish_timeout: Nanoseconds,
}

impl RedfishFlags {
    /// What an answer may take where nobody says.
    pub(crate) const TIMEOUT: Nanoseconds = Nanoseconds(120_000_000_000);

    /// Whether any of them was said.
    pub(crate) fn said(&self) -> bool {
        self.redfish_user_file.is_some()
            || self.redfish_user_env.is_some()
            || self.redfish_session
            || self.redfish_ca_file.is_some()
            || self.redfish_timeout != Self::TIMEOUT
    }
}
