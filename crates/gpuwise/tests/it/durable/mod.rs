//! What a broker answered stays, whatever happens to it, its database or its machine.

mod client;
mod clock;
mod faults;
mod kills;
mod log;
mod takeover;

use crate::support::Place;
use client::Client;
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

const FLEET: &str = r#"
name = "test"
[[gpu_kind]]
name = "H100"
price = "2.50 USD"
[[node]]
name = "n{1..8}"
gpus = "8xH100"
cpu = 64
memory = "1TiB"
"#;

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(40);

/// Looks until something is so.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it never happened: {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// A folder with a fleet, in which daemons run.
struct Site {
    place: Place,
    store: String,
}

impl Site {
    fn new(store: &str) -> Self {
        let place = Place::new();
        place.write("fleet.toml", FLEET);
        Self {
            place,
            store: store.to_owned(),
        }
    }

    fn sqlite() -> Self {
        Self::new("sqlite://log.db")
    }

    /// Starts a daemon whose words go to a file of this name.
    fn start(&self, name: &str) -> Daemon {
        let said = self.place.path(name);
        let file = fs::File::create(&said).expect("is made");
        let child = self
            .place
            .command(&["serve", "--listen", "127.0.0.1:0", "--fleet", "fleet.toml"])
            .args(["--store", &self.store, "--speed", "600"])
            .stderr(Stdio::from(file))
            .spawn()
            .expect("starts");
        Daemon { child, said }
    }

    /// One that writes, and a client of it.
    fn serve(&self, name: &str) -> (Daemon, Client) {
        let mut daemon = self.start(name);
        let client = daemon.leads(self);
        (daemon, client)
    }

    /// The administrator's token, which the first daemon wrote.
    fn token(&self) -> String {
        let entries = fs::read_dir(self.place.path(".local/state/gpuwise")).expect("is there");
        let mut files = entries.map(|entry| entry.expect("reads").path());
        let file = files.find(|path| path.extension().is_some_and(|end| end == "token"));
        let text = fs::read_to_string(file.expect("a token")).expect("reads");
        text.trim().to_owned()
    }

    /// `gpuwise store` on this log: its exit code, and what it says.
    fn store(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = self.place.command(&["store"]);
        command.args(arguments).args(["--store", &self.store]);
        let ran = command.output().expect("runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = ran.status.code().expect("ends");
        (code, text(&ran.stdout), text(&ran.stderr))
    }

    /// A log that is whole, as it was found to be.
    fn check(&self) -> Value {
        let (code, out, err) = self.store(&["check", "--format", "json"]);
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str(&out).expect("JSON")
    }
}

struct Daemon {
    child: Child,
    said: PathBuf,
}

impl Daemon {
    fn said(&self) -> String {
        fs::read_to_string(&self.said).expect("reads")
    }

    /// The address after a word that it says.
    fn address(&mut self, word: &str) -> String {
        until(word, || {
            let said = self.said();
            let ended = self.child.try_wait().expect("is asked");
            assert!(ended.is_none(), "it ended: {said}");
            let (_, rest) = said.split_once(word)?;
            let end = rest.find([',', ' '])?;
            Some(rest[..end].to_owned())
        })
    }

    /// Waits until it writes.
    fn leads(&mut self, site: &Site) -> Client {
        let address = self.address("Broker at http://");
        Client::new(&address, &site.token())
    }

    /// Waits until it waits for another.
    fn waits(&mut self, site: &Site) -> Client {
        let address = self.address("waiting at http://");
        Client::new(&address, &site.token())
    }

    fn signal(&self, name: &str) {
        let number = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &number]).status();
        assert!(sent.expect("runs").success());
    }

    fn end(&mut self) -> ExitStatus {
        until("it ends", || self.child.try_wait().expect("is asked"))
    }

    fn kill(&mut self) {
        self.child.kill().expect("is killed");
        self.child.wait().expect("ends");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
