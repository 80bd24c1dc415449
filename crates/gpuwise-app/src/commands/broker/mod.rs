//! The broker from the command line: `gpuwise serve`, and what asks it.

mod client;
mod desk;
mod engine;
mod lease;
mod place;
mod serve;
mod statement;
mod store;
mod tenant;
mod token;
mod top;

pub use client::BrokerFlags;
pub use engine::{Engine, run as engine};
pub use gpuwise_server::openapi;
pub use lease::{LeaseCommand, run as lease};
pub use serve::{Serve, run as serve};
pub use statement::{StatementFlags, run as statement};
pub use store::{StoreCommand, run as store};
pub use tenant::{TenantCommand, run as tenant};
pub use token::{TokenCommand, run as token};
pub use top::{Top, run as top};
