//! `gpuwise capacity`: what to add to a fleet, return or repartition.

use super::{
    Context, Exit,
    place::{self, Decided, FleetState},
};
use crate::{policy::Rules, progress, settings, settings::Format};
use gpuwise_domain::placement::{GpuAsk, JobId, NodeId};
use gpuwise_sched::{
    decide::Policy,
    report::{Addition, additions, idle, most_placed, repartitions, returnable},
    world::World,
};
use gpuwise_view::placement::{AdditionRow, additions as table, gpus_text};
use serde_json::json;
use std::fmt::Write as _;

struct Capacity {
    waiting: usize,
    placed: usize,
    requested_milli: u64,
    placed_milli: u64,
    most_milli: u64,
    add: Vec<AdditionRow>,
    /// Nodes that can go together, and their GPUs.
    back: Vec<String>,
    back_gpus: usize,
    /// Nodes on which nothing runs, and all.
    idle: usize,
    nodes: usize,
    cut: Vec<(String, usize)>,
}

pub fn run(context: &Context, flags: &settings::Capacity) -> anyhow::Result<Exit> {
    let estate = place::estate(
        &context.app,
        &flags.fleet,
        &flags.jobs,
        &[],
        Rules::of_flags(&flags.how)?,
    )?;
    let mut policy = estate.policy(context.app.seed)?;
    progress::doing("deciding");
    let decided = place::decided(&estate.world, &mut policy)?;
    progress::doing("trying what could be added");
    let found = look(&estate, &decided, &mut policy, flags.max_nodes);
    progress::doing("");
    show(context, &estate, &found)?;
    Ok(if found.placed == found.waiting {
        Exit::Yes
    } else {
        Exit::No
    })
}

fn look(estate: &FleetState, decided: &Decided, policy: &mut Policy, most_nodes: u32) -> Capacity {
    let world = &estate.world;
    let waits = |world: &World| -> Vec<JobId> {
        let waiting = world.jobs().filter(|(_, state)| state.phase.waits());
        waiting.map(|(id, _)| id).collect()
    };
    let (before, left) = (waits(world), waits(&decided.after));
    let counts = |id: &JobId| {
        let job = world.job(*id).map(|state| &state.job);
        let job = job.filter(|job| !matches!(job.worker.gpu, GpuAsk::Slice { .. }));
        job.map_or(0, |job| {
            job.worker.gpu.milli() * u64::from(job.gang.preferred.max(job.gang.least))
        })
    };
    let has = |id: &JobId| {
        let state = decided.after.job(*id);
        state.map_or(0, |state| {
            state.job.worker.gpu.milli() * state.assignments.len() as u64
        })
    };
    let name = |id: NodeId| {
        let node = world.node(id);
        node.map_or_else(|| format!("#{id}"), |state| state.node.name.clone())
    };
    let add = additions(&decided.after, &left, policy, most_nodes);
    let added = add.last().map_or(&[][..], |last| last.nodes.as_slice());
    let back = returnable(world, &before, policy, added);
    let gpus = |id: &NodeId| world.node(*id).map_or(0, |state| state.gpus.len());
    Capacity {
        waiting: before.len(),
        placed: before.len() - left.len(),
        requested_milli: before.iter().map(counts).sum(),
        placed_milli: before.iter().map(has).sum(),
        most_milli: most_placed(world, &before),
        add: add.iter().map(|one| row(world, one, left.len())).collect(),
        back_gpus: back.iter().map(gpus).sum(),
        back: back.into_iter().map(name).collect(),
        idle: idle(world).len(),
        nodes: world.nodes().len(),
        cut: repartitions(&decided.after, &left, policy)
            .into_iter()
            .map(|(fix, helps)| (fix.what, helps))
            .collect(),
    }
}

