//! `gpuwise lease logs`: what the command of a lease wrote.

use super::One;
use crate::{
    app::{Context, Exit, Format},
    commands::broker::client::shown,
    progress,
};
use clap::Args;
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::LeaseLogAnswer;
use std::{thread, time::Duration};

/// Between two looks at what is written meanwhile.
const PERIOD: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub struct Log {
    #[command(flatten)]
    one: One,
    /// Which worker, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    worker: u32,
    /// Only the last so many lines
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
    /// Go on until the lease is over
    #[arg(long)]
    follow: bool,
}

pub(super) fn run(context: &Context, flags: &Log) -> anyhow::Result<Exit> {
    let (client, path) = flags.one.asked(context)?;
    let path = format!("{path}/log?worker={}", flags.worker);
    let tail = flags.tail.map(|lines| format!("&tail={lines}"));
    let mut piece: LeaseLogAnswer = client.get(&format!("{path}{}", tail.unwrap_or_default()))?;
    let mut expected = None;
    loop {
        if piece.from > expected.unwrap_or(0) && piece.from == piece.dropped {
            progress::say(&format!(
                "▲ {} bytes before this are not kept any more: a log is bounded (`gpuwise serve --log-size`).",
                piece.from - expected.unwrap_or(0)
            ));
        }
        expected = Some(piece.next);
        match context.form.format {
            Format::Table => context.data(&piece.text)?,
            _ if piece.text.is_empty() && flags.follow => {}
            _ => {
                shown(context, &piece, || table(&piece))?;
            }
        }
        let all = piece.text.is_empty() || piece.next >= piece.size;
        if all && (piece.over || !flags.follow) {
            return Ok(Exit::Yes);
        }
        if all {
            thread::sleep(PERIOD);
        }
        piece = client.get(&format!("{path}&after={}", piece.next))?;
    }
}

fn table(piece: &LeaseLogAnswer) -> Table {
    let mut table = Table::new(vec![
        Column::left("lease", "Lease"),
        Column::right("worker", "Worker"),
        Column::left("text", "Text"),
    ]);
    for line in piece.text.lines() {
        table.push(vec![
            Cell::text(piece.id.clone()),
            Cell::count(u64::from(piece.worker)),
            Cell::text(line.to_owned()),
        ]);
    }
    table
}
