//! A trace of a fleet on fixed hosts and on pools of the same GPUs.

use super::{Context, Exit};
use crate::schemas::AnswerName;
use crate::{
    catalogue,
    error::Problem,
    fabric::Joined,
    progress,
    settings::{self, ChoiceName},
};
use anyhow::Context as _;
use gpuwise_domain::fleet::FleetTask;
use gpuwise_read::{
    fleet::{read_openb_nodes, read_openb_tasks},
    traffic::decompress,
};
use gpuwise_size::composed::replay::{
    Choice, Demand, Outcome, Pooling, carried_over, every_nth, fixed, pooled, pools_for,
};
use gpuwise_view::{
    figures,
    table::{Cell, Column, Table},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Bytes of a list at most, decompressed.
const LARGEST: u64 = 1 << 30;
/// Tasks that are replayed at most: what is beyond takes minutes and says nothing new.
const MOST_TASKS: u64 = 2_000_000;
/// What a fabric has where no file says it.
const USUAL: Pooling = Pooling {
    gpus_per_host: 8,
    hosts_per_fabric: 0,
    attach: 10,
    detach: 0,
    thousandths: 1000,
};

pub(super) fn run(context: &Context, flags: &settings::Composed) -> anyhow::Result<Exit> {
    let replay = &flags.replay;
    let nodes_file = file(
        replay.nodes.as_deref(),
        "openb_node_list_gpu_node.csv",
        "--nodes",
    )?;
    let tasks_file = file(
        replay.trace.as_deref(),
        "openb_pod_list_default.csv.gz",
        "--trace",
    )?;
    let nodes = read_openb_nodes(&nodes_file.display().to_string(), &text(&nodes_file)?)?;
    let tasks = read_openb_tasks(&tasks_file.display().to_string(), &text(&tasks_file)?)?;
    if nodes.iter().all(|node| node.gpus == 0) {
        return Err(Problem::new(format!("{}: no node has a GPU", nodes_file.display())).into());
    }
    let nodes = every_nth(&nodes, replay.hosts as usize);
    let gpus: u64 = nodes.iter().map(|node| u64::from(node.gpus)).sum();
    let (demand, copies) = demand(flags, &tasks, gpus)?;
    let pooling = pooling(context, flags)?;
    let choice = match replay.choice {
        ChoiceName::Best => Choice::BestFit,
        ChoiceName::First => Choice::FirstFit,
    };
    progress::doing("replaying");
    let own = fixed(&nodes, &demand, choice);
    let together = pooled(&nodes, &demand, choice, pooling);
    let fewer = (!replay.stay)
        .then(|| pools_for(&nodes, &demand, choice, pooling, &own))
        .flatten();
    progress::doing("");
    let mut table = table(
        &own,
        &together,
        fewer.as_ref().map(|(_, outcome)| outcome),
        replay.stay,
    );
    footnotes(&mut table, &demand, &own, pooling, nodes.len(), copies);
    if let Some((thousandths, fewer)) = &fewer {
        table.footnote(format!(
            "pools of {} GPUs ({} of those of the fixed hosts) let GPU tasks wait no longer in all",
            figures::number(fewer.gpus()),
            figures::percent(f64::from(*thousandths) / 1000.0)
        ));
    } else if !replay.stay {
        table.footnote("even with as many GPUs the pools do not serve as the fixed hosts do");
    }
    context
        .answering(AnswerName::ComposedReplay)
        .table(&table)?;
    Ok(Exit::Yes)
}

fn file(given: Option<&Path>, name: &str, flag: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_path_buf());
    }
    let data = env::var_os("GPUWISE_DATA").map(PathBuf::from);
    data.map(|data| data.join("fleet/openb").join(name))
        .filter(|path| path.is_file())
        .ok_or_else(|| {
            Problem::new(format!("{flag} is missing, and $GPUWISE_DATA has no fleet/openb/{name}"))
                .hint("the lists are published with Alibaba's cluster trace of GPUs, 2023; give them by --nodes and --trace")
                .into()
        })
}

