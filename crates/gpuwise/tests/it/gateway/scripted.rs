//! An engine that does what the text of a request says: it answers, stays silent, or breaks off.

use super::{Daemon, Value, until};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

const EVENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"}}]}\n\n";

/// What engines of this test have seen, and whether they answer where they are asked whether they are well.
#[derive(Default)]
pub(super) struct Seen {
    requests: Mutex<u64>,
    came: Condvar,
    pub(super) hangs: AtomicBool,
}

impl Seen {
    /// Until so many completions were asked for.
    pub(super) fn asked(&self, count: u64) {
        let seen = self.requests.lock().expect("no panic");
        let within = Duration::from_secs(30);
        let (seen, late) = self
            .came
            .wait_timeout_while(seen, within, |seen| *seen < count)
            .expect("no panic");
        assert!(!late.timed_out(), "{} of {count} came", *seen);
    }
}

/// Leases a service whose port this test listens on in place of the command; which of the daemon's files says the port
/// goes by `name`.
pub(super) fn service(daemon: &Daemon, name: &str, flags: &[&str]) -> (String, Arc<Seen>) {
    let file = daemon.place.path(name);
    let script = format!(
        "echo $PORT > {0}.new; mv {0}.new {0}; exec sleep 1000",
        file.display()
    );
    let mut words = vec![
        "lease", "request", "--tenant", "vision", "--gpu", "1xH100", "--serve", "tiny",
    ];
    words.extend(flags);
    words.extend(["--format", "json", "--", "sh", "-c", &script]);
    let output = daemon.command(&words).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    until("its port is known", || file.exists());
    let port = std::fs::read_to_string(&file).expect("is read");
    let port: u16 = port.trim().parse().expect("a port");
    let seen = Arc::<Seen>::default();
    listen(port, &seen);
    (lease["id"].as_str().expect("an id").to_owned(), seen)
}

fn listen(port: u16, seen: &Arc<Seen>) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            thread::spawn(move || answered(stream, &seen));
        }
    });
}

/// Answers what comes on a connection; `None`: it is over.
fn answered(stream: TcpStream, seen: &Seen) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (line, body) = request(&mut reader)?;
        if line.starts_with("GET") {
            if seen.hangs.load(Ordering::SeqCst) {
                return gone(&mut reader);
            }
            write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()?;
            continue;
        }
        *seen.requests.lock().ok()? += 1;
        seen.came.notify_all();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        match body.as_str() {
            text if text.contains("be silent") => return gone(&mut reader),
            text if text.contains("break off") => return None,
            text if text.contains("stop amid") => {
                write!(writer, "{head}{:x}\r\n{EVENT}\r\n", EVENT.len()).ok()?;
                return gone(&mut reader);
            }
            text if text.contains("half an answer") => {
                write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{{").ok()?;
                return None;
            }
            _ => {
                let answer =
                    "{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}";
                let length = answer.len();
                write!(
                    writer,
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}"
                )
                .ok()?;
            }
        }
    }
}

/// The first line of a request, and its body.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, String::from_utf8(body).ok()?))
}

/// Says nothing until the other side is gone.
fn gone(reader: &mut BufReader<TcpStream>) -> Option<()> {
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).ok()?;
    None
}
