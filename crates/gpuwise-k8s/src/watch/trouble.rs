//! What goes wrong between us and an API server, in words that say what to do.

use crate::{
    inventory::Kind,
    resources::{GROUP, VERSION},
};
use kube::{core::Status, runtime::watcher};
use std::error::Error as _;

/// Objects of a kind, as the API's paths and roles have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The group of the API, empty for the core.
    pub group: &'static str,
    pub resource: &'static str,
}

impl Subject {
    /// The rule of a role that is missing.
    pub(crate) fn rule(self, verbs: &str) -> String {
        let Self { group, resource } = self;
        format!(
            "give a ClusterRole with apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [{verbs}]"
        )
    }
}

impl From<Kind> for Subject {
    fn from(kind: Kind) -> Self {
        Self {
            group: kind.group(),
            resource: kind.resource(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The server does not know who we are, or no longer.
    Unauthorized,
    /// It knows us, and a role is missing.
    Forbidden,
    /// The cluster does not have this kind.
    Missing,
    /// It takes the way of asking for wrong: lists as the beginning of a watch, on servers without these.
    Refused,
    /// A watch was too old and everything is listed again.
    Gone,
    /// Its certificate is not one that we trust, or has expired; or it does not take ours.
    Certificate,
    /// There is no connection.
    Unreachable,
    /// It fails itself, or says what cannot be read.
    Server,
}

/// A failure, what it concerns, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// `None`: the API server as a whole.
    pub about: Option<Subject>,
    pub why: Why,
    /// What the server or the connection said.
    pub said: String,
    pub hint: Option<String>,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = self.about.map_or("the API server", |about| about.resource);
        match self.why {
            Why::Unauthorized => write!(f, "the API server does not know who asks: {}", self.said),
            Why::Forbidden => write!(f, "{what} may not be read: {}", self.said),
            Why::Missing => write!(f, "the cluster has no {what}: {}", self.said),
            Why::Refused => write!(f, "{what}: the request is refused: {}", self.said),
            Why::Gone => write!(f, "{what}: the watch was too old: {}", self.said),
            Why::Certificate => write!(f, "no trusted connection to the API server: {}", self.said),
            Why::Unreachable => write!(f, "cannot reach the API server: {}", self.said),
            Why::Server => write!(f, "{what}: {}", self.said),
        }
    }
}

impl std::error::Error for Trouble {}

impl Trouble {
    /// Whether it stays until somebody changes the cluster or the way that it is asked.
    pub const fn stays(&self) -> bool {
        matches!(
            self.why,
            Why::Unauthorized | Why::Forbidden | Why::Missing | Why::Certificate
        )
    }

    pub(super) fn ended() -> Self {
        Self {
            about: None,
            why: Why::Server,
            said: "the watches have ended".into(),
            hint: None,
        }
    }

    pub(crate) fn of_watch(about: Subject, error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::of_client(Some(about), error),
            watcher::Error::WatchError(status) => Self::of_status(Some(about), status),
            watcher::Error::NoResourceVersion => Self::new(
                Some(about),
                Why::Server,
                "an answer without a resourceVersion",
            ),
        }
    }

    pub(crate) fn of_client(about: Option<Subject>, error: &kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return Self::of_status(about, status);
        }
        let mut words = error.to_string();
        let mut deeper = error.source();
        while let Some(cause) = deeper {
            words = cause.to_string();
            deeper = cause.source();
        }
        let low = words.to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| low.contains(part));
        let why = match error {
            kube::Error::Auth(_) => Why::Unauthorized,
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => {
                if has(&[
                    "certificate",
                    "unknownissuer",
                    "notvalidforname",
                    "tls",
                    "decrypt",
                ]) {
                    Why::Certificate
                } else {
                    Why::Unreachable
                }
            }
            kube::Error::RustlsTls(_) => Why::Certificate,
            _ => Why::Server,
        };
        Self::new(about, why, &words)
    }

    fn of_status(about: Option<Subject>, status: &Status) -> Self {
        let why = match status.code {
            401 => Why::Unauthorized,
            403 => Why::Forbidden,
            404 => Why::Missing,
            400 | 405 | 422 => Why::Refused,
            410 => Why::Gone,
            _ => Why::Server,
        };
        let said = if status.message.is_empty() {
            format!("{} {}", status.code, status.reason)
        } else {
            status.message.clone()
        };
        Self::new(about, why, said.trim())
    }

    fn new(about: Option<Subject>, why: Why, said: &str) -> Self {
        let hint = match why {
            Why::Unauthorized => Some(
                "the token or client certificate may have expired: log in to the cluster anew, and see `kubectl auth whoami`".to_owned(),
            ),
            Why::Forbidden => about.map(|about| about.rule("\"list\", \"watch\"")),
            Why::Missing => about.filter(|about| about.group == GROUP).map(|_| {
                format!(
                    "`gpuwise operator manifests` prints definitions that serve {VERSION}: apply them, `kubectl apply --server-side -f -`"
                )
            }),
            Why::Certificate => Some(
                "see certificate-authority-data and client-certificate-data of the kubeconfig, until when they hold (`openssl x509 -noout -dates`), and this machine's clock".to_owned(),
            ),
            Why::Unreachable => Some(
                "see the server's address in the kubeconfig, and whether `kubectl version` reaches it".to_owned(),
            ),
            _ => None,
        };
        Self {
            about,
            why,
            said: said.to_owned(),
            hint,
        }
    }
}