fn text(path: &Path) -> anyhow::Result<String> {
    let wrong = |error: anyhow::Error| {
        Problem::new(format!("cannot read {}", path.display())).because(error)
    };
    let bytes = fs::read(path).map_err(|error| wrong(error.into()))?;
    let plain = decompress(&bytes, LARGEST).map_err(|error| wrong(error.into()))?;
    Ok(String::from_utf8(plain.into_owned()).map_err(|error| wrong(error.into()))?)
}

/// The demand; beside it how often the trace is laid over itself.
fn demand(
    flags: &settings::Composed,
    tasks: &[FleetTask],
    gpus: u64,
) -> anyhow::Result<(Demand, Option<u64>)> {
    if flags.replay.stay {
        return Ok((Demand::accumulating(tasks), None));
    }
    let share: f64 = gpuwise_read::workload::share(&flags.replay.load).context("--load")?;
    let once = carried_over(tasks, 1);
    let asked = once.gpu_milli_seconds() as f64 / 1000.0 / (once.until.max(1) as f64);
    if asked <= 0.0 {
        return Err(Problem::new("no task of the trace has both times and GPUs")
            .hint("--stay replays lists without times: every task stays for good")
            .into());
    }
    let copies = (share * gpus as f64 / asked).round().max(1.0) as u64;
    let all = copies.saturating_mul(once.tasks.len() as u64);
    if all > MOST_TASKS {
        return Err(Problem::new(format!(
            "{copies} copies of {} tasks are more than {MOST_TASKS}",
            once.tasks.len()
        ))
        .hint("a smaller --hosts or --load takes fewer")
        .into());
    }
    Ok((carried_over(tasks, copies), Some(copies)))
}

fn pooling(context: &Context, flags: &settings::Composed) -> anyhow::Result<Pooling> {
    let replay = &flags.replay;
    let mut pooling = USUAL;
    if let Some(path) = &flags.fabric {
        let loaded = catalogue::load(&context.app.overrides)?;
        let fabric = Joined::read(path, &loaded)?.fabric;
        pooling.gpus_per_host = fabric.largest_host();
        pooling.hosts_per_fabric = fabric.host_count() as usize;
        pooling.attach = fabric.attach.ceil() as u64;
        pooling.detach = fabric.detach.ceil() as u64;
    }
    pooling.gpus_per_host = replay.gpus_per_host.unwrap_or(pooling.gpus_per_host);
    pooling.attach = replay.attach.unwrap_or(pooling.attach);
    if let Some(hosts) = replay.hosts_per_fabric {
        pooling.hosts_per_fabric = hosts as usize;
    }
    Ok(pooling)
}

type Figure = fn(&Outcome) -> Cell;

fn hours(milli_seconds: u128) -> Cell {
    let hours = Outcome::hours(milli_seconds);
    Cell::new(figures::count(hours.round() as u64), hours)
}

fn share(part: u128, whole: u128) -> Cell {
    if whole == 0 {
        return Cell::missing();
    }
    let share = part as f64 / whole as f64;
    Cell::new(figures::percent(share), share)
}

fn gpus(milli: u64) -> Cell {
    let gpus = milli as f64 / 1000.0;
    Cell::new(figures::number(gpus), gpus)
}

