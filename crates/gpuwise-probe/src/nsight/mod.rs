//! SQLite exports of Nsight Systems (`nsys export --type sqlite`), of every schema version.
//!
//! Tables and columns come and go between versions: columns are chosen by name, a column that is not
//! there reads as unknown, and any table may be missing. The file is opened for reading only.

mod build;
mod copies;
mod database;
mod error;
mod host;
mod read;
mod report;
mod unpack;
mod work;

pub use error::NsightError;
pub use read::read_export;
pub use report::{Exporter, ReportKind, report_kind};
pub use unpack::{Room, UnpackError, unpack};

/// First bytes of any SQLite file.
pub const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
