//! Values of tenants' secrets: files that the broker's account alone can read. The log knows names.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Bytes of a value at most.
pub(crate) const LARGEST: usize = 64 << 10;

/// The folder of a log's secrets: `TENANT/NAME` of each.
#[derive(Debug, Clone)]
pub(crate) struct Secrets(PathBuf);

/// A value that is written and not yet in the place of the one before it.
#[derive(Debug)]
pub(crate) struct Written {
    from: PathBuf,
    to: PathBuf,
}

impl Secrets {
    /// Values that were written and never taken are removed.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(crate) fn open(folder: PathBuf) -> io::Result<Self> {
        private(&folder)?;
        let tenants = fs::read_dir(&folder)?;
        for tenant in tenants.flatten().filter(|one| one.path().is_dir()) {
            for file in fs::read_dir(tenant.path())?.flatten() {
                let path = file.path();
                // No name begins so.
                if file.file_name().to_string_lossy().starts_with('.') {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(Self(folder))
    }

    /// Names are names: no path is made of them that leads elsewhere.
    fn file(&self, tenant: &str, name: &str) -> PathBuf {
        self.0.join(tenant).join(name)
    }

    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, tenant: &str, name: &str, value: &str) -> io::Result<Written> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let to = self.file(tenant, name);
        let folder = self.0.join(tenant);
        private(&folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let from = folder.join(format!(".{name}.{number}"));
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&from)?;
        let written = Written { from, to };
        file.write_all(value.as_bytes())?;
        file.sync_all()?;
        Ok(written)
    }

    /// # Errors
    /// When it is not there, or cannot be read.
    pub(crate) fn read(&self, tenant: &str, name: &str) -> io::Result<String> {
        fs::read_to_string(self.file(tenant, name))
    }

    /// # Errors
    /// When it is there and cannot be removed.
    pub(crate) fn remove(&self, tenant: &str, name: &str) -> io::Result<()> {
        match fs::remove_file(self.file(tenant, name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Written {
    /// It is the value from now on.
    ///
    /// # Errors
    /// When it cannot be moved there.
    pub(crate) fn take(self) -> io::Result<()> {
        fs::rename(&self.from, &self.to)?;
        let folder = self.to.parent().unwrap_or_else(|| Path::new("."));
        File::open(folder)?.sync_all()
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // One that was taken is no longer there.
        let _ = fs::remove_file(&self.from);
    }
}

fn private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_value_is_one_or_the_other_and_for_the_broker_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("secrets");
        let secrets = Secrets::open(place.clone()).expect("opens");
        assert!(secrets.read("a", "key").is_err());
        secrets
            .write("a", "key", "one\n")
            .and_then(Written::take)
            .expect("is kept");
        // One that is not taken changes nothing and leaves nothing.
        drop(secrets.write("a", "key", "two").expect("writes"));
        assert_eq!(secrets.read("a", "key").expect("reads"), "one\n");
        // Nor does one whose broker is killed meanwhile.
        std::mem::forget(secrets.write("a", "key", "three").expect("writes"));
        assert_eq!(fs::read_dir(place.join("a")).expect("reads").count(), 2);
        let again = Secrets::open(place.clone()).expect("opens");
        assert_eq!(again.read("a", "key").expect("reads"), "one\n");
        assert_eq!(fs::read_dir(place.join("a")).expect("reads").count(), 1);
        let mode =
            |path: PathBuf| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
        assert_eq!(
            (mode(place.join("a")), mode(place.join("a/key"))),
            (0o700, 0o600)
        );
        again.remove("a", "key").expect("is removed");
        again.remove("a", "key").expect("is gone");
        assert!(again.read("a", "key").is_err());
    }
}
