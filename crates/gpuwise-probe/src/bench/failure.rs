//! What can become of a request besides an answer.

use super::chunk::shortened;
use gpuwise_domain::request::Outcome;
use std::{error::Error, io};
use thiserror::Error;

/// Why a request has no whole answer. Its text is the same for all requests that failed alike, so
/// that they can be counted together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    #[error("the name of the host has no address: {0}")]
    Unresolved(String),
    /// The connection could not be made otherwise.
    #[error("no connection: {0}")]
    Connect(String),
    /// The certificate is not one to trust.
    #[error("bad certificate: {0}")]
    Certificate(String),
    /// TLS could not be agreed on.
    #[error("no TLS connection: {0}")]
    Tls(String),
    /// The server wants a key, or another one.
    #[error("{code}, a key is needed or this one is not accepted: {message}")]
    Key { code: u16, message: String },
    #[error("{code}, the server is full: {message}")]
    Busy {
        code: u16,
        message: String,
        /// After how many seconds to come again, where it says so.
        retry_after: Option<u64>,
    },
    /// The request does not fit into the context.
    #[error("{code}, longer than the context: {message}")]
    TooLong { code: u16, message: String },
    /// The server sends elsewhere, which is not followed: another server would be measured.
    #[error("{code}, redirected to {location}")]
    Redirect { code: u16, location: String },
    /// Any other status than 200.
    #[error("{code}: {message}")]
    Status { code: u16, message: String },
    /// The server said within the stream that it failed.
    #[error("error in the stream: {0}")]
    InStream(String),
    /// The stream ended before its end was said.
    #[error("cut off in mid-stream")]
    CutOff,
    /// The connection was closed before an answer began.
    #[error("connection closed without an answer: {0}")]
    Closed(String),
    /// What came is no answer of this interface.
    #[error("garbage in the answer: {0}")]
    Garbage(String),
    /// A whole answer without a single token.
    #[error("the answer has no token")]
    NoToken,
    /// It took too long.
    #[error("timed out {0}")]
    TimedOut(Stage),
    /// The run ended before.
    #[error("the run ended {0}")]
    Unfinished(Stage),
}

/// How far a request got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Stage {
    /// There was no connection yet.
    #[error("before a connection was made")]
    Connecting,
    /// There was no answer yet.
    #[error("before an answer began")]
    Waiting,
    /// No token had come.
    #[error("before the first token")]
    FirstToken,
    #[error("in mid-stream")]
    Streaming,
}

impl Failure {
    /// Under which heading it is counted.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Busy { .. } => Outcome::Rejected,
            Self::TooLong { .. } => Outcome::Impossible,
            Self::TimedOut(_) => Outcome::TimedOut,
            Self::Unfinished(_) => Outcome::Unfinished,
            _ => Outcome::Failed,
        }
    }

    /// What an error means while TLS is agreed on.
    pub(crate) fn of_tls(error: &io::Error) -> Self {
        if let Some(tls) = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>())
        {
            use tokio_rustls::rustls::Error as Tls;
            return match tls {
                Tls::InvalidCertificate(reason) => Self::Certificate(reason.to_string()),
                Tls::NoCertificatesPresented => Self::Certificate("none was sent".into()),
                other => Self::Tls(other.to_string()),
            };
        }
        Self::Tls(error.to_string())
    }

    /// What an error of the operating system means for a connection that is being made.
    pub(crate) fn of_connect(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::TimedOut(Stage::Connecting),
            _ => Self::Connect(error.to_string()),
        }
    }

    /// What an error of the HTTP connection means before an answer began.
    pub(crate) fn of_exchange(error: &hyper::Error) -> Self {
        if error.is_parse() {
            return Self::Garbage(format!("no HTTP answer ({error})"));
        }
        Self::Closed(chain(error))
    }

    /// What a status other than 200 means.
    pub(crate) fn of_status(
        code: u16,
        location: Option<&str>,
        retry_after: Option<&str>,
        message: String,
    ) -> Self {
        let long = [
            "context length",
            "context size",
            "exceed_context",
            "maximum model length",
            "longer than the maximum",
        ];
        match code {
            300..=399 => Self::Redirect {
                code,
                location: shortened(location.unwrap_or("nowhere")),
            },
            401 | 403 => Self::Key { code, message },
            429 | 503 => Self::Busy {
                code,
                message,
                retry_after: retry_after
                    .and_then(|value| {
                        crate::retry_after::retry_after(value, jiff::Timestamp::now())
                    })
                    .map(|wait| wait.as_secs()),
            },
            400 | 413 | 422
                if {
                    let lower = message.to_lowercase();
                    long.iter().any(|part| lower.contains(part))
                } =>
            {
                Self::TooLong { code, message }
            }
            _ => Self::Status { code, message },
        }
    }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    shortened(&text)
}
