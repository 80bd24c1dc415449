//! Where slurmrestd is.

use std::{fmt, path::PathBuf};

/// Where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestAddress {
    Unix(PathBuf),
    /// A host and a port.
    Http(String),
}

impl RestAddress {
    /// Reads `unix:PATH` or `http://HOST:PORT`.
    ///
    /// # Errors
    /// When it is neither; the text says what is expected.
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text:?}: expected unix:/PATH of a socket, or http://HOST:PORT of slurmrestd")
        };
        if let Some(path) = text.strip_prefix("unix:") {
            let absolute = path.starts_with('/').then(|| Self::Unix(path.into()));
            return absolute.ok_or_else(wrong);
        }
        let host = text
            .strip_prefix("http://")
            .map(|at| at.trim_end_matches('/'));
        let is_one = |at: &&str| {
            let parts = at.rsplit_once(':');
            let plain = at
                .bytes()
                .all(|b| b.is_ascii_graphic() && !b"/@?#".contains(&b));
            plain
                && parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        host.filter(is_one)
            .map(|at| Self::Http(at.to_owned()))
            .ok_or_else(wrong)
    }
}

impl fmt::Display for RestAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Http(host) => write!(f, "http://{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_socket_or_a_host_with_its_port() {
        let read = RestAddress::read;
        assert_eq!(
            read("unix:/run/r.sock"),
            Ok(RestAddress::Unix("/run/r.sock".into()))
        );
        assert_eq!(
            read("http://head:6820/"),
            Ok(RestAddress::Http("head:6820".into()))
        );
        for wrong in [
            "unix:r.sock",
            "https://head:6820",
            "http://head",
            "http://a@head:1",
            "head:6820",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
