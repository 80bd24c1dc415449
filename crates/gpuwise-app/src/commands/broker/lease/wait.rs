//! `gpuwise lease request --wait`: a lease as a command of a batch system.

use super::show;
use crate::{
    app::{Context, Exit, Format},
    commands::broker::client::Client,
    error::Problem,
    progress,
};
use gpuwise_server::told_to_end;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{LeaseAnswer, LeaseLogAnswer};
use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// A broker that is gone is spoken of so often.
const SAID: Duration = Duration::from_mins(1);
/// What shells say of a command that was told to end: 128 and SIGTERM.
const TOLD: u8 = 143;

/// Until it is over, or this process is told to end. A broker that does not answer is started again, or replaced: it is
/// asked for so long, and no longer.
pub(super) fn until_over(
    context: &Context,
    client: &Client,
    lease: &LeaseAnswer,
    patience: Nanoseconds,
) -> anyhow::Result<Exit> {
    let told = told_to_end()
        .map_err(|source| Problem::new("signals cannot be listened to").because(source))?;
    let path = format!("/v1/leases/{}", lease.id);
    progress::say(&format!(
        "{} is asked for; `gpuwise lease explain {0}` says where it stands.",
        lease.id
    ));
    let mut gone = Gone::new(client.url(), Duration::from_nanos(patience.0));
    let (mut written, mut given_back) = (0, false);
    loop {
        if told.load(Ordering::SeqCst) && !given_back {
            // Where it does not answer now it is told again until its time is over.
            match client.delete(&path) {
                Ok(_) => given_back = true,
                Err(error) => {
                    gone.failed(error)?;
                    thread::sleep(PERIOD);
                    continue;
                }
            }
            progress::say(&format!(
                "{} is given back: this command was told to end.",
                lease.id
            ));
        }
        let now = client.get::<LeaseAnswer>(&path);
        written = log(context, client, &path, written)?;
        match now {
            Ok(now) if matches!(now.state.as_str(), "ended" | "failed") => {
                log(context, client, &path, written)?;
                return over(context, &now, given_back);
            }
            Ok(_) => gone.answers(),
            Err(error) => gone.failed(error)?,
        }
        thread::sleep(PERIOD);
    }
}

/// A broker that does not answer: since when, and when that was said last.
struct Gone {
    broker: String,
    patience: Duration,
    since: Option<Instant>,
    said: Option<Instant>,
}

impl Gone {
    fn new(broker: &str, patience: Duration) -> Self {
        Self {
            broker: broker.to_owned(),
            patience,
            since: None,
            said: None,
        }
    }

    fn answers(&mut self) {
        if let Some(since) = self.since.take() {
            self.said = None;
            progress::say(&format!(
                "{} answers again, after {} s.",
                self.broker,
                since.elapsed().as_secs()
            ));
        }
    }

    /// # Errors
    /// When that lasts for longer than is waited for.
    fn failed(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = self.patience.saturating_sub(since.elapsed());
        if left.is_zero() {
            let what = format!(
                "{} has not answered for {} s",
                self.broker,
                self.patience.as_secs()
            );
            let problem = Problem::new(what).because(error);
            return Err(problem
                .hint("the lease goes on; with --key the same request waits for it again")
                .hint("--broker-timeout says how long a broker is asked again")
                .into());
        }
        if self.said.is_none_or(|at| at.elapsed() >= SAID) {
            self.said = Some(Instant::now());
            progress::say(&format!(
                "{} does not answer ({error}); it is asked again for {} s at most.",
                self.broker,
                left.as_secs()
            ));
        }
        Ok(())
    }
}

/// Shows what was written since; a lease on simulated GPUs writes nothing.
fn log(context: &Context, client: &Client, path: &str, mut from: u64) -> anyhow::Result<u64> {
    loop {
        let piece = client.get::<LeaseLogAnswer>(&format!("{path}/log?worker=0&after={from}"));
        let Ok(piece) = piece else {
            return Ok(from);
        };
        if context.form.format == Format::Table {
            context.data(&piece.text)?;
        }
        from = piece.next;
        if piece.text.is_empty() || piece.next >= piece.size {
            return Ok(from);
        }
    }
}

fn over(context: &Context, lease: &LeaseAnswer, given_back: bool) -> anyhow::Result<Exit> {
    if context.form.format == Format::Table {
        let reason = lease.reason.as_deref().unwrap_or_default();
        let cost = lease
            .cost
            .as_deref()
            .map_or_else(String::new, |cost| format!("; {cost}"));
        progress::say(&format!("{} {}: {reason}{cost}", lease.id, lease.state));
    } else {
        show(context, lease)?;
    }
    let code = lease.exit_code.and_then(|code| u8::try_from(code).ok());
    Ok(match (code, lease.state.as_str()) {
        _ if given_back => Exit::Code(TOLD),
        (Some(0) | None, "ended") => Exit::Yes,
        (Some(code), _) if code > 0 => Exit::Code(code),
        _ => Exit::No,
    })
}
