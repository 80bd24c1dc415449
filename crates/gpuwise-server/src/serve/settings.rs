//! How a daemon is started, what it says of itself, and why it could not or stopped.

use crate::{
    clock::{ClockError, ClockLimits},
    collect::Collect,
    executor::{Cutter, Delays, LocalSettings, SlurmSettings},
    gateway::EnginePatience,
    http::{TlsError, TlsFiles},
    listening::ConnectionBounds,
    oidc::{OidcError, OidcSettings},
    redfish,
    scaling::Rehearsal,
    tenant_bounds::TenantBounds,
    writer::Stopped,
};
use gpuwise_broker::{Broken, MakesExecutor};
use gpuwise_domain::placement::{Event, Fleet};
use gpuwise_store::StoreError;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{FleetChange, PolicyDocument};
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
    /// The fleet file that was named, as it says it: a log that is there is compared with it.
    pub fleet_file: Option<Fleet>,
    /// By what the scheduler goes; `None`: as before, for a log that is there.
    pub policy: Option<PolicyDocument>,
    /// Whether somebody asked for that policy: else a log that is there keeps its own.
    pub policy_said: bool,
    pub executor: ExecutorKind,
    /// What composes hosts of pooled GPUs; `None`: nothing does.
    pub compose: Option<redfish::Settings>,
    /// How many connections there may be, and how long each may be silent.
    pub connections: ConnectionBounds,
    /// How long engines may be silent, and how they are asked whether they are well.
    pub patience: EnginePatience,
    /// Requests that the tokens of a tenant may make in a second; `None`: no limit.
    pub tenant_requests: Option<u32>,
    /// What each tenant may have at most.
    pub tenant_bounds: TenantBounds,
    /// Simulated seconds in a second.
    pub speed: f64,
    /// How far the machine's clock may be from the log.
    pub clock: ClockLimits,
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
    /// Where executors keep logs and what is known of what runs; nodes of a cluster may share it.
    pub state: PathBuf,
    /// Where the broker keeps what is its own alone, such as the first administrator's token.
    pub own: PathBuf,
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
    Local(LocalSettings),
    Slurm(SlurmSettings),
    /// One that another crate makes.
    Made(Arc<dyn MakesExecutor>),
}

/// What a daemon says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// What was granted of GPUs is not what is charged: of how many, and the first of them.
    NotCharged { count: u64, first: String },
    /// What was collected is not taken: why. It is collected again.
    UsageRefused(String),
    /// The fleet file says something else than the one before it.
    Fleet(FleetChange),
    /// Somebody else writes the log; this one waits for its silence, and says so here.
    Waits { address: SocketAddr, holder: String },
    /// An administrator's token was written to this file.
    Token(PathBuf),
    /// It lay where nodes see it, and lies elsewhere now.
    TokenMoved(PathBuf, PathBuf),
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
    /// The machine's clock is not believed, and nothing happens meanwhile.
    Mistimed { error: ClockError },
    /// It is believed again, after so long.
    Timed { after: Duration },
    /// The broker's time is so far ahead of the machine's clock, as was accepted.
    Shifted { by: Nanoseconds },
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
    #[error(transparent)]
    Clock(#[from] ClockError),
    #[error("the fleet file cannot be: {0}")]
    Fleet(String),
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
    #[error("what is kept of leases in {folder} cannot be found")]
    Folder {
        folder: String,
        #[source]
        source: io::Error,
    },
    #[error(
        "another broker runs, of a copy of this log, and keeps what runs in {folder}: it would lose its leases to this \
         one; end that one first, or try the copy with --executor simulated and another XDG_STATE_HOME"
    )]
    Held { folder: String },
    #[error(
        "processes of leases of this log run, and what is noted of them in {folder} cannot be believed; take from other \
         accounts the right to change it, or end these processes first"
    )]
    Elsewhere {
        folder: String,
        #[source]
        source: io::Error,
    },
    #[error("its executor cannot be started")]
    Executor(#[source] io::Error),
    #[error(
        "{what} failed ({why}), and the broker has ended: what it answered is in the log; start it again, and report \
         this with what it said before"
    )]
    Panicked { what: &'static str, why: String },
}

impl From<Stopped> for ServeError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Store(error) => Self::Store(error),
            Stopped::Broken(error) => Self::Broken(error),
        }
    }
}
