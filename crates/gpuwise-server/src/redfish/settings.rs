//! Which Redfish service is asked, and how.

use std::{fmt, time::Duration};
use ureq::tls::RootCerts;

/// Text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// How a service lets us in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    None,
    /// User and password with each request.
    Basic(String, Secret),
    /// User and password once, for a session.
    Session(String, Secret),
}

/// Which service, and how it is asked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Such as `https://fabric.example:8443`.
    pub url: String,
    pub credentials: Credentials,
    /// Authorities that are trusted in place of the usual ones.
    pub authorities: Option<RootCerts>,
    /// How long an answer may take; composing may take all of it.
    pub timeout: Duration,
    /// How long composing a host may take in all, a service that does not answer included.
    pub patience: Duration,
    /// How often what it says is held against what we believe.
    pub every: Duration,
}

impl Settings {
    /// How a service at this address is usually asked.
    pub fn new(url: &str) -> Self {
        let url = url.trim_end_matches('/');
        let url = url.strip_suffix("/redfish/v1").unwrap_or(url);
        Self {
            url: url.to_owned(),
            credentials: Credentials::None,
            authorities: None,
            timeout: Duration::from_mins(2),
            patience: Duration::from_mins(5),
            every: Duration::from_secs(30),
        }
    }
}
