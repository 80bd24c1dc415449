//! What the workloads of a fleet asked for and used, from a Prometheus server: aggregated there, in a
//! dozen queries, and put together here.

mod ask;
mod collected;
mod merge;
mod owner;
mod select;

pub use ask::{Aggregate, Place, Row, Task, Values};
pub use collected::Collected;
pub use merge::fleet_of;

use crate::prometheus::{Client, PrometheusError};
use ask::Asker;
use gpuwise_domain::usage::{
    Fleet, Scope, Window,
    vocabulary::{Quantity, Vocabulary},
};
use std::{collections::BTreeSet, sync::Mutex, thread};

#[derive(Debug, Clone)]
pub struct Settings {
    /// The days; its end is a whole hour.
    pub window: Window,
    /// More matchers of each series, such as `cluster="a"`.
    pub matchers: Option<String>,
    /// Label of pods that names the tenant, as `kube_pod_labels` spells it; the namespace when absent.
    pub tenant_label: Option<String>,
    pub at_once: usize,
    /// Namespaces whose controllers are asked for although nothing in them may hold a GPU.
    pub namespaces: BTreeSet<String>,
}

/// What is asked of hosts, pods, controllers and engines.
const HOSTS: &[(Quantity, Aggregate)] = &[
    (Quantity::CpuSeconds, Aggregate::Increase),
    (Quantity::ThrottledPeriods, Aggregate::Increase),
    (Quantity::Periods, Aggregate::Increase),
    (Quantity::Requests, Aggregate::Last),
    (Quantity::Limits, Aggregate::Last),
    (Quantity::PodOwner, Aggregate::Last),
    (Quantity::ReplicaSetOwner, Aggregate::Last),
    (Quantity::JobOwner, Aggregate::Last),
    (Quantity::Replicas, Aggregate::Last),
    (Quantity::EngineWaiting, Aggregate::Average),
    (Quantity::EngineCache, Aggregate::Max),
    (Quantity::EngineLatencySum, Aggregate::Increase),
    (Quantity::EngineLatencyCount, Aggregate::Increase),
    (Quantity::EnginePromptTokens, Aggregate::Increase),
    (Quantity::EngineAnswerTokens, Aggregate::Increase),
];

/// Asks a server for a fleet. `said` is told what is asked for, query by query.
///
/// # Errors
/// When the server cannot be asked, refuses, or shows no GPU at all. Queries that fail after the first
/// one has been answered leave their figures unknown, which the fleet's notes say.
pub fn collect(
    client: &Client,
    vocabulary: &Vocabulary,
    settings: &Settings,
    said: &(dyn Fn(&str) + Sync),
) -> Result<Fleet, PrometheusError> {
    let asker = Asker::new(client, vocabulary, settings);
    said("looking which metrics are there");
    let present = asker.present()?;
    let first = |quantity: Quantity| {
        vocabulary
            .of(quantity)
            .filter(|row| present.contains(&row.metric))
            .map(|row| row.quantity)
            .next()
    };
    if first(Quantity::MemoryUsed).is_none() && compute_measures(vocabulary, &present).is_empty() {
        return Err(PrometheusError::BadQuery {
            server: client.server().into(),
            said: "it has no metrics of GPUs in these days (dcgm-exporter, nvidia_gpu_exporter)"
                .into(),
        });
    }
    let mut collected = Collected::default();
    let measures = compute_measures(vocabulary, &present);
    let mut tasks = vec![
        (Quantity::MemoryUsed, Aggregate::HourlyMax),
        (Quantity::MemoryUsed, Aggregate::Average),
    ];
    if let Some(best) = measures.first() {
        tasks.extend(compute_tasks(*best));
    }
    tasks.push((Quantity::DramActive, Aggregate::P95));
    tasks.push((Quantity::TensorActive, Aggregate::Average));
    run(&asker, &present, &tasks, &mut collected, said)?;
    // Exporters differ: what the best measure does not show of a device, a weaker one may.
    for weaker in measures.iter().skip(1) {
        if !collected.lack_compute() {
            break;
        }
        run(
            &asker,
            &present,
            &compute_tasks(*weaker),
            &mut collected,
            said,
        )?;
    }
    let mut namespaces = collected.namespaces();
    if !namespaces.is_empty() {
        namespaces.extend(settings.namespaces.iter().cloned());
    }
    let asker = asker.within(&namespaces);
    run(&asker, &present, HOSTS, &mut collected, said)?;
    if settings.tenant_label.is_some() {
        run(
            &asker,
            &present,
            &[(Quantity::PodLabels, Aggregate::Last)],
            &mut collected,
            said,
        )?;
    }
    Ok(Fleet {
        scope: Scope {
            source: client.server().into(),
            matchers: settings.matchers.clone(),
        },
        ..fleet_of(collected, vocabulary, settings)
    })
}

/// Measures of compute that are there, the best first.
fn compute_measures(vocabulary: &Vocabulary, present: &BTreeSet<String>) -> Vec<Quantity> {
    [
        Quantity::SmActive,
        Quantity::EngineActive,
        Quantity::Utilisation,
    ]
    .into_iter()
    .filter(|quantity| {
        vocabulary
            .of(*quantity)
            .any(|row| present.contains(&row.metric))
    })
    .collect()
}

fn compute_tasks(quantity: Quantity) -> Vec<(Quantity, Aggregate)> {
    [Aggregate::HourlyMax, Aggregate::Average, Aggregate::P95]
        .map(|aggregate| (quantity, aggregate))
        .to_vec()
}

/// Carries out what is to be asked, several at once, and adds what came in the order of the tasks.
fn run(
    asker: &Asker<'_>,
    present: &BTreeSet<String>,
    wanted: &[(Quantity, Aggregate)],
    collected: &mut Collected,
    said: &(dyn Fn(&str) + Sync),
) -> Result<(), PrometheusError> {
    let tasks: Vec<Task> = wanted
        .iter()
        .flat_map(|(quantity, aggregate)| asker.tasks(*quantity, *aggregate, present))
        .collect();
    let next = Mutex::new(0_usize);
    let answers = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..asker.at_once().min(tasks.len()) {
            scope.spawn(|| {
                loop {
                    let at = {
                        let Ok(mut next) = next.lock() else { return };
                        *next += 1;
                        *next - 1
                    };
                    let Some(task) = tasks.get(at) else { return };
                    said(&format!(
                        "asking for {} {}",
                        task.aggregate.title(),
                        task.metric
                    ));
                    let answer = asker.answer(task);
                    if let Ok(mut answers) = answers.lock() {
                        answers.push((at, answer));
                    }
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_default();
    answers.sort_by_key(|(at, _)| *at);
    for ((_, answer), task) in answers.into_iter().zip(tasks) {
        match answer {
            Ok((rows, notes)) => collected.add(&task, rows, notes),
            Err(error) if collected.is_empty() => return Err(error),
            Err(error) => collected.failed(&task, &error),
        }
    }
    Ok(())
}
