//! Profiles in buckets, in builds with and without a network.

use std::path::{Path, PathBuf};

/// Whether a file or the beginning of files lies in a bucket.
pub fn is_in_one(place: &Path) -> bool {
    place.to_str().is_some_and(|text| text.starts_with("s3://"))
}

#[cfg(feature = "hub")]
mod connected {
    use super::{Path, PathBuf};
    use crate::buckets::{Brought, Buckets, address};

    /// A file that can be opened, for as long as this is held.
    #[derive(Debug)]
    pub struct Here(Option<Brought>);

    impl Here {
        pub fn path<'p>(&'p self, named: &'p Path) -> &'p Path {
            self.0.as_ref().map_or(named, |brought| &brought.path)
        }
    }

    /// Files of a bucket whose keys begin so.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn list(place: &Path, offline: bool) -> anyhow::Result<Vec<PathBuf>> {
        let of = address(place).unwrap_or_default();
        Buckets::new(offline)?.list(of)
    }

    /// The file itself, or a copy of what lies in a bucket.
    ///
    /// # Errors
    /// When it cannot be brought here.
    pub fn here(file: &Path, offline: bool) -> anyhow::Result<Here> {
        let brought = |of| Buckets::new(offline)?.bring(of);
        Ok(Here(address(file).map(brought).transpose()?))
    }
}

#[cfg(not(feature = "hub"))]
mod connected {
    use super::{Path, PathBuf, is_in_one};
    use crate::error::Problem;

    /// A file that can be opened.
    #[derive(Debug)]
    pub struct Here(PathBuf);

    impl Here {
        pub fn path<'p>(&'p self, _named: &'p Path) -> &'p Path {
            &self.0
        }
    }

    fn refused(place: &Path) -> anyhow::Error {
        Problem::new(format!(
            "{}: this build of gpuwise has no network",
            place.display()
        ))
        .hint("bring the files here and name their directory")
        .into()
    }

    /// # Errors
    /// Always.
    pub fn list(place: &Path, _offline: bool) -> anyhow::Result<Vec<PathBuf>> {
        Err(refused(place))
    }

    /// # Errors
    /// Of what lies in a bucket.
    pub fn here(file: &Path, _offline: bool) -> anyhow::Result<Here> {
        if is_in_one(file) {
            Err(refused(file))
        } else {
            Ok(Here(file.to_path_buf()))
        }
    }
}

pub use connected::{here, list};
