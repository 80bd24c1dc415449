//! Asking a broker over HTTP.

use super::place;
use crate::{
    app::{Context, Exit, Format},
    authorities::authorities,
    error::Problem,
};
use clap::Args;
use gpuwise_units::Money;
use gpuwise_view::table::{Cell, Table};
use gpuwise_wire::broker::ProblemAnswer;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{fs, io::Read as _, path::PathBuf, time::Duration};
use ureq::{Agent, Body, http::Response, tls::TlsConfig};

/// Which broker, and who asks.
#[derive(Debug, Clone, Args)]
pub struct BrokerFlags {
    /// Address of the broker
    #[arg(
        long,
        value_name = "URL",
        env = "GPUWISE_URL",
        default_value = "http://127.0.0.1:8600"
    )]
    url: String,
    /// Token that says who asks [default: the file that a broker of this user wrote]
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GPUWISE_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// Certificate authorities (PEM) to trust in place of the usual ones
    #[arg(long, value_name = "FILE", env = "GPUWISE_CA_FILE")]
    ca_file: Option<PathBuf>,
}

/// A broker that can be asked.
pub(super) struct Client {
    agent: Agent,
    url: String,
    token: String,
}

/// How long an answer may take: a model is sized before its lease is answered.
const PATIENCE: Duration = Duration::from_mins(2);

/// Bytes of an answer at most.
const LARGEST: u64 = 1 << 30;

