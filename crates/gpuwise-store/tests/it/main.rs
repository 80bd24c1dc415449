//! Tests of the database, the same on SQLite and on a real PostgreSQL where there is one.

mod log;
#[cfg(feature = "postgres")]
mod postgres;
mod runs;
mod support;