fn row(world: &World, one: &Addition, waiting: usize) -> AdditionRow {
    let each = one.nodes.iter().map(|(like, count)| {
        let state = world.node(*like);
        let node = state.map(|state| &state.node);
        let name = node.map_or("?", |node| node.name.as_str());
        let kind = node.and_then(|node| world.gpu(*node.gpus.first()?));
        let kind = kind.and_then(|gpu| world.kind(gpu.gpu.kind));
        let with = match (kind, node) {
            (Some(kind), Some(node)) => format!(" ({}x{})", node.gpus.len(), kind.name),
            _ => String::new(),
        };
        format!("{count} like {name}{with}")
    });
    AdditionRow {
        what: each.collect::<Vec<_>>().join(", "),
        gpus: one.gpus,
        price: one.price,
        placed: one.placed as u64,
        left: waiting.saturating_sub(one.placed) as u64,
        cheapest: one.cheapest,
    }
}

fn show(context: &Context, estate: &FleetState, found: &Capacity) -> anyhow::Result<()> {
    let add = table(&found.add);
    match context.form.format {
        Format::Json => context.json(&json!({
            "fleet": estate.fleet.name,
            "asking": found.waiting,
            "placed": found.placed,
            "requested_gpus": found.requested_milli as f64 / 1000.0,
            "placed_gpus": found.placed_milli as f64 / 1000.0,
            "placed_gpus_at_most": found.most_milli as f64 / 1000.0,
            "add": add.to_json(),
            "return": found.back,
            "repartition": found.cut.iter().map(|(what, helps)| json!({"what": what, "helps": helps})).collect::<Vec<_>>(),
        })),
        Format::Csv => context.data(&add.to_csv()),
        form => {
            let style = context.form.style;
            let mut text = format!("{}\n", style.wrap(&summary(found), 0));
            if !found.add.is_empty() {
                let shown = match form {
                    Format::Md => add.to_markdown(),
                    _ => add.to_text(style),
                };
                let _ = write!(text, "\n{shown}");
            }
            for (what, helps) in &found.cut {
                let jobs = if *helps == 1 { "job" } else { "jobs" };
                let line = format!("Repartition: {what}; it helps {helps} {jobs}.");
                let _ = write!(text, "\n{}\n", style.wrap(&line, 2));
            }
            if found.idle > 0 {
                let _ = write!(text, "\n{}\n", style.wrap(&back(found), 2));
            }
            context.data(&style.finish(text))
        }
    }
}

/// Names that are listed; JSON has all.
const LISTED: usize = 12;

/// What can be given back.
fn back(found: &Capacity) -> String {
    let many = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let nodes = many(found.nodes, "node");
    if found.back.is_empty() {
        return format!(
            "None of {nodes} can go: without any of the {} on which nothing runs now a job would wait, \
             shrink or slow down.",
            found.idle
        );
    }
    let shown = found.back.get(..LISTED).unwrap_or(&found.back).join(", ");
    let more = match found.back.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let together = if found.back.len() == 1 {
        ""
    } else {
        " together"
    };
    let when = if found.add.is_empty() {
        ""
    } else {
        ", neither now nor once what is listed above was added"
    };
    format!(
        "{} of {nodes} can go{together} ({}): {shown}{more}. Tried on a copy of the fleet without {}: no \
         job waits, shrinks or slows down for it{when}.",
        found.back.len(),
        many(found.back_gpus, "GPU"),
        if found.back.len() == 1 { "it" } else { "them" },
    )
}

fn summary(found: &Capacity) -> String {
    let mut text = if found.waiting == 0 {
        "No job asks for GPUs.".to_owned()
    } else {
        format!("{} of {} jobs placed", found.placed, found.waiting)
    };
    if found.requested_milli > 0 {
        let _ = write!(
            text,
            ": {} of the {} GPUs that they ask for; no policy can place more than {}",
            gpus_text(found.placed_milli),
            gpus_text(found.requested_milli),
            gpus_text(found.most_milli)
        );
    }
    if !text.ends_with('.') {
        text.push('.');
    }
    if found.placed < found.waiting && found.add.is_empty() {
        text += " No number of nodes like those of the fleet helps the others: gpuwise place --why says what would.";
    }
    text
}
