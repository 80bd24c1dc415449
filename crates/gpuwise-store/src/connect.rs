//! Opening: where the database is, and how it is spoken to.

use crate::{Kind, Store, error::StoreError, migrate};
use sqlx::{
    AnyConnection, Connection as _,
    any::{AnyConnectOptions, AnyPoolOptions},
};
use std::{
    fmt::Write as _,
    os::unix::fs::MetadataExt as _,
    path::Path,
    str::FromStr as _,
    sync::{Mutex, Once},
    time::Duration,
};

/// How long a writer waits for another.
const BUSY: Duration = Duration::from_secs(30);

/// How long a server may take to answer at all.
const ACQUIRE: Duration = Duration::from_secs(15);

/// The same for one that was there when a log was opened, so that a writer soon says that it is gone.
const ACQUIRE_AGAIN: Duration = Duration::from_secs(2);

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// The end of the program.
    Crash,
    /// The end of the machine.
    PowerLoss,
}

static DRIVERS: Once = Once::new();

impl Store {
    /// Opens a database and brings its tables up to date: a path, `sqlite:PATH`, or
    /// `postgres://user@host/name`. A file that is not there is made.
    ///
    /// # Errors
    /// When there is no such database, its driver is not built in, it refuses, or a newer program has
    /// written it.
    pub fn open(address: &str) -> Result<Self, StoreError> {
        Self::open_as(address, Durability::Crash)
    }

    /// The same for a database that must be there already.
    ///
    /// # Errors
    /// As [`Store::open`], and when there is no such file.
    pub fn open_existing(address: &str) -> Result<Self, StoreError> {
        match path_of(address) {
            Some(path) if !path.exists() => Err(StoreError::Missing {
                address: without_password(address),
            }),
            _ => Self::open(address),
        }
    }

    /// The same for a log: what was written stays, whatever happens to the machine.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_durable(address: &str) -> Result<Self, StoreError> {
        Self::open_as(address, Durability::PowerLoss)
    }

    fn open_as(address: &str, durability: Durability) -> Result<Self, StoreError> {
        DRIVERS.call_once(sqlx::any::install_default_drivers);
        let shown = without_password(address);
        let (url, kind) = url_of(address).ok_or_else(|| StoreError::Address {
            address: shown.clone(),
        })?;
        if kind == Kind::Postgres && !cfg!(feature = "postgres") {
            return Err(StoreError::NotBuilt { address: shown });
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StoreError::Runtime)?;
        let open = |source| StoreError::Open {
            address: shown.clone(),
            source,
        };
        let options = AnyConnectOptions::from_str(&url).map_err(open)?;
        // A pool tries again until its time is up, and then says only that; one connection says why.
        runtime
            .block_on(tried(&options, kind, durability))
            .map_err(open)?;
        let connections = match kind {
            Kind::Sqlite => 1,
            Kind::Postgres => 4,
        };
        let pool = runtime
            .block_on(
                AnyPoolOptions::new()
                    .max_connections(connections)
                    .acquire_timeout(match durability {
                        Durability::Crash => ACQUIRE,
                        Durability::PowerLoss => ACQUIRE_AGAIN,
                    })
                    .after_connect(move |connection, _| {
                        Box::pin(async move {
                            for setting in settings(kind, durability) {
                                sqlx::query(setting).execute(&mut *connection).await?;
                            }
                            Ok(())
                        })
                    })
                    .connect_with(options),
            )
            .map_err(open)?;
        runtime.block_on(migrate::up_to_date(&pool))?;
        Ok(Self {
            pool,
            runtime,
            kind,
            known: Mutex::new(None),
        })
    }

    /// Gives freed space back to the system and lets the planner see what is there.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn tidy(&self) -> Result<(), StoreError> {
        let statements: &[&'static str] = match self.kind {
            Kind::Sqlite => &["VACUUM", "PRAGMA optimize"],
            Kind::Postgres => &["VACUUM ANALYZE"],
        };
        for statement in statements {
            self.runtime
                .block_on(sqlx::query(*statement).execute(&self.pool))
                .map_err(crate::error::failed("tidying"))?;
        }
        Ok(())
    }
}

/// Opens one connection, tells it what each is told, and closes it.
async fn tried(
    options: &AnyConnectOptions,
    kind: Kind,
    durability: Durability,
) -> Result<(), sqlx::Error> {
    let mut connection = AnyConnection::connect_with(options).await?;
    for setting in settings(kind, durability) {
        sqlx::query(setting).execute(&mut connection).await?;
    }
    connection.close().await
}

/// What each connection is told first. SQLite: readers beside a writer, foreign keys as declared.
fn settings(kind: Kind, durability: Durability) -> Vec<&'static str> {
    const _: () = assert!(BUSY.as_millis() == 30_000, "as in the text below");
    match kind {
        Kind::Sqlite => vec![
            "PRAGMA busy_timeout = 30000",
            "PRAGMA journal_mode = WAL",
            match durability {
                Durability::Crash => "PRAGMA synchronous = NORMAL",
                Durability::PowerLoss => "PRAGMA synchronous = FULL",
            },
            "PRAGMA foreign_keys = ON",
        ],
        // A server's own default is durable. A writer that is stopped within a transaction must not hold
        // its row until it wakes up.
        Kind::Postgres => match durability {
            Durability::Crash => vec!["SET client_min_messages TO warning"],
            Durability::PowerLoss => vec![
                "SET client_min_messages TO warning",
                "SET idle_in_transaction_session_timeout = '4s'",
            ],
        },
    }
}

