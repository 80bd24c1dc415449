//! The client: how it asks, waits, asks again, and names what went wrong.

use super::{
    error::PrometheusError,
    settings::{Settings, authorities, authorization, checked_address, setting, shown_address},
    stream::{self, Answer, Broken, Event, Series},
};
use crate::retry_after::retry_after;
use std::{
    fmt::Write as _,
    io::{self, Read as _},
    thread,
    time::{Duration, Instant},
};
use ureq::{
    Agent, Body, Error,
    http::{Response, header},
    tls::TlsConfig,
};

/// What is read of an answer that is an error.
const LARGEST_ERROR: u64 = 64 << 10;

/// What came besides the series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answered {
    /// What the server warns of: among others, that its answer is partial.
    pub warnings: Vec<String>,
    pub series: u64,
    /// Series that are native histograms, which are left out.
    pub histograms: u64,
}

#[derive(Debug)]
pub struct Client {
    agent: Agent,
    base: String,
    shown: String,
    authorization: Option<String>,
    headers: Vec<(String, String)>,
    timeout: Duration,
    retries: u32,
    first_wait: Duration,
}

impl Client {
    /// A client with these settings; nothing is asked yet.
    ///
    /// # Errors
    /// When the address is not one, holds a user, or keys, headers or certificates cannot be used.
    pub fn new(settings: Settings) -> Result<Self, PrometheusError> {
        let shown = checked_address(&settings.address)?;
        let mut tls = TlsConfig::builder();
        if let Some(pem) = &settings.authorities {
            tls = tls.root_certs(authorities(pem)?);
        }
        for (name, value) in &settings.headers {
            let known = header::HeaderName::try_from(name.as_str()).is_ok()
                && header::HeaderValue::try_from(value.as_str()).is_ok();
            if !known {
                return Err(setting(format!("{name:?} is no header with its value")));
            }
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(settings.timeout.max(Duration::from_millis(1))))
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
            base: settings.address.trim_end_matches('/').into(),
            shown,
            authorization: authorization(&settings.authentication)?,
            headers: settings.headers,
            timeout: settings.timeout,
            retries: settings.retries,
            first_wait: settings.first_wait,
        })
    }

    /// The server's address as it may be shown.
    pub fn server(&self) -> &str {
        &self.shown
    }

    /// The value of an expression at a time (seconds since 1970; the server's now when absent).
    ///
    /// # Errors
    /// As [`PrometheusError`] says. Series that came before a break have been handed over.
    pub fn instant(
        &self,
        query: &str,
        at: Option<i64>,
        mut each: impl FnMut(Series<'_>),
    ) -> Result<Answered, PrometheusError> {
        let mut form = vec![("query", query.to_owned()), self.patience()];
        if let Some(at) = at {
            form.push(("time", at.to_string()));
        }
        self.ask("query", &form, &mut |event| {
            if let Event::Series(series) = event {
                each(series);
            }
        })
    }

    /// The values of an expression from `start` to `end` (seconds since 1970), every `step` seconds.
    ///
    /// # Errors
    /// As [`Self::instant`].
    pub fn range(
        &self,
        query: &str,
        start: i64,
        end: i64,
        step: u64,
        mut each: impl FnMut(Series<'_>),
    ) -> Result<Answered, PrometheusError> {
        let form = [
            ("query", query.to_owned()),
            ("start", start.to_string()),
            ("end", end.to_string()),
            ("step", step.to_string()),
            self.patience(),
        ];
        self.ask("query_range", &form, &mut |event| {
            if let Event::Series(series) = event {
                each(series);
            }
        })
    }

    /// The values that a label has between two times, among the series that a selector names; with
    /// `__name__`, the names of metrics.
    ///
    /// # Errors
    /// As [`Self::instant`].
    pub fn label_values(
        &self,
        label: &str,
        selector: Option<&str>,
        start: i64,
        end: i64,
    ) -> Result<Vec<String>, PrometheusError> {
        let mut query = vec![("start", start.to_string()), ("end", end.to_string())];
        if let Some(selector) = selector {
            query.push(("match[]", selector.to_owned()));
        }
        let mut names = Vec::new();
        let url = format!("{}/api/v1/label/{label}/values", self.base);
        self.with_retries(
            || {
                let mut request = self.agent.get(&url);
                for (key, value) in &query {
                    request = request.query(key, value);
                }
                self.authorised(request).call()
            },
            &mut |event| {
                if let Event::Name(name) = event {
                    names.push(name.to_owned());
                }
            },
        )?;
        Ok(names)
    }

    /// The server's own limit of one query, which is not to outlast ours.
    fn patience(&self) -> (&'static str, String) {
        let seconds = self.timeout.as_secs().max(1);
        ("timeout", format!("{seconds}s"))
    }

    /// By POST, since queries may be long; by GET where a proxy lets nothing else through.
    fn ask(
        &self,
        path: &str,
        form: &[(&str, String)],
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<Answered, PrometheusError> {
        let url = format!("{}/api/v1/{path}", self.base);
        let posted = self.with_retries(
            || {
                let request = self.authorised(self.agent.post(&url));
                request.send_form(form.iter().map(|(key, value)| (*key, value.as_str())))
            },
            each,
        );
        match posted {
            Err(PrometheusError::Failed { status: 405, .. }) => self.with_retries(
                || {
                    let mut request = self.agent.get(&url);
                    for (key, value) in form {
                        request = request.query(key, value);
                    }
                    self.authorised(request).call()
                },
                each,
            ),
            other => other,
        }
    }

    fn authorised<B>(&self, mut request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        match &self.authorization {
            Some(value) => request.header(header::AUTHORIZATION, value),
            None => request,
        }
    }

    fn with_retries(
        &self,
        send: impl Fn() -> Result<Response<Body>, Error>,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<Answered, PrometheusError> {
        let began = Instant::now();
        let mut wait = self.first_wait;
        let mut left = self.retries;
        loop {
            let response = send().map_err(|error| self.unanswered(error))?;
            let status = response.status().as_u16();
            if response.status().is_success() {
                let reader = response.into_body().into_reader();
                return self.answered(stream::read(reader, each));
            }
            let asked_to_wait = asked_to_wait(&response);
            let refused = self.refused(response);
            // A query that the server gave up is not better the second time.
            let busy =
                matches!(status, 429 | 503) && matches!(refused, PrometheusError::Failed { .. });
            let pause = asked_to_wait.unwrap_or(wait);
            let room = self.timeout.saturating_sub(began.elapsed());
            if !busy || left == 0 || pause > room {
                return Err(told_to_wait(refused, asked_to_wait, room));
            }
            thread::sleep(pause);
            left -= 1;
            wait = wait.saturating_mul(2);
        }
    }

    fn answered(&self, read: Result<Answer, Broken>) -> Result<Answered, PrometheusError> {
        let answer = read.map_err(|broken| self.broken(&broken))?;
        match answer.status.as_str() {
            "success" => Ok(Answered {
                warnings: answer.warnings,
                series: answer.series,
                histograms: answer.histograms,
            }),
            "error" => Err(self.named(200, &answer.error_type, answer.error)),
            _ => Err(PrometheusError::NotPrometheus {
                server: self.shown.clone(),
                why: "a JSON document without a status".into(),
            }),
        }
    }

    fn broken(&self, broken: &Broken) -> PrometheusError {
        let server = self.shown.clone();
        let error = &broken.error;
        if error.io_error_kind() == Some(io::ErrorKind::TimedOut) {
            return self.silent();
        }
        if error.is_syntax() && broken.series == 0 && error.line() <= 1 && error.column() <= 1 {
            return PrometheusError::NotPrometheus {
                server,
                why: "its answer is not JSON".into(),
            };
        }
        if error.is_data() && broken.series == 0 {
            return PrometheusError::NotPrometheus {
                server,
                why: error.to_string(),
            };
        }
        PrometheusError::Broken {
            server,
            series: broken.series,
            why: error.to_string(),
        }
    }

    fn silent(&self) -> PrometheusError {
        PrometheusError::Silent {
            server: self.shown.clone(),
            seconds: self.timeout.as_secs(),
        }
    }

    /// What a status that is not success means.
    fn refused(&self, response: Response<Body>) -> PrometheusError {
        let server = self.shown.clone();
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            let target = response.headers().get(header::LOCATION);
            let target = target.and_then(|value| value.to_str().ok());
            return PrometheusError::Redirected {
                server,
                target: target.map_or("elsewhere".into(), shown_address),
            };
        }
        let mut text = Vec::new();
        // What cannot be read of an error is not said; the status is.
        let _ = response
            .into_body()
            .into_reader()
            .take(LARGEST_ERROR)
            .read_to_end(&mut text);
        let answer = stream::read(text.as_slice(), &mut |_| {}).unwrap_or_default();
        if answer.error.is_empty() {
            let plain = String::from_utf8_lossy(&text);
            return self.named(status, "", first_line(&plain));
        }
        self.named(status, &answer.error_type, answer.error)
    }

    /// The error by what the server calls it: Prometheus documentation, "HTTP API".
    fn named(&self, status: u16, error_type: &str, said: String) -> PrometheusError {
        let server = self.shown.clone();
        let too_much = [
            "too many samples",
            "exceeded maximum resolution",
            "max-samples",
            "limit on number of",
            "maxSamplesPerQuery",
            "search.max",
        ];
        if too_much.iter().any(|sign| said.contains(sign)) {
            return PrometheusError::TooMuch { server, said };
        }
        match (status, error_type) {
            (_, "timeout") => PrometheusError::TimedOut { server, said },
            _ if said.contains("query timed out") => PrometheusError::TimedOut { server, said },
            (401 | 403, _) => PrometheusError::Refused {
                server,
                status,
                said,
            },
            (_, "bad_data" | "execution") | (422, _) => PrometheusError::BadQuery { server, said },
            (404, "") => PrometheusError::NotPrometheus {
                server,
                why: "it has no /api/v1 (404)".into(),
            },
            _ => PrometheusError::Failed {
                server,
                status,
                said,
            },
        }
    }

    /// What the network said in place of an answer.
    fn unanswered(&self, error: Error) -> PrometheusError {
        let server = self.shown.clone();
        match error {
            Error::Timeout(_) => self.silent(),
            Error::Io(inner) if inner.kind() == io::ErrorKind::TimedOut => self.silent(),
            Error::HostNotFound => PrometheusError::Unreachable {
                server,
                why: "there is no such host".into(),
            },
            Error::Tls(_) | Error::Rustls(_) => PrometheusError::Untrusted {
                server,
                why: error.to_string(),
            },
            Error::Io(inner) if inner.to_string().contains("certificate") => {
                PrometheusError::Untrusted {
                    server,
                    why: inner.to_string(),
                }
            }
            other => PrometheusError::Unreachable {
                server,
                why: other.to_string(),
            },
        }
    }
}

/// How long the server asks us to wait.
fn asked_to_wait(response: &Response<Body>) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?;
    retry_after(value.to_str().ok()?, jiff::Timestamp::now())
}

/// A refusal, with the wait that the server asks for where our time does not allow it.
fn told_to_wait(
    mut refused: PrometheusError,
    wait: Option<Duration>,
    room: Duration,
) -> PrometheusError {
    if let (PrometheusError::Failed { said, .. }, Some(wait)) = (&mut refused, wait)
        && wait > room
    {
        let separator = if said.is_empty() { "" } else { "; " };
        let _ = write!(
            said,
            "{separator}it asks to wait {} s, longer than --timeout allows",
            wait.as_secs()
        );
    }
    refused
}

/// The first line of a text with something in it, without tags, not too long.
fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let mut plain = String::new();
    let mut inside = false;
    for c in line.unwrap_or("").chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside && !c.is_control() => plain.push(c),
            _ => {}
        }
    }
    plain.trim().chars().take(200).collect()
}
