//! What the workloads of a fleet asked for and used, from a Prometheus server: aggregated there, in a
//! dozen queries, and put together here.

mod ask;
mod collected;
mod compute;
mod merge;
mod owner;
mod select;
mod shared;

pub use ask::{Aggregate, Place, Row, Task, Values};
pub use collected::Collected;
pub use merge::fleet_of;

use crate::prometheus::{Client, PrometheusError};
use ask::Asker;
use gpuwise_domain::usage::{
    Fleet, Holder, Scope, Window,
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
    /// An hour whose busiest sample shows less compute than this, of 1, is idle.
    pub idle_below: f64,
}

/// Workloads of which what is said depends on their exact percentiles, which are costly to ask for. Those
/// of the largest sample of each hour are known of compute already, and are never lower.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unclear {
    pub compute: BTreeSet<Holder>,
    pub bandwidth: BTreeSet<Holder>,
}

/// Says of a fleet what is unclear without exact percentiles.
pub type Depends<'a> = &'a dyn Fn(&Fleet) -> Unclear;

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

/// Asks a server for a fleet. Exact percentiles are asked for where something `depends` on them; `said` is
/// told what is asked for, query by query.
///
/// # Errors
/// When the server cannot be asked, refuses, or shows no GPU at all. Queries that fail after the first
/// one has been answered leave their figures unknown, which the fleet's notes say.
pub fn collect(
    client: &Client,
    vocabulary: &Vocabulary,
    settings: &Settings,
    depends: Depends<'_>,
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
    let mut tasks = vec![(Quantity::MemoryUsed, Aggregate::HourlyMax)];
    if let Some(best) = measures.first() {
        tasks.extend(compute_tasks(*best));
    }
    tasks.push((Quantity::TensorActive, Aggregate::Average));
    let devices = Run {
        asker: &asker,
        present: &present,
        pods: None,
        said,
    };
    devices.all(&tasks, &mut collected)?;
    // Exporters differ: what the best measure does not show of a device, a weaker one may.
    for weaker in measures.iter().skip(1) {
        if !collected.lack_compute() {
            break;
        }
        devices.all(&compute_tasks(*weaker), &mut collected)?;
    }
    let mut namespaces = collected.namespaces();
    if !namespaces.is_empty() {
        namespaces.extend(settings.namespaces.iter().cloned());
    }
    let within = Asker::new(client, vocabulary, settings).within(&namespaces);
    let hosts = Run {
        asker: &within,
        ..devices
    };
    hosts.all(HOSTS, &mut collected)?;
    if settings.tenant_label.is_some() {
        hosts.all(&[(Quantity::PodLabels, Aggregate::Last)], &mut collected)?;
    }
    percentiles(&devices, &measures, &mut collected, depends, &|collected| {
        fleet_of(collected, vocabulary, settings)
    })?;
    Ok(Fleet {
        scope: Scope {
            source: client.server().into(),
            matchers: settings.matchers.clone(),
        },
        ..fleet_of(&collected, vocabulary, settings)
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

/// Asks for exact percentiles of those workloads of which something depends on them.
fn percentiles(
    devices: &Run<'_>,
    measures: &[Quantity],
    collected: &mut Collected,
    depends: Depends<'_>,
    fleet: &dyn Fn(&Collected) -> Fleet,
) -> Result<(), PrometheusError> {
    if !devices
        .asker
        .tasks(Quantity::DramActive, Aggregate::P95, devices.present)
        .is_empty()
    {
        collected.known(Quantity::DramActive);
    }
    let Unclear { compute, bandwidth } = depends(&fleet(collected));
    let compute_p95: Vec<_> = measures.iter().map(|of| (*of, Aggregate::P95)).collect();
    for (holders, wanted) in [
        (compute, compute_p95),
        (bandwidth, vec![(Quantity::DramActive, Aggregate::P95)]),
    ] {
        if holders.is_empty() {
            continue;
        }
        let all = collected.pods_of(|_| true);
        let pods = collected.pods_of(|holder| holders.contains(holder));
        // What has no pod cannot be named; and naming most costs more than asking for all.
        let named = pods.filter(|pods| all.is_none_or(|all| pods.len() * 3 < all.len() * 2));
        let run = Run {
            pods: named.as_ref(),
            ..*devices
        };
        run.all(&wanted, collected)?;
    }
    Ok(())
}

fn compute_tasks(quantity: Quantity) -> Vec<(Quantity, Aggregate)> {
    [Aggregate::HourlyMax, Aggregate::Average]
        .map(|aggregate| (quantity, aggregate))
        .to_vec()
}

/// What is asked, of whom.
#[derive(Clone, Copy)]
struct Run<'a> {
    asker: &'a Asker<'a>,
    present: &'a BTreeSet<String>,
    /// These pods alone.
    pods: Option<&'a BTreeSet<(String, String)>>,
    said: &'a (dyn Fn(&str) + Sync),
}

impl Run<'_> {
    /// Carries out what is to be asked, several at once, and adds what came in the order of the tasks.
    fn all(
        &self,
        wanted: &[(Quantity, Aggregate)],
        collected: &mut Collected,
    ) -> Result<(), PrometheusError> {
        let tasks: Vec<Task> = wanted
            .iter()
            .flat_map(|(quantity, aggregate)| self.asker.tasks(*quantity, *aggregate, self.present))
            .collect();
        let next = Mutex::new(0_usize);
        let answers = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..self.asker.at_once().min(tasks.len()) {
                scope.spawn(|| {
                    loop {
                        let at = {
                            let Ok(mut next) = next.lock() else { return };
                            *next += 1;
                            *next - 1
                        };
                        let Some(task) = tasks.get(at) else { return };
                        let answer = self.one(task);
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

    fn one(&self, task: &Task) -> Result<(Vec<Row>, Vec<String>), PrometheusError> {
        let (title, metric) = (task.aggregate.title(), &task.metric);
        if let Some(pods) = self.pods {
            let count = pods.len();
            (self.said)(&format!("asking for {title} {metric} of {count} pods"));
            self.asker.answer_of(task, pods)
        } else {
            (self.said)(&format!("asking for {title} {metric}"));
            self.asker.answer(task)
        }
    }
}