/// The file of an address; `None`: it names none.
fn path_of(address: &str) -> Option<&Path> {
    let path = match address.strip_prefix("sqlite:") {
        Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
        None if address.contains("://")
            || address.starts_with("postgres") && address.contains(':') =>
        {
            return None;
        }
        None => address,
    };
    (!path.is_empty()).then(|| Path::new(path))
}

/// What tells a database from its copies: the file itself, however its path is written, or a server's address.
pub fn database_id(address: &str) -> String {
    let about = path_of(address).and_then(|path| std::fs::metadata(path).ok());
    about.map_or_else(
        || address.to_owned(),
        |about| format!("{}:{}", about.dev(), about.ino()),
    )
}

/// The driver's URL for an address.
fn url_of(address: &str) -> Option<(String, Kind)> {
    if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        return Some((address.into(), Kind::Postgres));
    }
    let path = std::path::absolute(path_of(address)?).ok()?;
    let mut url = String::from("sqlite://");
    for byte in path.to_str()?.bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                url.push(char::from(byte));
            }
            _ => {
                // Writing to a text cannot fail.
                let _ = write!(url, "%{byte:02X}");
            }
        }
    }
    url.push_str("?mode=rwc");
    Some((url, Kind::Sqlite))
}

/// An address as it may be shown: user, host and database, never a password, which may stand before the
/// host, as a parameter, or in words (`password=…`). What follows `?` or `#` is left out whole, and where
/// an `@` stands behind the host, so that a password may reach over `/` or `?`, nothing but the scheme is
/// shown.
pub fn without_password(address: &str) -> String {
    const HIDDEN: &str = "…";
    let Some((scheme, rest)) = address.split_once("://") else {
        let lower = address.to_ascii_lowercase();
        let server = lower.starts_with("postgres:") || lower.starts_with("postgresql:");
        return match lower.find("password") {
            Some(at) => format!("{}password={HIDDEN}", address.get(..at).unwrap_or_default()),
            None if server => format!("postgres:{HIDDEN}"),
            None => address.into(),
        };
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    if after.contains('@') {
        return format!("{scheme}://{HIDDEN}");
    }
    let path = after.split(['?', '#']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split([':', '@']).next().unwrap_or_default();
            format!("{scheme}://{user}@{host}{path}")
        }
        None => format!("{scheme}://{authority}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |address: &str, expect: Option<(&str, Kind)>| {
            assert_eq!(
                url_of(address),
                expect.map(|(url, kind)| (url.to_owned(), kind)),
                "{address}"
            );
        };
        let sqlite = |url| Some((url, Kind::Sqlite));
        check("/a/b.db", sqlite("sqlite:///a/b.db?mode=rwc"));
        check(
            "sqlite:/a/b c?.db",
            sqlite("sqlite:///a/b%20c%3F.db?mode=rwc"),
        );
        check("sqlite:///a.db", sqlite("sqlite:///a.db?mode=rwc"));
        check(
            "postgres://me@host/x",
            Some(("postgres://me@host/x", Kind::Postgres)),
        );
        check("mysql://host/x", None);
        check("postgres:me@host/x", None);
        check("sqlite:", None);
    }

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn a_server_without_its_driver_says_so() {
        let error = Store::open("postgres://me:secret@host/x").expect_err("it is not built in");
        let text = error.to_string();
        assert!(text.contains("without PostgreSQL"), "{text}");
        assert!(text.contains("postgres://me@host/x"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn passwords_are_not_shown() {
        let check = |address: &str, expect: &str| {
            let shown = without_password(address);
            assert_eq!(shown, expect, "{address}");
            for part in ["sec", "ret"] {
                assert!(!shown.contains(part), "{address}: {shown}");
            }
        };
        check("postgres://me:secret@host/x", "postgres://me@host/x");
        check(
            "postgres://me:sec@ret@host:5432/x",
            "postgres://me@host:5432/x",
        );
        check("postgres://me:@sec@ret@host/x", "postgres://me@host/x");
        check(
            "postgres://me@host/x?password=secret",
            "postgres://me@host/x",
        );
        check("postgres://host?user=me&password=secret", "postgres://host");
        check("postgres://host/x?password=sec@ret", "postgres://…");
        check("postgres://me:sec/ret@host/x", "postgres://…");
        check("postgres://me:sec?ret@host/x", "postgres://…");
        check("postgres://me:sec#ret@host/x", "postgres://…");
        check("postgres://me:s@sec/ret@host/x", "postgres://…");
        check("mysql://me:secret@host/x", "mysql://me@host/x");
        check("postgres:me:secret@host/x", "postgres:…");
        check("host=h password=secret user=me", "host=h password=…");
        check("/a/b.db", "/a/b.db");
        check("/a/me:x@b.db", "/a/me:x@b.db");
    }
}
