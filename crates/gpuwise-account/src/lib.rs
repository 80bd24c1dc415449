//! Accounting for leases of GPUs: what was granted and used, what it costs and whom, whether the promise
//! was kept.
//!
//! Everything is a function of records and rules that are handed in: no clock, file or thread, and no
//! floating point between a price and an amount. Amounts are µ-units of a currency ([`Money`]), products
//! are taken in 128 bits and rounded once per line, half to even.
//!
//! - [`usage`]: interval records and the [`usage::Meter`] that keeps what they come to;
//! - [`prices`]: the price book;
//! - [`lent`]: what was kept for a tenant, and lent to others meanwhile;
//! - [`books`]: these together, held to one grid of hours and price changes;
//! - [`statement`]: what a tenant is charged for a month;
//! - [`budget`]: what a tenant may spend, reserved before it is spent;
//! - [`ledger`]: double entry;
//! - [`conserve`]: granted, lent, idle and the system's are the whole, for each GPU and hour;
//! - [`focus`]: statements as rows of FOCUS 1.2;
//! - [`slo`]: error budgets and burn rates.
//!
//! [`Money`]: gpuwise_units::Money

// A result of money or of metering that is thrown away is money that is lost.
#![warn(clippy::let_underscore_must_use, clippy::unused_result_ok)]

pub mod books;
pub mod budget;
#[cfg(doctest)]
mod concepts;
pub mod conserve;
pub mod focus;
pub mod ledger;
pub mod lent;
pub mod money;
pub mod period;
pub mod prices;
pub mod slo;
pub mod statement;
pub mod usage;
