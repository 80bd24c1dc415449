//! What goes wrong between us and a Prometheus server.

use thiserror::Error;

/// Why a Prometheus server gave no whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PrometheusError {
    /// The address or another setting cannot be used.
    #[error("{what}")]
    Setting { what: String },
    /// No connection, or it broke before an answer began.
    #[error("{server} cannot be asked: {why}")]
    Unreachable {
        /// The server's address as it may be shown.
        server: String,
        /// What the network said.
        why: String,
    },
    #[error("{server}: its certificate is not trusted: {why}")]
    Untrusted {
        server: String,
        /// What the check said.
        why: String,
    },
    /// It did not answer, or did not finish, in our time.
    #[error("{server} does not answer within {seconds} s")]
    Silent {
        server: String,
        /// How long we waited, in whole seconds.
        seconds: u64,
    },
    /// 401 or 403.
    #[error("{server} answers {status}{}", colon(.said))]
    Refused {
        server: String,
        status: u16,
        said: String,
    },
    /// It sends us elsewhere; where a key goes is the user's to decide.
    #[error("{server} redirects to {target}")]
    Redirected { server: String, target: String },
    /// The server gave the query up after its own time limit.
    #[error("{server} gave the query up{}", colon(.said))]
    TimedOut { server: String, said: String },
    /// The query would take more samples or points than the server allows.
    #[error("{server} refuses so large a query{}", colon(.said))]
    TooMuch { server: String, said: String },
    /// It does not understand the query, or cannot carry it out.
    #[error("{server} cannot carry out the query{}", colon(.said))]
    BadQuery { server: String, said: String },
    /// Another HTTP status that is not success, retries included.
    #[error("{server} answers {status}{}", colon(.said))]
    Failed {
        server: String,
        status: u16,
        said: String,
    },
    #[error("{server} does not answer as Prometheus does: {why}")]
    NotPrometheus { server: String, why: String },
    /// The answer broke off or went wrong within.
    #[error("the answer of {server} breaks off after {series} series: {why}")]
    Broken {
        server: String,
        /// How many whole series had come, which the caller has seen.
        series: u64,
        why: String,
    },
}

impl PrometheusError {
    /// What one can do about it, where something can be said.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unreachable { .. } => "is the server up, and is this its port?",
            Self::Untrusted { .. } => "--ca-file names the certificate of a private authority",
            Self::Silent { .. } => "--timeout waits longer; fewer --days ask for less",
            Self::Refused { .. } => {
                "--token-file or --token-env gives a bearer token, --user-file a user and password"
            }
            Self::Redirected { .. } => "give that address, if it is the right one",
            Self::TimedOut { .. } => {
                "the server's --query.timeout is its limit; fewer --days ask for less"
            }
            Self::TooMuch { .. } => {
                "the server's --query.max-samples is its limit; fewer --days ask for less"
            }
            Self::NotPrometheus { .. } => {
                "give the address before /api/v1, such as http://prometheus:9090 or https://mimir/prometheus"
            }
            Self::Setting { .. }
            | Self::BadQuery { .. }
            | Self::Failed { .. }
            | Self::Broken { .. } => return None,
        })
    }

    /// Whether asking for less at once may help: a shorter time, or fewer series.
    pub fn may_be_split(&self) -> bool {
        matches!(
            self,
            Self::TimedOut { .. } | Self::TooMuch { .. } | Self::Silent { .. }
        )
    }
}

fn colon(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}