/// What is told of replays through time.
const TIMED: [(&str, Figure); 12] = [
    ("GPUs", |o| Cell::new(figures::number(o.gpus()), o.gpus())),
    ("tasks placed", |o| Cell::count(o.placed)),
    ("still waiting at the end", |o| Cell::count(o.pending)),
    ("GPU tasks that waited for room", |o| Cell::count(o.waited)),
    ("mean wait of all GPU tasks", |o| {
        let mean = o.waiting as f64 / (o.placed_gpu.max(1) as f64);
        Cell::new(figures::seconds(mean), mean)
    }),
    ("longest wait", |o| {
        Cell::new(figures::seconds(o.longest_wait as f64), o.longest_wait)
    }),
    ("GPU-hours there were", |o| hours(o.capacity)),
    ("GPU-hours held by tasks", |o| hours(o.held)),
    ("of it while attaching", |o| hours(o.attaching)),
    ("stranded GPU-hours", |o| hours(o.stranded)),
    ("share stranded", |o| share(o.stranded, o.capacity)),
    ("GPUs attached, times", |o| Cell::count(o.attached)),
];

/// What is told where tasks stay.
const STAYING: [(&str, Figure); 5] = [
    ("GPUs", |o| Cell::new(figures::number(o.gpus()), o.gpus())),
    ("tasks placed", |o| Cell::count(o.placed)),
    ("without room", |o| Cell::count(o.pending)),
    ("GPUs free at the end", |o| gpus(o.free_at_end)),
    ("stranded GPU-hours of each hour at the end", |o| {
        gpus(o.free_at_end.min(o.wanted_at_end))
    }),
];

/// Why free GPUs did not serve.
const WHY: [(&str, Figure); 4] = [
    ("free, yet too few together", |o| {
        share(o.reasons.pieces, o.reasons.total())
    }),
    ("free, yet no processors", |o| {
        share(o.reasons.cpu, o.reasons.total())
    }),
    ("free, yet no memory or port", |o| {
        share(o.reasons.memory, o.reasons.total())
    }),
    ("free, yet another model", |o| {
        share(o.reasons.model, o.reasons.total())
    }),
];

fn table(own: &Outcome, together: &Outcome, fewer: Option<&Outcome>, stay: bool) -> Table {
    let mut table = Table::new(vec![
        Column::left("figure", "replay"),
        Column::right("fixed", "fixed hosts"),
        Column::right("composed", "composed"),
        Column::right("fewest", "fewest GPUs"),
    ]);
    let told: &[(&str, Figure)] = if stay { &STAYING } else { &TIMED };
    for (name, figure) in told.iter().chain(&WHY) {
        table.push(vec![
            Cell::text(*name),
            figure(own),
            figure(together),
            Cell::of(fewer, figure),
        ]);
    }
    table
}

fn footnotes(
    table: &mut Table,
    demand: &Demand,
    own: &Outcome,
    pooling: Pooling,
    hosts: usize,
    copies: Option<u64>,
) {
    let fabrics = match pooling.hosts_per_fabric {
        0 => "all of them on one fabric".to_owned(),
        wide => format!("{wide} to a fabric"),
    };
    table.footnote(format!(
        "{hosts} hosts, evenly out of the list, {fabrics}; composed hosts keep processors and memory, at most {} GPUs each, {} s to attach",
        pooling.gpus_per_host, pooling.attach
    ));
    match copies {
        Some(1) => table.footnote(format!(
            "the trace once: {} of the GPUs are asked for in the mean; tasks that never ran are left out; what runs over the end of its {} goes on at the beginning as a task of its own",
            figures::percent(demand.gpu_milli_seconds() as f64 / (own.capacity.max(1) as f64)),
            figures::seconds(demand.until as f64)
        )),
        Some(copies) => table.footnote(format!(
            "the trace {copies} times over, each copy begun an equal part of its {} later, so that {} of the GPUs are asked for in the mean; tasks that never ran are left out; what runs over the end goes on at the beginning as a task of its own",
            figures::seconds(demand.until as f64),
            figures::percent(demand.gpu_milli_seconds() as f64 / (own.capacity.max(1) as f64))
        )),
        None => table.footnote("tasks come in the list's order and stay for good"),
    }
    table.footnote("stranded: GPUs free while tasks waited that would have filled them, the smaller of both; tasks wait in order, and later ones pass those that find no room");
}
