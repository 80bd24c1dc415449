//! Files of notes and logs: they are opened only where they are regular files of the broker's account, and links are
//! followed only where the broker made them, into folders that no other account can change.

use rustix::{
    fs::{Mode, OFlags},
    process::{getegid, geteuid},
};
use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Bits of a folder's mode.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The root account's number.
const ROOT: u32 = 0;

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{} {why}", path.display()),
    )
}

/// The real path of a folder that belongs to this account and that no other account can replace or change.
///
/// # Errors
/// When it is not there, or another account has a say in it: which folder, and why.
pub(crate) fn trusted(folder: &Path) -> io::Result<PathBuf> {
    let real = folder.canonicalize()?;
    let (own, group) = (geteuid().as_raw(), getegid().as_raw());
    for (depth, one) in real.ancestors().enumerate() {
        let about = fs::symlink_metadata(one)?;
        let ours = about.uid() == own || (depth > 0 && about.uid() == ROOT);
        if !about.is_dir() || !ours {
            let uid = about.uid();
            return Err(refused(
                one,
                &format!("belongs to another account (uid {uid}), or is no folder"),
            ));
        }
        let by_group = about.mode() & GROUP_WRITES != 0 && ![ROOT, group].contains(&about.gid());
        let by_others = about.mode() & OTHERS_WRITE != 0;
        // There, entries are replaced by their owner alone.
        let keeps = depth > 0 && about.mode() & STICKY != 0;
        if (by_group || by_others) && !keeps {
            return Err(refused(
                one,
                "can be changed by other accounts; chmod go-w takes that from them",
            ));
        }
    }
    Ok(real)
}

/// Where a path leads: a link that was made when a folder was taken over is followed once.
///
/// # Errors
/// When it leads to where another account has a say.
fn followed(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_symlink() => {
            let beside = path.parent().unwrap_or(path);
            let target = beside.join(fs::read_link(path)?);
            let (folder, name) = target
                .parent()
                .zip(target.file_name())
                .ok_or_else(|| refused(path, "is a link to no file"))?;
            Ok(trusted(folder)?.join(name))
        }
        _ => Ok(path.to_owned()),
    }
}

/// Where a file of ours is, with links followed that the broker made, of the file and of its folder.
///
/// # Errors
/// When a link leads to where another account has a say.
pub(super) fn real(path: &Path) -> io::Result<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused(path, "is no name of a file"));
    };
    let within = followed(folder)?;
    if within != folder && fs::symlink_metadata(&within).is_ok_and(|about| !about.is_dir()) {
        return Err(refused(&within, "is no folder"));
    }
    followed(&within.join(name))
}

fn checked(path: &Path, about: &Metadata) -> io::Result<()> {
    if !about.is_file() {
        return Err(refused(path, "is no regular file"));
    }
    if about.uid() != geteuid().as_raw() {
        let uid = about.uid();
        return Err(refused(
            path,
            &format!("belongs to another account (uid {uid})"),
        ));
    }
    Ok(())
}

/// Opens a file of ours; one that is made is for this account, as far as its umask goes.
///
/// # Errors
/// When it cannot be opened, is a link, no regular file, or another account's.
pub(super) fn open(path: &Path, how: OFlags) -> io::Result<File> {
    let path = real(path)?;
    // A pipe would wait for its other end.
    let how = how | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(&path, how, Mode::from_bits_truncate(0o666));
    let file = match opened {
        Err(rustix::io::Errno::LOOP) => return Err(refused(&path, "is a link")),
        opened => File::from(opened?),
    };
    checked(&path, &file.metadata()?)?;
    Ok(file)
}

/// The text of a file of ours.
///
/// # Errors
/// As for [`open`].
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path, OFlags::RDONLY)?.read_to_string(&mut text)?;
    Ok(text)
}

/// What the system says of a file of ours.
///
/// # Errors
/// As for [`open`].
pub(super) fn about(path: &Path) -> io::Result<Metadata> {
    let path = real(path)?;
    let about = fs::symlink_metadata(&path)?;
    checked(&path, &about)?;
    Ok(about)
}

/// A file of ours with this text, and with nothing of what it held before.
///
/// # Errors
/// As for [`open`], and when it cannot be written.
pub(super) fn write(path: &Path, text: &[u8]) -> io::Result<File> {
    let mut file = open(path, OFlags::WRONLY | OFlags::CREATE)?;
    file.set_len(0)?;
    file.write_all(text)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    fn mode(path: &Path, bits: u32) {
        fs::set_permissions(path, Permissions::from_mode(bits)).expect("is set");
    }

    #[test]
    fn a_link_is_followed_once_and_only_into_a_folder_that_is_ours_alone() {
        let all = tempfile::tempdir().expect("a folder");
        let [own, other] = ["own", "other"].map(|name| all.path().join(name));
        for folder in [&own, &other] {
            fs::create_dir(folder).expect("is made");
            mode(folder, 0o700);
        }
        let secret = all.path().join("secret");
        fs::write(&secret, "hidden").expect("writes");
        fs::write(other.join("L-1.log"), "said").expect("writes");
        symlink(other.join("L-1.log"), own.join("L-1.log")).expect("is made");
        assert_eq!(read(&own.join("L-1.log")).expect("is ours"), "said");
        // The folder may be a link, too.
        symlink(&other, all.path().join("link")).expect("is made");
        assert_eq!(
            read(&all.path().join("link/L-1.log")).expect("is ours"),
            "said"
        );
        // A link that a link leads to is another's.
        symlink(&secret, other.join("L-2.log")).expect("is made");
        symlink(other.join("L-2.log"), own.join("L-2.log")).expect("is made");
        let why = read(&own.join("L-2.log")).expect_err("is a link");
        assert!(why.to_string().contains("is a link"), "{why}");
        assert!(write(&own.join("L-2.log"), b"lost").is_err());
        assert_eq!(fs::read_to_string(&secret).expect("reads"), "hidden");
        // One into a folder that others can change.
        mode(&other, 0o777);
        let why = read(&own.join("L-1.log")).expect_err("may be another's");
        assert!(why.to_string().contains("chmod go-w"), "{why}");
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let all = tempfile::tempdir().expect("a folder");
        let pipe = all.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("runs").success());
        for path in [pipe, all.path().join(".")] {
            assert!(read(&path).is_err(), "{}", path.display());
        }
        let file = all.path().join("0.end");
        write(&file, b"137").expect("writes");
        write(&file, b"0").expect("writes");
        assert_eq!(read(&file).expect("reads"), "0");
        assert_eq!(about(&file).expect("is there").len(), 1);
    }
}
