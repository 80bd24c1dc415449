//! Flags of whatever asks a Redfish service.

use clap::Args;
use gpuwise_units::Nanoseconds;
use std::path::PathBuf;

/// How the service lets us in, and how long it may take.
#[derive(Debug, Clone, Args)]
pub struct RedfishFlags {
    /// File that holds `user:password` for the Redfish service
    #[arg(long = "redfish-user-file", value_name = "FILE")]
    pub(crate) user_file: Option<PathBuf>,
    /// Environment variable that holds `user:password` for the Redfish service
    #[arg(
        long = "redfish-user-env",
        value_name = "NAME",
        conflicts_with = "user_file"
    )]
    pub(crate) user_env: Option<String>,
    /// Log in once for a session; else user and password go with each request
    #[arg(long = "redfish-session")]
    pub(crate) session: bool,
    /// Certificates (PEM) to trust for the Redfish service instead of the public ones
    #[arg(long = "redfish-ca-file", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// How long one answer of the Redfish service may take, composing a system included
    #[arg(
        long = "redfish-timeout",
        value_name = "TIME",
        default_value = "2min"
    )]
    pub(crate) timeout: Nanoseconds,
}

impl RedfishFlags {
    /// What an answer may take where nobody says.
    pub(crate) const TIMEOUT: Nanoseconds = Nanoseconds(120_000_000_000);

    /// Whether any of them was said.
    pub(crate) fn said(&self) -> bool {
        self.user_file.is_some()
            || self.user_env.is_some()
            || self.session
            || self.ca_file.is_some()
            || self.timeout != Self::TIMEOUT
    }
}
