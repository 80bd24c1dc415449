//! Tests of the database, the same on SQLite and on a real PostgreSQL where there is one.

mod backup;
mod log;
mod runs;
mod snapshots;
mod support;
