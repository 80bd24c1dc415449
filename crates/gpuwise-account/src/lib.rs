//! Accounting for leases of GPUs: what was granted and used, what it costs and whom, whether the promise
//! was kept.
//!
//! Everything is a function of records and rules that are handed in: no clock, file or thread, and no
//! floating point between a price and an amount. Amounts are µ-units of a currency ([`Money`]), products
//! are taken in 128 bits and rounded once per line, half to even.
//!
//! - [`usage`]: interval records and the [`usage::Meter`] that keeps what they come to;
//! - [`prices`]: the price book;
//! - [`books`]: both together, held to one grid of hours and price changes;
//! - [`statement`]: what a tenant is charged for a month.
//!
//! [`Money`]: gpuwise_units::Money

pub mod books;
pub mod money;
pub mod period;
pub mod prices;
pub mod statement;
pub mod usage;
