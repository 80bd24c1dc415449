//! The inventory by cases and by chance; watches against a server that does what it is told.

mod given;
mod inventory;
mod jobs;
mod server;
mod watch;
mod why;
