//! Starting and stopping.

mod first;
mod folder;
mod settings;
mod signals;
mod start;

pub(crate) use folder::log_id;
pub use settings::{ExecutorKind, Said, ServeError, Settings};

use crate::{
    desk::Desk,
    http,
    listening::Connections,
    message::Incoming,
    standing::{Gate, Stage, Standing},
    writer::{Stopped, Writer},
};
use signals::signals;
use start::start;
use std::{any::Any, io, net::TcpListener, sync::Arc, thread};
use tokio::sync::watch;

/// Connections that wait to be taken on at most; the system may allow fewer (net.core.somaxconn).
const QUEUE: i32 = 4096;

/// Runs a daemon until it is told to end (SIGINT, SIGTERM), or something ends it. What it says of itself goes to `say`.
///
/// # Errors
/// When it cannot start, or another daemon took over.
pub fn serve(
    settings: Settings,
    desk: Arc<dyn Desk>,
    say: &Arc<dyn Fn(&Said) + Send + Sync>,
) -> Result<(), ServeError> {
    let (close, closing) = watch::channel(false);
    let close = Arc::new(close);
    signals(Arc::clone(&close)).map_err(thread_of("listening for signals"))?;
    let address = settings.listen;
    let listen = |source| ServeError::Listen { address, source };
    // Before anything else: an address that is taken is said at once.
    let listener = TcpListener::bind(address).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    // Who connects while there are many waits for its turn; one that the queue has no room for would try again
    // after a second, and then after three.
    let _ = rustix::net::listen(&listener, QUEUE);
    let address = listener.local_addr().map_err(listen)?;
    let picker = settings.picker.map(|address| {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let picker = picker.transpose().map_err(|source| ServeError::Listen {
        address: settings.picker.unwrap_or(address),
        source,
    })?;
    let standing = Standing::new(Arc::clone(say));
    let gate = Arc::new(Gate::new(standing.clone()));
    if let Some(files) = &settings.tls {
        // What is wrong with it is said at once, too.
        files.config()?;
    }
    let (behind, told) = (Arc::clone(&gate), closing.clone());
    let tls = settings.tls.clone();
    let connections = Connections::new(settings.connections);
    let all = connections.clone();
    let answering = thread::Builder::new()
        .name("http".into())
        .spawn(move || http::run(listener, picker, tls, all, behind, told))
        .map_err(thread_of("the HTTP server"))?;
    let has_tls = settings.tls.is_some();
    let started = start(
        settings,
        desk,
        (address, connections),
        (&gate, &closing),
        &**say,
    );
    let writing = match started {
        Ok(Some(started)) => {
            say(&Said::Listens {
                address,
                events: started.writer.last,
                read: started.writer.last - started.from,
                tls: has_tls,
            });
            let mut collector = started.collector;
            let collecting = thread::Builder::new()
                .name("telemetry".into())
                .spawn(closing_all(&close, move || collector.run()))
                .map_err(thread_of("collecting telemetry"))?;
            let writing = write(started.writer, &close)?;
            Some((started.inbox, writing, collecting))
        }
        Ok(None) => None,
        Err(error) => {
            close.send_replace(true);
            // Why it could not start is what matters.
            let _ = answering.join();
            return Err(error);
        }
    };
    // Requests that are open are answered, so that the writer ends after HTTP.
    let answered = answering.join();
    standing.set(Stage::Stops);
    if let Some((inbox, writing, collecting)) = writing {
        // It asks the writer, which ends after it.
        let collected = collecting.join();
        // The writer may have ended by itself.
        let _ = inbox.send(Incoming::Stop);
        writing.join().map_err(panicked("the writer"))??;
        collected.map_err(panicked("what collects telemetry"))?;
    }
    answered.map_err(panicked("the HTTP server"))?
}

fn thread_of(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |source| ServeError::Thread { what, source }
}

/// A thread that did not end by itself.
fn panicked(what: &'static str) -> impl Fn(Box<dyn Any + Send>) -> ServeError {
    move |payload| {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let why = text.unwrap_or_else(|| "it does not say why".to_owned());
        ServeError::Panicked { what, why }
    }
}

/// Closes the daemon when it is dropped, also where a thread unwinds.
struct ClosesAll(Arc<watch::Sender<bool>>);

impl Drop for ClosesAll {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// What a thread does without which the daemon is of no use: however it ends, all ends.
fn closing_all<T, F: FnOnce() -> T>(
    close: &Arc<watch::Sender<bool>>,
    run: F,
) -> impl FnOnce() -> T + use<T, F> {
    let closes = ClosesAll(Arc::clone(close));
    move || {
        let _closes = closes;
        run()
    }
}

/// Writes in a thread of its own; when that ends, all ends. The right to write is given back.
fn write(
    mut writer: Writer,
    close: &Arc<watch::Sender<bool>>,
) -> Result<thread::JoinHandle<Result<(), Stopped>>, ServeError> {
    let run = move || {
        let result = writer.run();
        if result.is_ok() {
            // Where it cannot be given back, others wait for our silence.
            let _ = writer.store.give_back(writer.epoch);
        }
        result
    };
    let run = closing_all(close, run);
    let writing = thread::Builder::new().name("writer".into()).spawn(run);
    writing.map_err(thread_of("the writer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that goes on alone answers each change with 503, and says that it lives.
    #[test]
    fn a_thread_that_panics_ends_the_daemon_and_says_why() {
        let (close, closing) = watch::channel(false);
        let close = Arc::new(close);
        let fails = || -> Result<(), Stopped> { panic!("a sum of {} and more", 1) };
        let thread = thread::spawn(closing_all(&close, fails));
        let error = thread.join().map_err(panicked("the writer"));
        let said = error.expect_err("it panicked").to_string();
        assert!(*closing.borrow(), "the daemon goes on without it");
        assert!(said.contains("a sum of 1 and more"), "{said}");
    }
}
