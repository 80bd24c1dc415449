//! Load on an OpenAI-compatible server, and what comes of it.
//!
//! Traffic is a list of [`gpuwise_domain::request::Request`]s that is fixed beforehand. A thread of
//! its own sends each when it is due, whatever the server does; latencies count from when a request
//! was due, so that a slow client or server hides no queue, and the delay of the client is recorded
//! apart. Pieces of an answer are stamped when their bytes are read, before they are looked at.

mod body;
mod chunk;
mod client;
mod clock;
mod exchange;
mod failure;
mod limits;
mod link;
mod measured;
mod pace;
mod prepare;
mod prompt;
mod run;
mod sse;
mod stop;
mod target;
mod work;

pub use body::Dialect;
pub use chunk::{Chunk, ChunkDelta, Timings, Usage};
pub use clock::Clock;
pub use failure::{Failure, Stage};
pub use limits::allow_connections;
pub use measured::{Doubt, Measured};
pub use pace::Pacing;
pub use prepare::{Options, PrepareError, Prepared, prepare};
pub use prompt::Calibration;
pub use run::{ClockOrigin, Ended, Load, LoadEvent, Progress, RunError, run};
pub use sse::{Event, EventStream, EventTooLong};
pub use stop::Stop;
pub use target::{Interface, Secret, Target, TargetError, Trust};
