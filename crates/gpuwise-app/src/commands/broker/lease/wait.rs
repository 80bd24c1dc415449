//! `gpuwise lease request --wait`: a lease as a command of a batch system.

use super::show;
use crate::{
    app::{Context, Exit, Format},
    commands::broker::client::Client,
    error::Problem,
    progress,
};
use gpuwise_server::told_to_end;
use gpuwise_wire::broker::{LeaseAnswer, LeaseLogAnswer};
use std::{sync::atomic::Ordering, thread, time::Duration};

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// Looks that may go wrong in a row: a broker that is started again, or replaced, is waited for.
const PATIENCE: u32 = 1200;
/// What shells say of a command that was told to end: 128 and SIGTERM.
const TOLD: u8 = 143;

/// Until it is over, or this process is told to end.
pub(super) fn until_over(
    context: &Context,
    client: &Client,
    lease: &LeaseAnswer,
) -> anyhow::Result<Exit> {
    let told = told_to_end()
        .map_err(|source| Problem::new("signals cannot be listened to").because(source))?;
    let path = format!("/v1/leases/{}", lease.id);
    progress::say(&format!(
        "{} is asked for; `gpuwise lease explain {0}` says where it stands.",
        lease.id
    ));
    let (mut written, mut failed, mut given_back) = (0, 0, false);
    loop {
        if told.load(Ordering::SeqCst) && !given_back {
            client.delete(&path)?;
            given_back = true;
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
            Ok(_) => failed = 0,
            Err(error) => {
                failed += 1;
                if failed == 1 {
                    progress::say(&format!(
                        "The broker does not answer ({error}); it is asked again."
                    ));
                }
                if failed > PATIENCE {
                    return Err(error);
                }
            }
        }
        thread::sleep(PERIOD);
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
