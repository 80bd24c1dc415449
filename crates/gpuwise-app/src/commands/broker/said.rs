//! What a daemon says of itself, on standard error.

use crate::progress;
use gpuwise_server::Said;
use std::time::Duration;

pub(super) fn tell(store: &str, said: &Said) {
    progress::say(&match said {
        Said::Waits { address, holder } => format!(
            "Another broker writes this log ({holder}); waiting at http://{address} until it is silent."
        ),
        Said::NotCharged { count, first } => format!(
            "{}: what was granted is not what is charged ({count} so far): {first}",
            clock()
        ),
        Said::UsageRefused(why) => format!(
            "{}: what was collected of services is not taken, and is told again: {why}",
            clock()
        ),
        Said::Fleet(change) => {
            let detail = change.detail.as_deref();
            let detail = detail
                .map(|detail| format!(" ({detail})"))
                .unwrap_or_default();
            let (part, name, how) = (change.part.name(), &change.name, change.change.name());
            match &change.refused {
                None => format!("Fleet file: {part} {name} is {how}{detail}."),
                Some(why) => {
                    format!("warning: fleet file: {part} {name} is not {how}{detail}: {why}.")
                }
            }
        }
        Said::Token(path) => format!(
            "An administrator's token is in {}; `gpuwise` reads it there.",
            path.display()
        ),
        Said::TokenMoved(from, to) => format!(
            "warning: the administrator's token lay in {}, which nodes and the jobs of tenants may read; it is in {} \
             now. `gpuwise token create` makes another one, and `gpuwise token revoke admin` ends this one.",
            from.display(),
            to.display()
        ),
        Said::Listens {
            address,
            events,
            read,
            tls,
        } => {
            if !tls && !address.ip().is_loopback() {
                progress::say(
                    "warning: requests and tokens cross the network as they are; give --tls-cert and --tls-key, or \
                     put what speaks TLS before it.",
                );
            }
            let scheme = if *tls { "https" } else { "http" };
            let snapshot = match events - read {
                0 => String::new(),
                seq => format!(", {seq} of them in a snapshot"),
            };
            format!(
                "Broker at {scheme}://{address}, log in {store} ({events} events{snapshot}). Ctrl-C stops it."
            )
        }
        Said::Troubled { why, since } => format!(
            "{}: the log in {store} cannot be written{}: {why}. What would change something is refused (503); what \
             is there is shown, and what runs goes on. It is tried again every second: mend the database or its \
             disk, nothing else is to be done.",
            clock(),
            for_long(*since)
        ),
        Said::Mistimed { error } => format!(
            "{}: {error}. Nothing happens meanwhile: what would change something is refused (503), and what runs goes \
             on. Set the clock right, and the broker goes on; or, where it is right, start the broker anew with \
             --accept-clock.",
            clock()
        ),
        Said::Timed { after } => format!(
            "{}: this machine's clock is believed again, after {:.0} s.",
            clock(),
            after.as_secs_f64()
        ),
        Said::Shifted { by } => format!(
            "warning: the broker's time stays {:.0} s ahead of this machine's clock, as --accept-clock says.",
            by.0 as f64 / 1e9
        ),
        Said::Well { after } => format!(
            "{}: the log in {store} is written again, after {:.0} s; nothing that was answered is lost.",
            clock(),
            after.as_secs_f64()
        ),
    });
}

/// The time of day in UTC, for lines that somebody reads later.
fn clock() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

fn for_long(since: Duration) -> String {
    match since.as_secs() {
        0 => String::new(),
        seconds => format!(", for {seconds} s by now"),
    }
}
