//! What telemetry says: figures over a window, row by row; findings that begin and end; conditions that
//! start something else.

mod changes;
mod facts;
mod figures;
mod rules;
mod serving;
mod state;
mod track;
mod triggers;

pub use changes::{Change, Changes};
pub use facts::{DeviceFacts, Facts};
pub use figures::{figures, weighed};
pub use rules::{DEFINITIONS, Sizing, finding_weight, findings, numa_mismatch};
pub use serving::ReplicaTrack;
pub use state::{Anomalies, ReplicaKey, Row, State};
pub use track::{Arrival, Track};
pub use triggers::{Trigger, Triggered};
