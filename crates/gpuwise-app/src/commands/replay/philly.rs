//! Virtual clusters of training jobs, each replayed under each policy.

use super::{files, files::Places, policies};
use crate::{error::Problem, progress, settings};
use gpuwise_domain::{fleet::VirtualCluster, placement::ReplayRow};
use gpuwise_lab::schedulers::philly::{Discipline, Run, replay};
use gpuwise_read::fleet::read_philly;
use gpuwise_sched::policy::same_name;
use std::{path::Path, time::Instant};

pub(super) const FILES: [&str; 2] = ["jobs.csv", "vc_nodes.csv"];

/// A row for each cluster and policy.
pub(super) fn rows(
    flags: &settings::Replay,
    named: Option<&Path>,
    only: &str,
) -> anyhow::Result<Vec<ReplayRow>> {
    replayed(clusters(&Places::new(named, &["philly"]))?, flags, only)
}

/// The same of a file of jobs; without a file of nodes beside it a cluster is as large as its largest job
/// needs.
pub(super) fn file_rows(
    flags: &settings::Replay,
    path: &Path,
    jobs: &str,
) -> anyhow::Result<Vec<ReplayRow>> {
    let places = Places::new(Some(files::folder(path)), &[]);
    let nodes = if places.has(FILES[1]) {
        let path = places.find(FILES[1])?;
        (path.display().to_string(), files::text(&path)?)
    } else {
        let missing = FILES[1];
        progress::doing("");
        progress::say(&format!(
            "no {missing} beside it: each cluster is as large as its largest job needs"
        ));
        (FILES[1].to_owned(), "vc,nodes\n".to_owned())
    };
    let shown = path.display().to_string();
    replayed(
        read_philly((&shown, jobs), (&nodes.0, &nodes.1))?,
        flags,
        "",
    )
}

fn replayed(
    clusters: Vec<VirtualCluster>,
    flags: &settings::Replay,
    only: &str,
) -> anyhow::Result<Vec<ReplayRow>> {
    let names = Discipline::ALL.map(Discipline::name);
    let disciplines = policies(&flags.policy, "philly", &names, |name| {
        let mut all = Discipline::ALL.into_iter();
        all.find(|one| same_name(one.name(), name))
    })?;
    let clusters = chosen(clusters, flags, only)?;
    let mut rows = Vec::new();
    for cluster in &clusters {
        for discipline in &disciplines {
            progress::doing(&format!("philly:{}, {}", cluster.name, discipline.name()));
            let began = Instant::now();
            let run = replay(cluster, *discipline, |_, _| {})?;
            let rate = run.decisions as f64 / began.elapsed().as_secs_f64();
            rows.push(ReplayRow {
                policy: discipline.name().into(),
                decisions_per_s: flags.timing.then_some(rate.round()),
                ..row(&cluster.name, &run)
            });
        }
    }
    progress::doing("");
    Ok(rows)
}

fn clusters(places: &Places) -> anyhow::Result<Vec<VirtualCluster>> {
    let texts = FILES.map(|name| {
        let path = places.find(name)?;
        Ok::<_, anyhow::Error>((path.display().to_string(), files::text(&path)?))
    });
    let [jobs, nodes] = texts;
    let (jobs, nodes) = (jobs?, nodes?);
    Ok(read_philly((&jobs.0, &jobs.1), (&nodes.0, &nodes.1))?)
}

fn chosen(
    mut clusters: Vec<VirtualCluster>,
    flags: &settings::Replay,
    only: &str,
) -> anyhow::Result<Vec<VirtualCluster>> {
    let mut wanted = flags.variant.clone();
    if !only.is_empty() {
        wanted.insert(0, only.to_owned());
    }
    if let Some(missing) = wanted
        .iter()
        .find(|name| !clusters.iter().any(|cluster| cluster.name == **name))
    {
        let known: Vec<&str> = clusters
            .iter()
            .map(|cluster| cluster.name.as_str())
            .collect();
        return Err(
            Problem::new(format!("the trace has no virtual cluster {missing:?}"))
                .hint(format!("it has {}", known.join(", ")))
                .into(),
        );
    }
    clusters.retain(|cluster| wanted.is_empty() || wanted.contains(&cluster.name));
    Ok(clusters)
}

fn row(cluster: &str, run: &Run) -> ReplayRow {
    let hours = |gpu_time: u128| gpu_time as f64 / 3.6e12;
    let jobs = run.placed.max(1) as f64;
    let whole = f64::from(run.gpus) * run.makespan.0 as f64;
    let held = (run.served + run.restarting) as f64;
    ReplayRow {
        trace: format!("philly:{cluster}"),
        gpu_allocated_percent: (whole > 0.0).then(|| hundredths(100.0 * held / whole)),
        placed: run.placed,
        pending: run.pending,
        jct_mean_s: Some(hundredths(run.completion as f64 / 1e9 / jobs)),
        makespan_s: Some(hundredths(run.makespan.0 as f64 / 1e9)),
        plans_hash: Some(run.plans.value()),
        more: vec![
            (
                "wait_mean_s",
                Some(hundredths(run.waited as f64 / 1e9 / jobs)),
            ),
            (
                "wait_max_s",
                Some(hundredths(run.longest_wait.0 as f64 / 1e9)),
            ),
            ("gpu_hours_asked", Some(hundredths(hours(run.asked)))),
            ("gpu_hours_served", Some(hundredths(hours(run.served)))),
            (
                "gpu_hours_restarting",
                Some(hundredths(hours(run.restarting))),
            ),
            ("stops", Some(run.stops as f64)),
        ],
        ..ReplayRow::default()
    }
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
