//! Who carries orders out: the trait of executors, and what the daemon is to them.

use crate::{Broker, Lease, Observation, Order};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::QueuedAnswer;
use std::{fmt::Debug, io, path::PathBuf, sync::Arc};

/// Carries out orders. Told twice, an order is carried out once; after a restart it is told all that is
/// still wanted, and finds out by itself what runs already.
pub trait Executor: Send + Debug {
    /// The word of `--executor`.
    fn name(&self) -> &'static str;

    /// Finds what an earlier broker of this log had started, before anything is told: what runs still is gone on
    /// with, what has ended meanwhile is told, and what nobody wants any more is ended.
    fn adopt(&mut self, _broker: &Broker) {}

    /// Takes an order on. `broker` says whose job it is and what runs on it.
    fn take(&mut self, now: Nanoseconds, order: &Order, broker: &Broker);

    /// What has happened since it was last asked.
    fn observe(&mut self, now: Nanoseconds) -> Vec<Observation>;

    /// What processes write; `None`: it keeps nothing of that.
    fn logs(&self) -> Option<Arc<dyn Logs>> {
        None
    }

    /// Whether a lease may name the image that it runs in.
    fn takes_images(&self) -> bool {
        false
    }

    /// When there will be something to observe; `None`: it is told by others.
    fn wake_at(&self) -> Option<Nanoseconds>;
}

/// What an executor keeps of what processes write.
pub trait Logs: Debug + Send + Sync {
    /// At most `most` bytes of what a worker wrote, from the byte `after` on; `None`: it wrote nothing yet.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, lease: u32, worker: u32, after: u64, most: u64) -> io::Result<Option<Piece>>;
}

/// A piece of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub bytes: Vec<u8>,
    /// The byte at which it begins: that which was asked for, or the first that is kept.
    pub from: u64,
    /// The first byte that is kept.
    pub first: u64,
    /// Bytes that were written.
    pub size: u64,
}

/// The daemon, as an executor sees it that looks at things in threads of its own.
pub trait Host: Debug + Send + Sync {
    /// Something has happened.
    fn observed(&self, what: Observation);

    /// A service answers at these addresses, of a host and a port, and nowhere else; none: not any more.
    fn answers(&self, lease: u32, addresses: Vec<String>);

    /// What a lease waits for there where it runs; `None`: it does not wait any more.
    fn waits(&self, lease: u32, how: Option<QueuedAnswer>);

    /// The variable by which programs of a lease find their trace.
    fn trace(&self, lease: &Lease) -> (&'static str, String);
}

/// Makes an executor for the daemon, where that knows nothing of it but this.
pub trait MakesExecutor: Debug + Send + Sync {
    /// What it keeps on this machine lies in `state`.
    ///
    /// # Errors
    /// When it cannot be started.
    fn make(&self, state: PathBuf, host: Arc<dyn Host>) -> io::Result<Box<dyn Executor>>;
}

/// How far a broker that starts is with telling orders again that the one before it may have carried out. They are told
/// after the first look at what was observed, so that by the second one all of them are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OrdersRetold {
    #[default]
    NotYet,
    AfterThisLook,
    Done,
}

impl OrdersRetold {
    /// Called at each look; `true` at the one by which all are told, once.
    pub const fn is_done_at_this_look(&mut self) -> bool {
        let done = matches!(self, Self::AfterThisLook);
        *self = match self {
            Self::NotYet => Self::AfterThisLook,
            Self::AfterThisLook | Self::Done => Self::Done,
        };
        done
    }
}
