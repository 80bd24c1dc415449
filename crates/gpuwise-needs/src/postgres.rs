//! A PostgreSQL of our own in a folder, where its programs are installed: started once for all
//! tests, spoken to over a socket in that folder, stopped with them.

#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "tests may fail at once"
)]

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// A running server.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    databases: AtomicU32,
}

/// The server, started at the first call; none where PostgreSQL is not installed.
pub fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(Server::new).as_ref()
}

impl Server {
    /// A server of one's own, that may be stopped; none where PostgreSQL is not installed.
    pub fn new() -> Option<Self> {
        programs()?;
        let folder = tempfile::Builder::new().prefix("pg").tempdir().ok()?.keep();
        let data = folder.join("data");
        if am_root() {
            let given = Command::new("chown").arg("nobody").arg(&folder).status();
            given.ok().filter(std::process::ExitStatus::success)?;
        }
        let made = command("initdb")
            .args(["-U", "tests", "-A", "trust", "-N", "-D"])
            .arg(&data)
            .output()
            .ok()?;
        assert!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        stop_with_us(&data);
        let server = Self {
            folder,
            databases: AtomicU32::new(0),
        };
        server.start();
        Some(server)
    }

    /// Starts it, also again.
    pub fn start(&self) {
        let started = command("pg_ctl")
            .arg("-D")
            .arg(self.folder.join("data"))
            .arg("-l")
            .arg(self.folder.join("log"))
            .args(["-w", "-o"])
            .arg(format!(
                "-F -c listen_addresses= -k {}",
                self.folder.display()
            ))
            .arg("start")
            .stdout(std::process::Stdio::null())
            .status()
            .expect("pg_ctl runs");
        assert!(started.success(), "PostgreSQL starts");
    }

    /// Ends it at once, as a crash would.
    pub fn stop(&self) {
        let stopped = command("pg_ctl")
            .arg("-D")
            .arg(self.folder.join("data"))
            .args(["-w", "-m", "immediate", "stop"])
            .stdout(std::process::Stdio::null())
            .status()
            .expect("pg_ctl runs");
        assert!(stopped.success(), "PostgreSQL stops");
    }

    /// Runs statements on a database of it.
    pub fn sql(&self, address: &str, statements: &str) {
        let name = address.rsplit('/').next().expect("a name");
        self.psql(name, statements);
    }

    fn psql(&self, database: &str, statements: &str) {
        let done = command("psql")
            .args(["-qAt", "-U", "tests", "-d", database, "-h"])
            .arg(&self.folder)
            .args(["-c", statements])
            .status()
            .expect("psql runs");
        assert!(done.success(), "{statements}");
    }

    /// The address of a new, empty database.
    pub fn database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}"));
        let host = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://tests@{host}/{name}")
    }
}

/// A PostgreSQL program, wherever Debian has put it; as another user when we are root, whom
/// PostgreSQL refuses.
fn command(program: &str) -> Command {
    let path = programs()
        .map(|folder| folder.join(program))
        .filter(|path| path.exists())
        .unwrap_or_else(|| program.into());
    if am_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
        command.arg(path);
        command
    } else {
        Command::new(path)
    }
}

fn am_root() -> bool {
    std::env::var("USER").is_ok_and(|user| user == "root")
        || std::fs::read_to_string("/proc/self/status")
            .is_ok_and(|text| text.lines().any(|line| line.starts_with("Uid:\t0\t")))
}

/// The newest installed version's programs.
fn programs() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}

/// Statics are not dropped: a shell that waits for the end of this process stops the server.
fn stop_with_us(data: &Path) {
    let pid = std::process::id();
    let folder = data.parent().expect("it has one").display();
    let stop = programs().expect("installed").join("pg_ctl");
    let script = format!(
        "while kill -0 {pid} 2>/dev/null; do sleep 0.2; done; \
         {} {} -D {} -m immediate stop >/dev/null 2>&1; rm -rf {folder}",
        if am_root() {
            "setpriv --reuid=nobody --regid=nogroup --clear-groups"
        } else {
            ""
        },
        stop.display(),
        data.display(),
    );
    let _ = Command::new("sh")
        .args(["-c", &script])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
}
