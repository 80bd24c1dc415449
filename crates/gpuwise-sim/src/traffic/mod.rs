//! Requests to come: generators, recorded traces, and what is done to them.
//!
//! Traffic is a [`Source`]: requests in the order in which they are due, made one at a time, so that
//! ten million of them need no memory. Every source is a function of its arguments and a seed, with a
//! random stream of its own for every purpose: another law of lengths moves no arrival.

mod arrivals;
mod change;
mod clients;
mod clock;
mod combine;
mod conversations;
mod curve;
mod error;
mod generate;
mod lengths;
mod prefix;
mod recorded;
pub mod sample;
mod summary;
mod users;

use gpuwise_units::math::mixed;

pub use arrivals::{Arrivals, Rate, Shape, Stage, State};
pub use change::{Change, Changed, Label};
pub use clients::{Excerpt, Superposed};
pub use combine::{Alongside, Contents, Merged, Repeated, Resampled, Spliced};
pub use conversations::{ConversationStream, Conversations, SystemPrompts};
pub use curve::Curve;
pub use error::TrafficError;
pub use generate::{Extent, Generator, Pattern, from_workload};
pub use lengths::{LengthLaw, Lengths};
pub use prefix::PrefixPool;
pub use recorded::Recorded;
pub use summary::{LengthFigures, Summary};
pub use users::{SharedPrefix, Users};

use gpuwise_domain::request::Request;

/// Requests in the order in which they are due.
pub trait Source: Iterator<Item = Request> {
    /// How many are still to come, where that is known.
    fn remaining(&self) -> Option<u64> {
        None
    }

    /// What a client waits for beside the clock.
    fn pacing(&self) -> Pacing {
        Pacing::default()
    }

    /// The same with a change made; changes are made in the order in which they are given.
    ///
    /// # Errors
    /// When a number of the change cannot be.
    fn changed(self, change: Change) -> Result<Changed<Self>, TrafficError>
    where
        Self: Sized,
    {
        Changed::new(self, change)
    }

    /// The same behind a pointer.
    fn boxed(self) -> Traffic
    where
        Self: Sized + Send + 'static,
    {
        Box::new(self)
    }
}

pub type Traffic = Box<dyn Source + Send>;

impl<S: Source + ?Sized> Source for Box<S> {
    fn remaining(&self) -> Option<u64> {
        (**self).remaining()
    }

    fn pacing(&self) -> Pacing {
        (**self).pacing()
    }
}

/// What a client waits for beside the clock. Who sends the requests keeps to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// Requests are sent when they are due, at most so many at a time.
    Scheduled {
        /// Concurrent requests, at most; those held back still count from when they were due.
        cap: Option<u32>,
    },
    /// So many are always in flight: the next is sent when one ends.
    InFlight(u32),
}

impl Default for Pacing {
    fn default() -> Self {
        Self::Scheduled { cap: None }
    }
}
