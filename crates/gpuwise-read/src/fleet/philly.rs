//! Microsoft's Philly trace of training jobs: virtual clusters, their nodes and jobs, as CSV.

use super::{
    FleetError,
    openb::{rows, wrong},
};
use gpuwise_domain::fleet::{TrainingJob, VirtualCluster};
use gpuwise_units::Nanoseconds;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct JobRow {
    vc: String,
    job: u32,
    submit_s: f64,
    gpus: u32,
    duration_s: f64,
}

#[derive(Deserialize)]
struct NodesRow {
    vc: String,
    nodes: u32,
}

/// Nodes of a cluster, and GPUs of a job, at most: what is beyond it is none.
const MOST: u32 = 65_536;
/// Seconds at most: a century.
const LONGEST: f64 = 3.2e9;

/// Whether a text begins as the jobs of virtual clusters do.
pub fn is_philly_trace(text: &str) -> bool {
    text.lines().next().map(str::trim_end) == Some("vc,job,submit_s,gpus,duration_s")
}

/// Reads jobs (`vc,job,submit_s,gpus,duration_s`) and nodes (`vc,nodes`) of virtual clusters, which come
/// by name, each with its jobs as they came.
///
/// # Errors
/// When a line is not of this form, a cluster has its nodes twice, or a number is none that can be.
pub fn read_philly(
    (jobs_file, jobs): (&str, &str),
    (nodes_file, nodes): (&str, &str),
) -> Result<Vec<VirtualCluster>, FleetError> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for (line, row) in rows::<NodesRow>(nodes_file, nodes)? {
        if row.nodes == 0 || row.nodes > MOST {
            let problem = format!("`nodes` is {}; expected 1 to {MOST}", row.nodes);
            return Err(wrong(nodes_file, line, problem));
        }
        if counts.insert(row.vc.clone(), row.nodes).is_some() {
            let problem = format!("cluster {} has its nodes twice", row.vc);
            return Err(wrong(nodes_file, line, problem));
        }
    }
    let mut clusters: BTreeMap<String, Vec<TrainingJob>> = BTreeMap::new();
    for (line, row) in rows::<JobRow>(jobs_file, jobs)? {
        let job = job(&row).map_err(|problem| wrong(jobs_file, line, problem))?;
        clusters.entry(row.vc).or_default().push(job);
    }
    let clusters = clusters.into_iter().map(|(name, mut jobs)| {
        jobs.sort_by_key(|job| (job.submitted, job.number));
        VirtualCluster {
            nodes: counts.get(&name).copied(),
            name,
            jobs,
        }
    });
    Ok(clusters.collect())
}

fn job(row: &JobRow) -> Result<TrainingJob, String> {
    if row.gpus == 0 || row.gpus > MOST {
        return Err(format!("`gpus` is {}; expected 1 to {MOST}", row.gpus));
    }
    let time = |name: &str, seconds: f64| {
        if (0.0..=LONGEST).contains(&seconds) {
            Ok(Nanoseconds((seconds * 1e9 + 0.5) as u64))
        } else {
            Err(format!("`{name}` is {seconds}; expected 0 to {LONGEST} s"))
        }
    };
    Ok(TrainingJob {
        number: row.job,
        submitted: time("submit_s", row.submit_s)?,
        gpus: row.gpus,
        duration: time("duration_s", row.duration_s)?,
    })
}
