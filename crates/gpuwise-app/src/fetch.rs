//! Texts from servers of one's own: metrics, and answers of a Prometheus server.

use crate::error::Problem;
use std::path::PathBuf;

/// Where a server's key, its certificate authority and our patience come from.
#[derive(Debug, Clone, clap::Args)]
pub struct Access {
    /// Environment variable that holds the key of the server; it is sent as a bearer token
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// File that holds the key of the server
    #[arg(long, value_name = "FILE", conflicts_with = "key_env")]
    pub key_file: Option<PathBuf>,
    /// Certificates (PEM) to trust instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub timeout: String,
}

/// Whether a text names a server.
pub fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Refuses what is no address of a collector of traces.
#[cfg(any(feature = "serve", feature = "kubernetes"))]
pub(crate) fn collector(otlp: Option<&str>) -> anyhow::Result<()> {
    match otlp.filter(|url| !is_url(url)) {
        None => Ok(()),
        Some(url) => {
            let what = format!("--otlp {url:?}: expected an address such as http://localhost:4318");
            Err(Problem::new(what).into())
        }
    }
}

/// An address as it may be shown: without user, key and query.
fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or("");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if path.is_empty() {
        format!("{scheme}://{host}")
    } else {
        format!("{scheme}://{host}/{path}")
    }
}

fn has_user(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/')
        .next()
        .is_some_and(|host| host.contains('@'))
}

/// What may be shown of an address, or why it is not asked.
fn checked(url: &str) -> anyhow::Result<String> {
    let name = shown(url);
    if has_user(url) {
        return Err(
            Problem::new(format!("the address of {name} holds a user or a key"))
                .hint("leave it out of the address; give the key by --key-env or --key-file")
                .into(),
        );
    }
    Ok(name)
}

#[cfg(not(feature = "hub"))]
pub struct Client;

#[cfg(not(feature = "hub"))]
impl Client {
    pub fn new(_access: &Access, _offline: bool) -> anyhow::Result<Self> {
        Err(Problem::new("this build of gpuwise has no network")
            .hint("save the server's /metrics to a file and give that")
            .into())
    }

    pub fn get(&self, url: &str, _query: &[(&str, &str)]) -> anyhow::Result<String> {
        Err(Problem::new(format!("{} is not asked", checked(url)?)).into())
    }

    pub fn post(&self, url: &str, _body: &serde_json::Value) -> anyhow::Result<String> {
        Err(Problem::new(format!("{} is not asked", checked(url)?)).into())
    }
}

#[cfg(feature = "hub")]
pub use connected::Client;

#[cfg(feature = "hub")]
mod connected {
    use super::{Access, checked};
    use crate::{authorities::authorities, error::Problem};
    use gpuwise_read::metrics::LARGEST_TEXT;
    use gpuwise_units::Nanoseconds;
    use std::{fs, time::Duration};
    use ureq::{
        Agent, Body, Error,
        http::{Response, StatusCode, header},
        tls::TlsConfig,
    };

    /// Asks servers for texts.
    pub struct Client {
        agent: Agent,
        key: Option<String>,
        timeout: String,
    }

    impl Client {
        /// A client as the flags have it.
        ///
        /// # Errors
        /// When the network must not be used, or a key, a certificate or a time cannot be read.
        pub fn new(access: &Access, offline: bool) -> anyhow::Result<Self> {
            if offline {
                return Err(Problem::new("--offline: no server is asked")
                    .hint("save the server's /metrics to a file and give that")
                    .into());
            }
            let timeout: Nanoseconds = access
                .timeout
                .parse()
                .map_err(|error| Problem::new("--timeout").because(anyhow::Error::new(error)))?;
            let patience = Some(Duration::from_nanos(timeout.0.max(1)));
            let mut tls = TlsConfig::builder();
            if let Some(path) = &access.ca_file {
                tls = tls.root_certs(authorities("--ca-file", path)?);
            }
            let agent = Agent::config_builder()
                .timeout_global(patience)
                .http_status_as_error(false)
                // A redirect is said: where a key goes is the user's to decide.
                .max_redirects(0)
                .max_redirects_will_error(false)
                .tls_config(tls.build())
                .user_agent(concat!("gpuwise/", env!("CARGO_PKG_VERSION")))
                .build()
                .new_agent();
            Ok(Self {
                agent,
                key: key(access)?,
                timeout: access.timeout.clone(),
            })
        }

