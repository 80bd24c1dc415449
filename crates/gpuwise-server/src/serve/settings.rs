//! How a daemon is started, what it says of itself, and why it could not or stopped.

use crate::{
    collect::Collect,
    executor::{Cutter, Delays, SlurmSettings},
    http::{TlsError, TlsFiles},
    oidc::{OidcError, OidcSettings},
    redfish,
    scaling::Rehearsal,
    writer::Stopped,
};
use gpuwise_broker::{Broken, MakesExecutor};
use gpuwise_domain::placement::{Event, Fleet};
use gpuwise_store::StoreError;
use gpuwise_wire::broker::PolicyDocument;
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How a daemon is started.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Where other gateways ask which endpoint of a service gets a request (Envoy's external processing).
    pub picker: Option<SocketAddr>,
    /// The database of the log.
    pub store: String,
    /// What there is, for a log that is new; `None`: the log must be there.
    pub fleet: Option<(Fleet, Vec<Event>)>,
    /// By what the scheduler goes; `None`: as before, for a log that is there.
    pub policy: Option<PolicyDocument>,
    /// Whether somebody asked for that policy: else a log that is there keeps its own.
    pub policy_said: bool,
    pub executor: ExecutorKind,
    /// What composes hosts of pooled GPUs; `None`: nothing does.
    pub compose: Option<redfish::Settings>,
    /// Requests that the tokens of a tenant may make in a second; `None`: no limit.
    pub tenant_requests: Option<u32>,
    /// Simulated seconds in a second.
    pub speed: f64,
    /// Where the first administrator's token goes, by the address that is listened on.
    pub token_file: fn(&Path, SocketAddr) -> PathBuf,
    /// Certificate and key; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// Where traces of leases go (OTLP over HTTP), such as `http://localhost:4318`.
    pub otlp: Option<String>,
    /// Whether each request is said on standard error, as a line of JSON.
    pub lines: bool,
    /// Whose tokens are believed beside our own.
    pub oidc: Option<OidcSettings>,
    /// Where processes of the local executor keep logs and what is known of them.
    pub state: PathBuf,
    /// What cuts the GPUs of this machine; `None`: there is no driver.
    pub driver: Option<Arc<dyn Cutter>>,
    /// What comes to simulated services that follow demand, by the names under which they serve.
    pub rehearsed: Vec<(String, Rehearsal)>,
    /// Bytes of each node's memory in which weights of popular models may lie; 0: none.
    pub warm_memory: u64,
    /// How telemetry of services is collected, and what is done with it.
    pub collect: Collect,
}

#[derive(Debug, Clone)]
pub enum ExecutorKind {
    Simulated(Delays),
    Local,
    Slurm(SlurmSettings),
    /// One that another crate makes.
    Made(Arc<dyn MakesExecutor>),
}

/// What a daemon says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Somebody else writes the log; this one waits for its silence, and says so here.
    Waits { address: SocketAddr, holder: String },
    /// An administrator's token was written to this file.
    Token(PathBuf),
    /// It answers here; so many events of the log were read one by one, the others are in a snapshot.
    Listens {
        address: SocketAddr,
        events: u64,
        read: u64,
        /// Whether by TLS.
        tls: bool,
    },
    /// The log cannot be written, and why, for so long by now.
    Troubled { why: String, since: Duration },
    /// It is written again, after so long.
    Well { after: Duration },
}

/// Why a daemon could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{address} cannot be listened on")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the log cannot be read back")]
    Broken(#[from] Broken),
    #[error("the log is new, and no fleet was named")]
    NoFleet,
    #[error("the token file {file} cannot be written")]
    Token {
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("{what} cannot be started")]
    Thread {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the identity provider cannot be asked")]
    Oidc(#[from] OidcError),
    #[error("TLS is not possible")]
    Tls(#[from] TlsError),
    #[error("what runs at Slurm cannot be kept")]
    Slurm(#[source] io::Error),
    #[error("its executor cannot be started")]
    Executor(#[source] io::Error),
    #[error("the writer ended unexpectedly")]
    Writer,
}

impl From<Stopped> for ServeError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Store(error) => Self::Store(error),
            Stopped::Broken(error) => Self::Broken(error),
        }
    }
}