impl BrokerFlags {
    pub(super) fn url(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    /// A client that says of nobody who asks.
    ///
    /// # Errors
    /// When the network must not be used.
    pub(super) fn open(&self, offline: bool) -> anyhow::Result<Client> {
        let nobody = Self {
            token: Some(String::new()),
            ..self.clone()
        };
        nobody.client(offline)
    }

    /// # Errors
    /// When it is not known who asks, or the network must not be used.
    pub(super) fn client(&self, offline: bool) -> anyhow::Result<Client> {
        let url = self.url.trim_end_matches('/').to_owned();
        if !["http://", "https://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(no_address(&url));
        }
        if offline && !is_this_machine(&url) {
            return Err(Problem::new("--offline: no broker of another machine is asked").into());
        }
        let token = match &self.token {
            Some(token) => token.clone(),
            None => found(&url)?,
        };
        let mut tls = TlsConfig::builder();
        if let Some(path) = &self.ca_file {
            tls = tls.root_certs(authorities("--ca-file", path)?);
        }
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .tls_config(tls.build())
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        Ok(Client {
            agent: config.into(),
            url,
            token: token.trim().to_owned(),
        })
    }
}

fn host_and_port(url: &str) -> Option<(String, u16)> {
    let uri: ureq::http::Uri = url.parse().ok()?;
    let port = match (uri.port_u16(), uri.scheme_str()) {
        (Some(port), _) => port,
        (None, Some("https")) => 443,
        (None, _) => 80,
    };
    Some((uri.host()?.to_owned(), port))
}

pub(crate) fn is_this_machine(url: &str) -> bool {
    let host = host_and_port(url).map(|(host, _)| host);
    host.is_some_and(|host| matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]"))
}

fn no_address(url: &str) -> anyhow::Error {
    let what = format!("{url:?} is no address of a broker; expected http://HOST:PORT or https://…");
    let problem = Problem::new(what);
    problem.hint("--url or GPUWISE_URL names it").into()
}

/// The token that a broker of this user wrote when it first started.
fn found(url: &str) -> anyhow::Result<String> {
    let (host, port) = host_and_port(url).ok_or_else(|| no_address(url))?;
    let host = if host == "localhost" {
        "127.0.0.1"
    } else {
        &host
    };
    let path = place::token(&place::state()?, host, port);
    fs::read_to_string(&path).map_err(|error| {
        let what = format!(
            "it is not known who asks {url}: {} cannot be read",
            path.display()
        );
        Problem::new(what)
            .because(error)
            .hint("give --token or GPUWISE_TOKEN; `gpuwise token create` makes one")
            .hint("`gpuwise serve` starts a broker here, and writes an administrator's token there")
            .into()
    })
}

impl Client {
    /// Where it is.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.read(
            path,
            self.agent
                .get(self.at(path))
                .header("authorization", self.bearer())
                .call(),
        )
    }

    /// A text as it is.
    pub(super) fn text(&self, path: &str) -> anyhow::Result<String> {
        let said = self
            .agent
            .get(self.at(path))
            .header("authorization", self.bearer())
            .call();
        self.good(path, said)
    }

    pub(super) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        key: Option<&str>,
        document: &impl Serialize,
    ) -> anyhow::Result<T> {
        let mut request = self
            .agent
            .post(self.at(path))
            .header("authorization", self.bearer())
            .header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let body = serde_json::to_string(document)?;
        self.read(path, request.send(body))
    }

    pub(super) fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        document: &impl Serialize,
    ) -> anyhow::Result<T> {
        let request = self
            .agent
            .patch(self.at(path))
            .header("authorization", self.bearer())
            .header("content-type", "application/json");
        let body = serde_json::to_string(document)?;
        self.read(path, request.send(body))
    }

    /// Puts a document, whatever there is.
    pub(super) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        document: &impl Serialize,
    ) -> anyhow::Result<T> {
        self.put_at(path, None, document, |_| 0)
    }

    /// Puts a document of which nothing is answered.
    pub(super) fn put_nothing(&self, path: &str, document: &impl Serialize) -> anyhow::Result<()> {
        let request = self
            .agent
            .put(self.at(path))
            .header("authorization", self.bearer())
            .header("content-type", "application/json");
        let body = serde_json::to_string(document)?;
        self.good(path, request.send(body)).map(|_| ())
    }

    /// Puts a document in the place of another; with `wanted` only where that is still what was seen.
    pub(super) fn put_at<T: DeserializeOwned>(
        &self,
        path: &str,
        wanted: Option<u32>,
        document: &impl Serialize,
        version: impl Fn(&T) -> u32,
    ) -> anyhow::Result<T> {
        let mut request = self
            .agent
            .put(self.at(path))
            .header("authorization", self.bearer())
            .header("content-type", "application/json");
        if let Some(wanted) = wanted {
            let said = self
                .agent
                .get(self.at(path))
                .header("authorization", self.bearer())
                .call();
            let tag = said
                .as_ref()
                .ok()
                .and_then(|said| said.headers().get("etag"))
                .cloned();
            let seen: T = self.read(path, said)?;
            if version(&seen) != wanted {
                let what = format!("version {} holds by now, not {wanted}", version(&seen));
                return Err(Problem::new(what)
                    .hint("look at it again, and then change it")
                    .into());
            }
            if let Some(tag) = tag {
                request = request.header("if-match", tag);
            }
        }
        let body = serde_json::to_string(document)?;
        self.read(path, request.send(body))
    }

    pub(super) fn delete(&self, path: &str) -> anyhow::Result<Value> {
        let said = self
            .agent
            .delete(self.at(path))
            .header("authorization", self.bearer())
            .call();
        let text = self.good(path, said)?;
        if text.is_empty() {
            return Ok(Value::Null);
        }
        self.parsed(path, &text)
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        said: Result<Response<Body>, ureq::Error>,
    ) -> anyhow::Result<T> {
        let text = self.good(path, said)?;
        self.parsed(path, &text)
    }

    fn parsed<T: DeserializeOwned>(&self, path: &str, text: &str) -> anyhow::Result<T> {
        serde_json::from_str(text).map_err(|error| {
            Problem::new(format!(
                "{}{path} answered what this gpuwise does not understand",
                self.url
            ))
            .because(error)
            .hint("is it a broker, and of this version?")
            .into()
        })
    }

    /// The body of a good answer; a problem as an error.
    fn good(
        &self,
        path: &str,
        said: Result<Response<Body>, ureq::Error>,
    ) -> anyhow::Result<String> {
        let mut response = said.map_err(|error| {
            Problem::new(format!("the broker at {} does not answer", self.url))
                .because(error)
                .hint("`gpuwise serve` starts one; --url or GPUWISE_URL names another")
        })?;
        let status = response.status();
        let mut text = String::new();
        let mut body = response.body_mut().as_reader().take(LARGEST);
        body.read_to_string(&mut text).map_err(|error| {
            Problem::new(format!("the answer of {}{path} was cut off", self.url)).because(error)
        })?;
        if status.is_success() {
            return Ok(text);
        }
        let problem: Option<ProblemAnswer> = serde_json::from_str(&text).ok();
        let Some(problem) = problem else {
            let what = format!("{}{path} answered with status {status}", self.url);
            return Err(Problem::new(what).hint("is it a broker?").into());
        };
        let what = match &problem.field {
            Some(field) if !problem.detail.starts_with(field.as_str()) && !field.is_empty() => {
                format!("{field}: {}", problem.detail)
            }
            _ => problem.detail.clone(),
        };
        Err(Problem::new(what).into())
    }
}

/// Shows an answer: as a table, or as the document that the broker sent.
pub(super) fn shown(
    context: &Context,
    document: &impl Serialize,
    table: impl FnOnce() -> Table,
) -> anyhow::Result<Exit> {
    match context.form.format {
        Format::Json => context.json(&serde_json::to_value(document)?)?,
        Format::Table | Format::Csv | Format::Md => context.table(&table())?,
    }
    Ok(Exit::Yes)
}

/// An amount as people read it; programs get it to the last decimal.
pub(super) fn money(exact: &str) -> Cell {
    match exact.parse::<Money>() {
        Ok(money) => Cell::new(money.to_string(), exact),
        Err(_) => Cell::text(exact),
    }
}

/// A moment as people read it: to the second, in UTC.
pub(super) fn moment(exact: &str) -> Cell {
    let short = exact.split_once('.').map_or(exact, |(short, _)| short);
    Cell::new(short.replace('T', " "), exact)
}
