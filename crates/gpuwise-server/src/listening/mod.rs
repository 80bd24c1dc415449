//! Listening to the network: how many connections there may be, and how long each may keep silent.
//!
//! A connection that serves a request is left alone. One that waits, or sends its request slowly, has its time; and
//! where there is no room for another, the one of them that has waited longest makes room, of the address that has
//! most. So whoever sends whole requests is answered, however many connections others hold open.

mod bounds;
mod connections;
mod server;
mod stream;
#[cfg(test)]
mod tests;

pub use bounds::{BoundsError, ConnectionBounds};
use connections::{Closed, Serving};
pub(crate) use connections::{Connection, Connections};
pub(crate) use server::serving;
pub(crate) use server::{BoundedListener, application};
pub(crate) use stream::BoundedStream;
