//! Tests of the database, the same on SQLite and on a real PostgreSQL where there is one.

#[cfg(feature = "postgres")]
mod postgres;
mod runs;
mod support;
