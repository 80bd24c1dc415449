//! The broker from the command line: `gpuwise serve`, and what asks it.

mod client;
mod desk;
mod doctor;
mod engine;
mod lease;
mod machine;
mod monitor;
mod place;
mod pods;
mod policy;
mod prices;
mod proposal;
mod reservation;
mod review;
mod said;
mod serve;
mod served;
mod sizing;
mod slo;
mod slo_command;
mod slurm;
mod statement;
mod store;
mod tenant;
mod token;
mod top;
mod usage;

pub use client::BrokerFlags;
#[allow(clippy::redundant_pub_crate)]
pub(crate) use client::is_this_machine;
pub use doctor::{Doctor, run as doctor};
pub use engine::{Engine, run as engine};
pub use gpuwise_server::openapi;
pub use lease::{LeaseCommand, run as lease};
pub use policy::{PolicyCommand, run as policy};
pub use prices::{PriceCommand, run as prices};
pub use proposal::{ProposalCommand, run as proposal};
pub use reservation::{ReservationCommand, run as reservation};
pub use serve::{Serve, run as serve};
pub use slo_command::{SloCommand, run as slo};
pub use statement::{StatementFlags, run as statement};
pub use store::{StoreCommand, run as store};
pub use tenant::{TenantCommand, run as tenant};
pub use token::{TokenCommand, run as token};
pub use top::{Top, run as top};
pub use usage::{UsageCommand, run as usage};
