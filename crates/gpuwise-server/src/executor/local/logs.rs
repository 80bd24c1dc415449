//! Files that processes write to.

use super::kept::Place;
use crate::executor::{Logs, Piece};
use gpuwise_broker::lease_id;
use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

impl Place {
    /// Where standard output and error of a worker go.
    pub(in crate::executor) fn log_file(&self, lease: u32, worker: u32) -> PathBuf {
        let name = match worker {
            0 => format!("{}.log", lease_id(lease)),
            _ => format!("{}.{worker}.log", lease_id(lease)),
        };
        self.0.join("logs").join(name)
    }
}

impl Logs for Place {
    fn read(&self, lease: u32, worker: u32, after: u64, most: u64) -> io::Result<Option<Piece>> {
        let mut file = match File::open(self.log_file(lease, worker)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(after.min(size)))?;
        let mut bytes = Vec::new();
        file.take(most.min(size.saturating_sub(after)))
            .read_to_end(&mut bytes)?;
        Ok(Some(Piece { bytes, size }))
    }
}
