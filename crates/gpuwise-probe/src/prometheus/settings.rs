//! How a server is asked: its address, who we say we are, whom we trust.

use super::error::PrometheusError;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::time::Duration;
use ureq::tls::{PemItem, RootCerts, parse_pem};

/// Who we say we are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Authentication {
    #[default]
    None,
    Bearer(String),
    Basic {
        user: String,
        password: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Its address before `/api/v1`, such as `http://prometheus:9090`.
    pub address: String,
    pub authentication: Authentication,
    /// More headers of each request, such as `X-Scope-OrgID` of Mimir.
    pub headers: Vec<(String, String)>,
    /// Certificates in PEM to trust instead of the public ones.
    pub authorities: Option<Vec<u8>>,
    /// How long one query may take, on the server and on the way.
    pub timeout: Duration,
    /// How often a query is asked again after 429 or 503.
    pub retries: u32,
    /// The wait before it is first asked again, doubled each time; the server's own `Retry-After`
    /// goes before.
    pub first_wait: Duration,
}

impl Settings {
    /// A server without authentication: two minutes as Prometheus's own limit is, three retries.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            authentication: Authentication::None,
            headers: Vec::new(),
            authorities: None,
            timeout: Duration::from_mins(2),
            retries: 3,
            first_wait: Duration::from_secs(1),
        }
    }
}

pub(super) fn setting(what: String) -> PrometheusError {
    PrometheusError::Setting { what }
}

/// An address as it may be shown: without user, key and query.
pub(super) fn shown_address(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or("");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let path = path.trim_end_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    let colon = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{colon}{host}{slash}{path}")
}

pub(super) fn checked_address(url: &str) -> Result<String, PrometheusError> {
    let shown = shown_address(url);
    let Some(rest) = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))
    else {
        return Err(setting(format!(
            "{shown:?} is no address: it begins with http:// or https://"
        )));
    };
    let host = rest.split('/').next().unwrap_or("");
    if host.contains('@') {
        return Err(setting(format!(
            "the address of {shown} holds a user or a key: leave it out, and give --user-file or --token-file"
        )));
    }
    if host.is_empty() || url.contains(['?', '#']) || url.chars().any(char::is_whitespace) {
        return Err(setting(format!("{shown:?} is no address of a server")));
    }
    Ok(shown)
}

pub(super) fn authorities(pem: &[u8]) -> Result<RootCerts, PrometheusError> {
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        let item = item.map_err(|error| setting(format!("certificates to trust: {error}")))?;
        if let PemItem::Certificate(certificate) = item {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(setting(
            "certificates to trust: no certificate in PEM".into(),
        ));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

pub(super) fn authorization(by: &Authentication) -> Result<Option<String>, PrometheusError> {
    let sound =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii() && !c.is_control());
    match by {
        Authentication::None => Ok(None),
        Authentication::Bearer(token) if sound(token) => Ok(Some(format!("Bearer {token}"))),
        Authentication::Bearer(_) => Err(setting(
            "the token is empty, or not one line of plain text".into(),
        )),
        Authentication::Basic { user, .. } if user.contains(':') => {
            Err(setting("a user with a colon cannot be sent".into()))
        }
        Authentication::Basic { user, password } => {
            let pair = format!("{user}:{password}");
            Ok(Some(format!("Basic {}", STANDARD.encode(pair))))
        }
    }
}
