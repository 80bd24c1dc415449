//! Pages of metrics, as exporters and engines serve them.

use std::{io::Read as _, time::Duration};
use ureq::Agent;

/// The page of a large server is some megabytes.
const LARGEST: u64 = 64 << 20;

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScrapeError {
    /// No address that can be asked.
    #[error("{0:?} is no address such as http://host:9400/metrics")]
    Address(String),
    /// No connection, or it broke.
    #[error("{address} cannot be asked: {why}")]
    Unreachable {
        address: String,
        /// What the network said.
        why: String,
    },
    /// It took too long.
    #[error("{address} does not answer within {seconds} s")]
    Silent {
        address: String,
        /// How long we waited.
        seconds: u64,
    },
    /// It wants to know who asks.
    #[error("{address} answers {status}: it needs a token")]
    Refused { address: String, status: u16 },
    /// Another status that is not success.
    #[error("{address} answers {status}")]
    Failed { address: String, status: u16 },
    /// It is no text, or too long.
    #[error("the page of {address} cannot be read: {why}")]
    Page { address: String, why: String },
}

/// Fetches one page again and again over one connection.
#[derive(Debug)]
pub struct Scraper {
    agent: Agent,
    address: String,
    token: Option<String>,
    timeout: Duration,
}

impl Scraper {
    /// Of an address; `/metrics` is added where no path is given.
    ///
    /// # Errors
    /// When it is no address.
    pub fn new(
        address: &str,
        token: Option<String>,
        timeout: Duration,
    ) -> Result<Self, ScrapeError> {
        let with_scheme = if address.contains("://") {
            address.to_owned()
        } else {
            format!("http://{address}")
        };
        let (scheme, rest) = with_scheme
            .split_once("://")
            .ok_or_else(|| ScrapeError::Address(address.into()))?;
        let host = rest.split('/').next().unwrap_or("");
        // Whoever writes a password into an address would find it in our output.
        if !matches!(scheme, "http" | "https") || host.is_empty() || host.contains('@') {
            return Err(ScrapeError::Address(format!(
                "{scheme}://{}",
                host.rsplit('@').next().unwrap_or("")
            )));
        }
        let path = rest.trim_start_matches(host);
        let address = if path.is_empty() || path == "/" {
            format!("{scheme}://{host}/metrics")
        } else {
            with_scheme.clone()
        };
        let agent = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .user_agent(concat!("gpuwise/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok(Self {
            agent,
            address,
            token,
            timeout,
        })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// The page now.
    ///
    /// # Errors
    /// When there is none.
    pub fn page(&self) -> Result<String, ScrapeError> {
        let address = || self.address.clone();
        let mut request = self.agent.get(&self.address);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut response = request.call().map_err(|error| match error {
            ureq::Error::Timeout(_) => ScrapeError::Silent {
                address: address(),
                seconds: self.timeout.as_secs(),
            },
            other => ScrapeError::Unreachable {
                address: address(),
                why: other.to_string(),
            },
        })?;
        match response.status().as_u16() {
            200..=299 => {}
            status @ (401 | 403) => {
                return Err(ScrapeError::Refused {
                    address: address(),
                    status,
                });
            }
            status => {
                return Err(ScrapeError::Failed {
                    address: address(),
                    status,
                });
            }
        }
        let mut text = String::new();
        let read = response
            .body_mut()
            .as_reader()
            .take(LARGEST + 1)
            .read_to_string(&mut text);
        let why = match read {
            Ok(_) if text.len() as u64 > LARGEST => format!("it is longer than {LARGEST} bytes"),
            Ok(_) => return Ok(text),
            Err(error) => error.to_string(),
        };
        Err(ScrapeError::Page {
            address: address(),
            why,
        })
    }
}
