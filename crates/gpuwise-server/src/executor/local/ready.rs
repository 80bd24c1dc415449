//! When a service is ready: every worker answers 200 where it says that it does.

use super::{
    kept::Kept,
    process::{Group, Watch, end_all},
};
use gpuwise_broker::Observation;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::ServiceAsk;
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long it may take, where nobody says.
const USUAL: Duration = Duration::from_mins(10);

/// Between two questions.
const STEP: Duration = Duration::from_millis(100);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// What waiting came to.
pub(super) enum Waited {
    Ready,
    /// Somebody of it has ended: whoever watches it says so.
    Gone,
    /// It was not ready in time: why.
    Late(String),
}

/// How a service is asked whether it is ready.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    path: String,
    within: Duration,
}

impl Asking {
    pub(super) fn of(service: &ServiceAsk) -> Self {
        let within = service
            .ready_within
            .as_ref()
            .and_then(|text| text.parse::<Nanoseconds>().ok());
        Self {
            path: service.health.clone().unwrap_or_else(|| "/health".into()),
            within: within.map_or(USUAL, |span| Duration::from_nanos(span.0)),
        }
    }

    /// Waits until all ports answer.
    pub(super) fn wait(&self, ports: &[u16], gone: impl Fn() -> bool) -> Waited {
        let (path, end) = (&self.path, Instant::now() + self.within);
        for port in ports {
            loop {
                if gone() {
                    return Waited::Gone;
                }
                let last = match asked(*port, path) {
                    Ok(200) => break,
                    Ok(status) => format!("GET {path} answered {status}"),
                    Err(error) => format!("GET {path}: {error}"),
                };
                if Instant::now() >= end {
                    let seconds = self.within.as_secs_f64();
                    return Waited::Late(format!("it was not ready within {seconds} s: {last}"));
                }
                thread::sleep(STEP);
            }
        }
        Waited::Ready
    }
}

/// Waits until a service is ready, and says so: to the gateway where it answers, and to the broker, unless that
/// knows already, that it was started. One that does not get ready in time is ended and has failed.
pub(super) fn tell(
    watch: &Watch,
    service: &ServiceAsk,
    kept: &Kept,
    groups: Vec<Arc<Group>>,
    known: bool,
) {
    let (watch, kept, asking) = (watch.clone(), kept.clone(), Asking::of(service));
    thread::spawn(move || {
        let ports: Vec<u16> = kept.processes.iter().filter_map(|one| one.port).collect();
        let gone = || groups.iter().any(|group| group.gone.load(Ordering::SeqCst));
        match asking.wait(&ports, gone) {
            Waited::Ready => {}
            Waited::Gone => return,
            Waited::Late(reason) => {
                for group in &groups {
                    group.is_told();
                }
                end_all(&groups, Duration::from_secs(10));
                watch.place.forget(watch.job);
                return watch.tell(Observation::Failed {
                    order: watch.order(),
                    reason,
                });
            }
        }
        watch.starting.store(false, Ordering::SeqCst);
        watch.endpoints.set(watch.job.0, addresses(&ports));
        if !known {
            watch.tell(Observation::Done(watch.order()));
        }
    });
}

/// Where ports of this machine answer.
pub(super) fn addresses(ports: &[u16]) -> Vec<String> {
    let address = |port: &u16| format!("127.0.0.1:{port}");
    ports.iter().map(address).collect()
}

/// The status of what is answered there.
fn asked(port: u16, path: &str) -> std::io::Result<u16> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    )?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.ok_or_else(|| std::io::Error::other("what answers does not speak HTTP"))
}
