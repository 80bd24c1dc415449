//! Quantities that cannot be mixed up.
//!
//! Bytes, tokens, parameters, money and simulated time are integers; rates and
//! estimates are reals with a unit in their type. Text must name its unit:
//! `80GB` and `80GiB` are different numbers and `80` is neither.
//!
//! This crate is `no_std` and depends on nothing that reads a clock, a file or
//! an environment variable.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod bytes;
mod count;
mod currency;
mod error;
mod fraction;
pub mod math;
mod money;
mod named;
mod percentile;
mod real;
mod stream;
mod text;
mod time;

pub use bytes::Bytes;
pub use count::{Parameters, Tokens};
pub use currency::Currency;
pub use error::ParseQuantityError;
pub use fraction::Fraction;
pub use money::{HourlyPrice, Money, half_even};
pub use percentile::Percentile;
pub use real::{BytesPerSecond, FlopPerSecond, Joules, PerSecond, Seconds, Watts};
pub use stream::RandomStream;
pub use text::{group_thousands, significant};
pub use time::Nanoseconds;