        /// The text at an address.
        ///
        /// # Errors
        /// When the server refuses, is silent for too long, redirects, has a certificate that is not
        /// trusted, wants a key, or answers with anything but a text.
        pub fn get(&self, url: &str, query: &[(&str, &str)]) -> anyhow::Result<String> {
            let name = checked(url)?;
            let mut request = self.agent.get(url);
            for (key, value) in query {
                request = request.query(key, value);
            }
            if let Some(key) = &self.key {
                request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
            }
            let response = request.call().map_err(|error| self.failed(&name, error))?;
            if response.status().is_success() {
                return Ok(self.text(&name, response)?);
            }
            Err(refused(&name, &response).into())
        }

        /// What a server answers to a document.
        ///
        /// # Errors
        /// As [`Self::get`]; with what the server says where it refuses.
        pub fn post(&self, url: &str, body: &serde_json::Value) -> anyhow::Result<String> {
            let name = checked(url)?;
            let mut request = self
                .agent
                .post(url)
                .header(header::CONTENT_TYPE, "application/json");
            if let Some(key) = &self.key {
                request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
            }
            let sent = request.send(body.to_string());
            let response = sent.map_err(|error| self.failed(&name, error))?;
            let status = response.status();
            if status.is_success() {
                return Ok(self.text(&name, response)?);
            }
            if status.is_redirection() || status == StatusCode::UNAUTHORIZED {
                return Err(refused(&name, &response).into());
            }
            let said = self.text(&name, response)?;
            let said: String = said.chars().take(400).collect();
            Err(Problem::new(format!("{name} answers {status}: {}", said.trim())).into())
        }

        fn text(&self, name: &str, response: Response<Body>) -> Result<String, Problem> {
            let bytes = response
                .into_body()
                .into_with_config()
                .limit(LARGEST_TEXT as u64)
                .read_to_vec()
                .map_err(|error| self.failed(name, error))?;
            String::from_utf8(bytes)
                .map_err(|_| Problem::new(format!("{name} answers no text in UTF-8")))
        }

        fn failed(&self, name: &str, error: Error) -> Problem {
            match error {
                Error::Timeout(_) => {
                    Problem::new(format!("{name} does not answer within {}", self.timeout))
                        .hint("--timeout waits longer")
                }
                Error::HostNotFound => Problem::new(format!("{name}: there is no such host")),
                Error::BodyExceedsLimit(limit) => {
                    Problem::new(format!("{name} answers more than {limit} bytes"))
                }
                Error::Tls(_) | Error::Rustls(_) => {
                    Problem::new(format!("{name}: its certificate is not trusted"))
                        .because(error)
                        .hint("--ca-file names the certificate of a private authority")
                }
                Error::Io(inner) if is_tls(&inner) => {
                    Problem::new(format!("{name}: its certificate is not trusted"))
                        .because(inner)
                        .hint("--ca-file names the certificate of a private authority")
                }
                Error::Io(inner) if inner.kind() == std::io::ErrorKind::ConnectionRefused => {
                    Problem::new(format!("{name} refuses the connection"))
                        .hint("is the server up, and is this its port?")
                }
                other => Problem::new(format!("{name} cannot be asked")).because(other),
            }
        }
    }

    fn is_tls(error: &std::io::Error) -> bool {
        error.to_string().contains("certificate")
    }

    fn refused<T>(name: &str, response: &Response<T>) -> Problem {
        let status = response.status();
        if status.is_redirection() {
            let target = response
                .headers()
                .get(header::LOCATION)
                .and_then(|value| value.to_str().ok())
                .map_or("elsewhere".into(), super::shown);
            return Problem::new(format!("{name} redirects to {target}"))
                .hint("give that address, if it is the right one");
        }
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Problem::new(format!("{name} answers {status}"))
                    .hint("--key-env or --key-file gives the key")
            }
            StatusCode::NOT_FOUND => Problem::new(format!("{name} answers {status}"))
                .hint("servers keep their metrics under /metrics, and models under /v1"),
            _ => Problem::new(format!("{name} answers {status}")),
        }
    }

    fn key(access: &Access) -> anyhow::Result<Option<String>> {
        let key = if let Some(name) = &access.key_env {
            std::env::var(name)
                .map_err(|_| Problem::new(format!("--key-env: {name} is not set, or is no text")))?
        } else if let Some(path) = &access.key_file {
            fs::read_to_string(path).map_err(|error| {
                Problem::new(format!("--key-file: cannot read {}", path.display())).because(error)
            })?
        } else {
            return Ok(None);
        };
        let key = key.trim();
        if key.is_empty() || key.chars().any(|c| c.is_control() || !c.is_ascii()) {
            return Err(Problem::new("the key is empty, or not one line of plain text").into());
        }
        Ok(Some(key.into()))
    }
}
