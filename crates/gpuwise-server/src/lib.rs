//! `gpuwise serve`: the broker as a daemon.
//!
//! One thread writes (`writer`): it takes what is asked in batches, lets the broker say what has
//! happened, keeps that in the log in one transaction, and only then answers. Readers see a second copy
//! of the state, to which the same events are applied once they are durable: they never wait for a
//! decision and never see what may be lost.

mod check;
mod clock;
mod collect;
mod conservation;
mod desk;
mod endpoints;
mod engine;
mod executor;
mod gateway;
mod http;
mod lead;
mod lease_page;
mod limits;
mod listening;
mod message;
mod observe;
mod oidc;
mod origin;
mod picker;
pub mod redfish;
mod replay;
mod scaler;
mod scaling;
mod secrets;
mod serve;
mod sleep;
mod snapshots;
mod standing;
mod stopping;
mod tenant_bounds;
mod token;
mod writer;

pub use check::{Checked, Counted, RunsAt, check};
pub use clock::{ClockError, ClockLimits};
pub use collect::{Collect, RightSize};
pub use desk::{
    Answered, Desk, EngineQueue, EngineSeen, GpuSeen, Review, Sized, TrueSpeed, Watched,
};
pub use endpoints::{Endpoints, Replica};
pub use engine::{EngineSettings, engine};
pub use executor::{
    Account, AccountNames, Cutter, Delays, Executor, Local, LocalSettings, RestAddress, RunAs,
    SUPERVISOR, Simulated, Slurm, SlurmSettings, Suspension, TokenFrom, delegation, supervise,
};
pub use gateway::EnginePatience;
pub use http::{TlsError, TlsFiles, openapi};
pub use lease_page::{PageAddress, PageSaid, PageSaidError};
pub use listening::{BoundsError, ConnectionBounds};
pub use oidc::{OidcError, OidcSettings};
pub use picker::{
    Asker, EngineLoad, Membership, Objectives, PickerSettings, PoolSettings, Port, PortError,
    Ports, QueueSettings, picker,
};
pub use replay::Replay;
pub use scaler::{
    Defined, Difference, Followed, Following, Listening, ScalerError, ScalerSettings, Services,
    replayed, scaler,
};
pub use scaling::Rehearsal;
pub use serve::{ExecutorKind, Said, ServeError, Settings, serve};
pub use sleep::EngineAt;
pub use snapshots::{Made, SnapshotError, keep as keep_snapshot, snapshot};
pub use stopping::told_to_end;
pub use tenant_bounds::TenantBounds;
pub use writer::Stopped;
