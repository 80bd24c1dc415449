//! The placement benchmark on Alibaba's trace of 2023.

use super::{files, files::Places, policies, seeds};
use crate::{error::Problem, progress, settings};
use gpuwise_domain::placement::ReplayRow;
use gpuwise_read::fleet::{SeededOrder, read_openb_nodes, read_openb_orders, read_openb_tasks};
use gpuwise_sched::{
    decide::Policy,
    lint::{Limits, errors, lint, lint_world},
    policy::{self, PolicyContext},
};
use gpuwise_sim::fleet::openb::{Openb, Run};
use std::{path::Path, time::Instant};

/// Marks in percent of the fleet's GPU time asked for.
const MARKS: [u32; 4] = [100, 110, 120, 130];
/// The variant that a name alone means.
const USUAL: &str = "default";

/// Rows of every variant, seed, policy and mark that is asked for.
pub(super) fn rows(
    flags: &settings::Replay,
    named: Option<&Path>,
    variant: &str,
) -> anyhow::Result<Vec<ReplayRow>> {
    let places = Places::new(named, &["openb_seq", "openb"]);
    let nodes = places.find("openb_node_list_gpu_node.csv")?;
    let nodes = read_openb_nodes(&nodes.display().to_string(), &files::text(&nodes)?)?;
    let mut rows = Vec::new();
    for variant in variants(flags, &places, variant)? {
        let list = places.find(&format!("openb_pod_list_{variant}.csv"))?;
        let tasks = read_openb_tasks(&list.display().to_string(), &files::text(&list)?)?;
        let trace = Openb::new(&nodes, &tasks)?;
        let arrivals = orders(&places, &format!("arrivals_{variant}.csv"), tasks.len())?;
        let ranks = orders(&places, &format!("nodeorder_{variant}.csv"), nodes.len())?;
        let there: Vec<u64> = arrivals.iter().map(|order| order.seed).collect();
        let wanted = seeds(flags.seeds.as_deref(), &there)?;
        let demand = trace.demand();
        for policy in policies(&flags.policy, "openb", &policy::names(), policy::find)? {
            let name = policy.name;
            for seed in &wanted {
                progress::doing(&format!("{variant}, {name}, seed {seed}"));
                let of = |orders: &[SeededOrder]| {
                    let found = orders.iter().find(|order| order.seed == *seed);
                    found.map(|order| order.numbers.clone())
                };
                let setting = PolicyContext {
                    ranks: of(&ranks).ok_or_else(|| {
                        Problem::new(format!("nodeorder_{variant}: there is no seed {seed}"))
                    })?,
                    demand: demand.clone(),
                    seed: *seed,
                };
                let mut policy = Policy::new((policy.make)(&setting));
                let arrivals = of(&arrivals).unwrap_or_default();
                let began = Instant::now();
                let run = if flags.lint {
                    linted(
                        &trace,
                        &arrivals,
                        &mut policy,
                        &format!("{variant}, {name}, seed {seed}"),
                    )?
                } else {
                    trace.replay(&arrivals, &mut policy, |_, _| {})?
                };
                let rate = arrivals.len() as f64 / began.elapsed().as_secs_f64();
                let usual = ReplayRow {
                    trace: if variant == USUAL {
                        "openb".into()
                    } else {
                        format!("openb:{variant}")
                    },
                    policy: name.into(),
                    seed: Some(*seed),
                    plans_hash: Some(run.plans.value()),
                    decisions_per_s: flags.timing.then_some(rate.round()),
                    ..ReplayRow::default()
                };
                rows.extend(marks(&run, &usual));
            }
        }
    }
    progress::doing("");
    Ok(rows)
}

/// A replay in which every plan is held against the world that it was made for, and every world, the last
/// one excepted, against itself.
fn linted(trace: &Openb, arrivals: &[u32], policy: &mut Policy, what: &str) -> anyhow::Result<Run> {
    let mut found: Option<(usize, String)> = None;
    let mut step = 0;
    let run = trace.replay(arrivals, policy, |world, plan| {
        if found.is_none() {
            let mut notes = lint_world(world);
            notes.extend(lint(world, plan, Limits::default()));
            found = errors(&notes).next().map(|note| (step, note.what.clone()));
        }
        step += 1;
    })?;
    match found {
        None => Ok(run),
        Some((step, note)) => Err(Problem::new(format!(
            "{what}: the plan for arrival {step} does not hold: {note}"
        ))
        .into()),
    }
}

/// Whether a directory, or one of the two below it, has files of this trace.
pub(super) fn is_in(directory: &Path) -> bool {
    let folders = ["", "openb_seq", "openb"].map(|below| directory.join(below));
    let names = folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()));
    let begin = ["openb_", "arrivals_", "nodeorder_"];
    names
        .filter(|name| name.contains(".csv"))
        .any(|name| begin.iter().any(|begin| name.starts_with(begin)))
}

fn variants(flags: &settings::Replay, places: &Places, named: &str) -> anyhow::Result<Vec<String>> {
    let there = places.middles("arrivals_");
    let mut wanted = flags.variant.clone();
    if !named.is_empty() {
        wanted.insert(0, named.to_owned());
    }
    if wanted.is_empty() {
        if there.iter().any(|name| name == USUAL) || there.is_empty() {
            return Ok(vec![USUAL.into()]);
        }
        return Ok(there);
    }
    for name in &wanted {
        if !there.contains(name) {
            let problem = Problem::new(format!("the trace has no variant {name:?}"));
            return Err(problem.hint(format!("it has {}", there.join(", "))).into());
        }
    }
    Ok(wanted)
}

fn orders(places: &Places, name: &str, limit: usize) -> anyhow::Result<Vec<SeededOrder>> {
    let path = places.find(name)?;
    let text = files::text(&path)?;
    Ok(read_openb_orders(
        &path.display().to_string(),
        &text,
        limit,
    )?)
}

/// A row for each mark that the run reaches; for one that reaches none, its end.
fn marks(run: &Run, usual: &ReplayRow) -> Vec<ReplayRow> {
    let last = run.last_mark();
    let reached: Vec<u32> = MARKS.into_iter().filter(|mark| *mark <= last).collect();
    let marks = if reached.is_empty() {
        vec![last]
    } else {
        reached
    };
    marks
        .into_iter()
        .filter_map(|mark| {
            let point = run.point(mark)?;
            Some(ReplayRow {
                arrived_percent: Some(f64::from(mark)),
                gpu_allocated_percent: Some(point.allocated_percent),
                placed: point.placed,
                pending: point.pending,
                ..usual.clone()
            })
        })
        .collect()
}
