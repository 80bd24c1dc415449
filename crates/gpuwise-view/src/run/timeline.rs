//! One request's own story.

use crate::{
    figures::{count, seconds},
    plan::labelled,
    style::Style,
    table::{Cell, Column, Table},
};
use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    run::{Moment, TimelineEvent},
};
use gpuwise_units::Nanoseconds;
use std::fmt::Write as _;

/// What happened to a request and when: its moments, where its time went, and a bar of it. Moments
/// that the record knows need not be among the events.
pub fn timeline(record: &RequestRecord, events: &[TimelineEvent], style: Style) -> String {
    let events = all(record, events);
    let mut out = style.wrap(&headline(record), 2);
    out.push('\n');
    let mut table = Table::new(vec![
        Column::right("at", "at"),
        Column::right("after", "after the one before"),
        Column::left("what", "what").wrap(20),
    ]);
    let mut before: Option<Nanoseconds> = None;
    for event in &events {
        let after = before.map(|before| elapsed(before, event.at));
        table.push(vec![
            Cell::text(seconds(elapsed(record.due, event.at))),
            after.map_or_else(|| Cell::text(""), |after| Cell::text(seconds(after))),
            Cell::text(words(record, event.moment)),
        ]);
        before = Some(event.at);
    }
    table.footnote("Counted from when it was due.");
    out += &table.to_text(style);
    out.push('\n');
    out += &labelled(style, "Latency", &latency(record));
    if let Some(bar) = bar(record, style) {
        out += &labelled(style, "Time", &bar);
    }
    out
}

/// The events with what the record knows, in order.
fn all(record: &RequestRecord, events: &[TimelineEvent]) -> Vec<TimelineEvent> {
    let known = [
        (Some(record.due), Moment::Due),
        (Some(record.sent), Moment::Sent),
        (record.scheduled, Moment::Scheduled),
        (record.first_token, Moment::FirstToken),
        (Some(record.end), Moment::End),
    ];
    let mut all = events.to_vec();
    for (at, moment) in known {
        if let Some(at) = at
            && !events.iter().any(|event| event.moment == moment)
        {
            all.push(TimelineEvent { at, moment });
        }
    }
    all.sort_by_key(|event| (event.at, rank(event.moment)));
    all
}

/// The order of what happens at the same time.
fn rank(moment: Moment) -> u8 {
    match moment {
        Moment::Due => 0,
        Moment::Sent => 1,
        Moment::Retried => 2,
        Moment::Queued => 3,
        Moment::Scheduled => 4,
        Moment::Resumed => 5,
        Moment::FirstToken => 6,
        Moment::Preempted => 7,
        Moment::End => 8,
    }
}

fn headline(record: &RequestRecord) -> String {
    let mut out = format!(
        "Request {}: {} tokens in",
        record.number,
        count(u64::from(record.input))
    );
    if let Some(cached) = record.cached {
        let _ = write!(out, " ({} cached)", count(u64::from(cached)));
    }
    let _ = write!(
        out,
        ", {} out, {}",
        count(u64::from(record.output)),
        record.outcome.name()
    );
    if let Some(replica) = record.replica {
        let _ = write!(out, " on replica {replica}");
    }
    if let Some(session) = record.session {
        let _ = write!(out, ", session {session}");
    }
    if record.tenant > 0 {
        let _ = write!(out, ", tenant {}", record.tenant);
    }
    for (times, what) in [
        (record.preemptions, "preempted"),
        (record.retries, "sent again"),
    ] {
        match times {
            0 => {}
            1 => {
                let _ = write!(out, ", {what} once");
            }
            many => {
                let _ = write!(out, ", {what} {many} times");
            }
        }
    }
    out + "."
}

fn words(record: &RequestRecord, moment: Moment) -> String {
    match moment {
        Moment::End => record.outcome.name().into(),
        other => other.name().into(),
    }
}

fn latency(record: &RequestRecord) -> String {
    let mut parts = Vec::new();
    if let Some(ttft) = record.ttft() {
        let mut text = format!("TTFT {}", seconds(ttft.seconds().get()));
        if let (Some(queued), Some(scheduled)) = (record.queued(), record.scheduled) {
            let first = record.first_token.unwrap_or(scheduled);
            let _ = write!(
                text,
                " (client {}, queue {}, prefill {})",
                seconds(elapsed(record.due, record.sent)),
                seconds(queued.seconds().get()),
                seconds(elapsed(scheduled, first))
            );
        }
        parts.push(text);
    }
    if let Some(tpot) = record.tpot() {
        parts.push(format!("TPOT {}", seconds(tpot / 1e9)));
    }
    parts.push(format!(
        "{} {}",
        if record.outcome == Outcome::Completed {
            "end to end"
        } else {
            "aborted after"
        },
        seconds(record.end_to_end().seconds().get())
    ));
    parts.join(", ")
}

/// Where its time went, as a bar with its parts named; `None` where it took none.
fn bar(record: &RequestRecord, style: Style) -> Option<String> {
    let whole = elapsed(record.due, record.end);
    let scheduled = record.scheduled.unwrap_or(record.end);
    let first = record.first_token.unwrap_or(record.end);
    let width = style.columns().saturating_sub(9 + 40).min(50);
    if whole <= 0.0 || width < 10 {
        return None;
    }
    let place = |at: Nanoseconds| (elapsed(record.due, at) / whole * width as f64).round() as usize;
    let (queue, prefill) = (place(scheduled), place(first));
    let mut bar = String::new();
    for at in 0..width {
        bar.push(if at < queue {
            '░'
        } else if at < prefill {
            '▒'
        } else {
            '█'
        });
    }
    Some(format!("{bar} ░ waiting ▒ prefill █ decode"))
}

fn elapsed(from: Nanoseconds, to: Nanoseconds) -> f64 {
    Nanoseconds(to.0.saturating_sub(from.0)).seconds().get()
}
