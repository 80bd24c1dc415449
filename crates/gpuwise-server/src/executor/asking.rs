//! Whether a service is ready: every worker answers 200 where it says that it does.

use gpuwise_broker::Readiness;
use gpuwise_wire::broker::ServiceAsk;
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    thread,
    time::{Duration, Instant},
};

/// Between two questions.
const STEP: Duration = Duration::from_millis(100);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// What waiting came to.
pub(in crate::executor) enum Waited {
    Ready,
    /// Somebody of it has ended: whoever watches it says so.
    Gone,
    /// It was not ready in time: why.
    Late(String),
}

/// How a service is asked whether it is ready.
#[derive(Debug, Clone)]
pub(in crate::executor) struct Asking {
    path: String,
    within: Duration,
}

impl Asking {
    pub(in crate::executor) fn of(service: &ServiceAsk) -> Self {
        let Readiness { path, within } = Readiness::of(service);
        Self {
            path,
            within: Duration::from_nanos(within.0),
        }
    }

    /// Waits until all addresses, of a host and a port, answer.
    pub(in crate::executor) fn wait(
        &self,
        addresses: &[String],
        gone: impl Fn() -> bool,
    ) -> Waited {
        let (path, end) = (&self.path, Instant::now() + self.within);
        for address in addresses {
            loop {
                if gone() {
                    return Waited::Gone;
                }
                let last = match asked(address, path) {
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

/// The status of what is answered there.
fn asked(address: &str, path: &str) -> std::io::Result<u16> {
    let mut found = address.to_socket_addrs()?;
    let first = found.next();
    let first = first.ok_or_else(|| std::io::Error::other("its name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&first, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.ok_or_else(|| std::io::Error::other("what answers does not speak HTTP"))
}
