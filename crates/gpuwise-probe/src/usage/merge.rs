//! Devices put together into pods, pods into workloads.

use super::{
    Settings,
    ask::Place,
    collected::{Collected, EngineFacts, Mean, Member, Pod, PodFacts, higher, highest},
    compute::compute,
    shared::{idle_devices, shared},
};
use gpuwise_domain::usage::{
    Declared, EngineUse, Fleet, Holder, ResourceRequest, Scope, Usage,
    vocabulary::{Quantity, Vocabulary},
};
use gpuwise_units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// One device that its holder has.
pub(super) type Held<'a> = (&'a Place, &'a Member);

/// Memory of a device from which on somebody has it, MiB: more than a driver keeps.
const SOMEBODYS_MIB: f32 = 1024.0;

pub fn fleet_of(collected: &Collected, vocabulary: &Vocabulary, settings: &Settings) -> Fleet {
    let held = |place: &Place| !place.pod.is_empty() || !place.job.is_empty();
    let anybody = collected.members.keys().any(held);
    let hours = settings.window.hours();
    let (mut unheld, mut unnamed) = (0, 0);
    let mut groups: BTreeMap<Holder, Vec<Held<'_>>> = BTreeMap::new();
    for (place, member) in &collected.members {
        if anybody && !held(place) {
            if !is_used(member, settings.idle_below) {
                unheld += u32::from(is_present(member, hours));
                continue;
            }
            unnamed += u32::from(is_present(member, hours));
        }
        groups
            .entry(collected.holder(place))
            .or_default()
            .push((place, member));
    }
    let shared = shared(&collected.members, hours);
    let workloads = groups
        .into_iter()
        .map(|(holder, members)| {
            let mut usage = collected.usage(holder, &members, hours);
            let sharers = members.iter().filter_map(|(place, _)| shared.get(*place));
            usage.asked.shared_by = sharers.copied().max().unwrap_or(1);
            usage.idle_devices = idle_devices(&members, settings.idle_below, hours);
            usage
        })
        .collect();
    let mut notes = collected.notes.clone();
    if unnamed > 0 {
        notes.push(format!(
            "{unnamed} GPUs are in use though no label names a pod or job: they stand by host and device"
        ));
    }
    notes.extend(not_known(collected, vocabulary));
    Fleet {
        scope: Scope::default(),
        declared: declared(collected),
        window: settings.window,
        workloads,
        unheld_devices: unheld,
        notes,
    }
}

/// What is not known of anybody, for want of metrics.
fn not_known(collected: &Collected, vocabulary: &Vocabulary) -> Vec<String> {
    let mut notes = Vec::new();
    for (quantity, without) in [
        (
            Quantity::MemoryUsed,
            "memory is not known: nothing is said of slices and smaller GPUs",
        ),
        (
            Quantity::DramActive,
            "memory bandwidth is not known: it is taken to be as busy as compute",
        ),
        (
            Quantity::CpuSeconds,
            "CPU use is not known: whether GPUs wait for CPUs cannot be told",
        ),
        (
            Quantity::PodOwner,
            "owners of pods are not known: they are told by the names of pods",
        ),
    ] {
        if !collected.tasks.contains(&quantity) {
            let metrics: Vec<&str> = vocabulary
                .of(quantity)
                .map(|row| row.metric.as_str())
                .collect();
            notes.push(format!("{without} ({})", metrics.join(", ")));
        }
    }
    let compute = [
        Quantity::SmActive,
        Quantity::EngineActive,
        Quantity::Utilisation,
    ];
    if !compute
        .iter()
        .any(|quantity| collected.tasks.contains(quantity))
    {
        notes.push("compute is not known: nothing is said of idle GPUs".into());
    } else if !collected.tasks.contains(&Quantity::SmActive) {
        notes.push("SM activity (DCGM 1002) is not exported: a weaker measure stands for it, which shows GPUs as busier than they are".into());
    }
    notes
}

/// Controllers as kube-state-metrics lists them.
fn declared(collected: &Collected) -> Declared {
    let replicas = collected.replicas.iter();
    let quantity = Quantity::Replicas;
    Declared {
        replicas: replicas
            .map(|((namespace, kind, name), replicas)| {
                let holder = Holder {
                    namespace: namespace.clone(),
                    kind: kind.clone(),
                    name: name.clone(),
                };
                (holder, *replicas)
            })
            .collect(),
        whole: collected.tasks.contains(&quantity) && !collected.partial.contains(&quantity),
    }
}

/// Whether something was done on it or lay in its memory for long: between two pods a sample may still show
/// what the one did, or already what the other does.
fn is_used(member: &Member, idle_below: f64) -> bool {
    let long = |hourly: &[f32], used: &dyn Fn(f32) -> bool| {
        let known = hourly.iter().filter(|value| !value.is_nan()).count();
        let in_use = hourly.iter().filter(|value| used(**value)).count();
        in_use >= 3 && in_use * 4 >= known
    };
    long(&member.compute_hourly, &|share| {
        f64::from(share) >= idle_below
    }) || long(&member.memory_hourly, &|mib| mib >= SOMEBODYS_MIB)
}

/// Of the hours that are known.
fn mean(hourly: &[f32]) -> f64 {
    let known = hourly.iter().filter(|value| !value.is_nan());
    let (sum, count) = known.fold((0.0, 0.0), |(sum, count), value| {
        (sum + f64::from(*value), count + 1.0)
    });
    sum / count
}

/// Whether it was seen in the last two hours.
pub(super) fn is_present(member: &Member, hours: usize) -> bool {
    let late = |values: &[f32]| {
        values
            .iter()
            .skip(hours.saturating_sub(2))
            .any(|value| !value.is_nan())
    };
    late(&member.memory_hourly) || late(&member.compute_hourly)
}

/// The first and the last hour of which something is known, and how many are.
fn seen(members: &[&Member], hours: usize) -> (f64, f64) {
    let known = |hour: usize| {
        let at = |values: &[f32]| values.get(hour).is_some_and(|value| !value.is_nan());
        members
            .iter()
            .any(|member| at(&member.memory_hourly) || at(&member.compute_hourly))
    };
    let count = (0..hours).filter(|hour| known(*hour)).count();
    let first = (0..hours).find(|hour| known(*hour)).unwrap_or(0);
    let last = (0..hours).rev().find(|hour| known(*hour)).unwrap_or(0);
    (
        count as f64,
        if count == 0 {
            0.0
        } else {
            (last - first + 1) as f64
        },
    )
}

impl Collected {
    /// Pods of these holders, by namespace and name; nothing where one of their devices has no pod.
    pub(super) fn pods_of(&self, wanted: impl Fn(&Holder) -> bool) -> Option<BTreeSet<Pod>> {
        let places = self
            .members
            .keys()
            .filter(|place| wanted(&self.holder(place)));
        places
            .map(|place| {
                let pod = (place.namespace.clone(), place.pod.clone());
                (!place.pod.is_empty()).then_some(pod)
            })
            .collect()
    }

    fn holder(&self, place: &Place) -> Holder {
        let (kind, name) = if !place.pod.is_empty() {
            self.owners.of(&place.namespace, &place.pod)
        } else if !place.job.is_empty() {
            ("SlurmJob".into(), place.job.clone())
        } else {
            let instance = if place.instance.is_empty() {
                String::new()
            } else {
                format!("/{}", place.instance)
            };
            (
                "Device".into(),
                format!("{}/{}{instance}", place.host, place.device),
            )
        };
        Holder {
            namespace: if place.pod.is_empty() {
                String::new()
            } else {
                place.namespace.clone()
            },
            kind,
            name,
        }
    }

    fn usage(&self, holder: Holder, members: &[Held<'_>], hours: usize) -> Usage {
        let present: Vec<Held<'_>> = members
            .iter()
            .filter(|(_, member)| is_present(member, hours))
            .copied()
            .collect();
        let counted: Vec<Held<'_>> = if present.is_empty() {
            members.to_vec()
        } else {
            present.clone()
        };
        let everyone: Vec<&Member> = members.iter().map(|(_, member)| *member).collect();
        let (known_hours, spanned) = seen(&everyone, hours);
        let span_of = |member: &Member| seen(&[member], hours).1;
        let mut memory_hourly = Vec::new();
        let mut compute_hourly = Vec::new();
        let (mut memory, mut tensor) = (Mean::default(), Mean::default());
        let mut dram = None;
        let (mut device_hours, mut device_hours_seen) = (0.0, 0.0);
        for (_, member) in members {
            let span = span_of(member);
            device_hours += span;
            device_hours_seen += seen(&[member], hours).0;
            highest(&mut memory_hourly, &member.memory_hourly);
            highest(&mut compute_hourly, &member.compute_hourly);
            memory.add(mean(&member.memory_hourly), span);
            tensor.add(member.tensor_average.get().unwrap_or(f64::NAN), span);
            higher(&mut dram, member.dram_p95.unwrap_or(f64::NAN));
        }
        let peak = memory_hourly.iter().copied().fold(f32::NAN, f32::max);
        let mib = |mib: f64| Bytes::from_f64(mib * 1_048_576.0);
        let compute = compute(members, &counted, span_of);
        let mut missing = Vec::new();
        if peak.is_nan() {
            missing.push("its memory is not known".into());
        }
        if compute.is_none() {
            missing.push("its compute is not known".into());
        }
        let asked = self.asked(&holder, &counted);
        let (cpu_share, throttled_share) = self.cpus(&asked, members, hours);
        let tenant = members
            .iter()
            .find_map(|(place, _)| self.pod(place)?.tenant.clone());
        Usage {
            tenant: tenant.unwrap_or_else(|| holder.namespace.clone()),
            engine: self.engine(members, hours),
            holder,
            asked,
            hours: known_hours,
            spanned_hours: spanned,
            device_hours,
            device_hours_seen,
            present: !present.is_empty(),
            memory_peak: (!peak.is_nan()).then(|| mib(f64::from(peak))),
            memory_average: memory.get().map(mib),
            memory_hourly,
            memory_full_share: None,
            compute,
            compute_hourly,
            idle: None,
            idle_devices: 0,
            tensor_average: tensor.get(),
            dram_p95: dram,
            cpu_share,
            throttled_share,
            missing,
        }
    }

    fn pod(&self, place: &Place) -> Option<&PodFacts> {
        self.pods.get(&(place.namespace.clone(), place.pod.clone()))
    }

    fn asked(&self, holder: &Holder, members: &[Held<'_>]) -> ResourceRequest {
        let mut devices: BTreeMap<&str, u32> = BTreeMap::new();
        for (place, _) in members {
            *devices.entry(place.pod.as_str()).or_default() += 1;
        }
        let first = members.first().map(|(place, _)| place);
        let facts = first.and_then(|place| self.pod(place));
        let text = |of: fn(&Member) -> &String| {
            let mut all = members.iter().map(|(_, member)| of(member));
            all.find(|text| !text.is_empty()).cloned()
        };
        let in_instance = members.iter().any(|(place, _)| !place.instance.is_empty());
        let slice = text(|member| &member.slice).or_else(|| {
            let mut asked = facts.filter(|_| in_instance)?.slices.iter();
            // Of several it cannot be told which one this is.
            asked.next().filter(|_| asked.next().is_none()).cloned()
        });
        let requested = facts
            .and_then(|facts| PodFacts::sum(&facts.devices))
            .map(|count| count as u32);
        let most = devices.values().copied().max().unwrap_or(1);
        let key = (
            holder.namespace.clone(),
            holder.kind.clone(),
            holder.name.clone(),
        );
        let limits = facts.and_then(|facts| PodFacts::sum(&facts.cpu_limits));
        let requests = facts.and_then(|facts| PodFacts::sum(&facts.cpu_requests));
        let asker =
            facts.and_then(|facts| facts.devices.keys().find(|name| !name.is_empty()).cloned());
        ResourceRequest {
            gpu: text(|member| &member.model),
            slice_untold: slice.is_none() && in_instance,
            slice,
            shared_by: 1,
            devices: requested.filter(|count| *count > 0).unwrap_or(most),
            replicas: self
                .replicas
                .get(&key)
                .copied()
                .unwrap_or(devices.len() as u32)
                .max(1),
            cpus: limits.or(requests).filter(|cpus| *cpus > 0.0),
            container: asker.or_else(|| text(|member| &member.container)),
            cpus_limited: limits.is_some(),
        }
    }

    /// Shares of CPUs in use and of periods throttled, over all pods and the time that each was there.
    fn cpus(
        &self,
        asked: &ResourceRequest,
        members: &[Held<'_>],
        hours: usize,
    ) -> (Option<f64>, Option<f64>) {
        let mut spans: BTreeMap<Pod, f64> = BTreeMap::new();
        for (place, member) in members.iter().filter(|(place, _)| !place.pod.is_empty()) {
            let span = spans
                .entry((place.namespace.clone(), place.pod.clone()))
                .or_default();
            *span = span.max(seen(&[member], hours).1);
        }
        let (mut used, mut had, mut throttled, mut periods) = (0.0, 0.0, 0.0, 0.0);
        let mut measured = false;
        for (pod, span) in &spans {
            let Some(facts) = self.pods.get(pod) else {
                continue;
            };
            if let (Some(seconds), Some(cpus)) = (PodFacts::sum(&facts.cpu_seconds), asked.cpus) {
                used += seconds;
                had += cpus * span * 3600.0;
            }
            if let Some(of_pod) = PodFacts::sum(&facts.throttled) {
                measured = true;
                throttled += of_pod;
                // Without a count of periods: ten a second, as the kernel's default is.
                periods += PodFacts::sum(&facts.periods).unwrap_or(span * 36_000.0);
            }
        }
        let share = |part: f64, whole: f64| (whole > 0.0 && part.is_finite()).then(|| part / whole);
        (
            share(used, had),
            share(throttled, periods)
                .filter(|_| measured)
                .map(|share| share.min(1.0)),
        )
    }

    fn engine(&self, members: &[Held<'_>], hours: usize) -> Option<EngineUse> {
        let pods: BTreeSet<Pod> = members
            .iter()
            .map(|(place, _)| (place.namespace.clone(), place.pod.clone()))
            .collect();
        let found: Vec<&EngineFacts> = pods
            .iter()
            .filter_map(|pod| self.pods.get(pod)?.engine.as_ref())
            .collect();
        let first = found.first()?;
        let mut waiting = Mean::default();
        let mut cache = None;
        let (mut sum, mut count, mut prompts, mut answers) = (0.0, 0.0, 0.0, 0.0);
        for facts in &found {
            waiting.add(facts.waiting.get().unwrap_or(f64::NAN), 1.0);
            higher(&mut cache, facts.cache_peak.unwrap_or(f64::NAN));
            sum += facts.latency_sum;
            count += facts.latency_count;
            prompts += facts.prompt_tokens;
            answers += facts.answer_tokens;
        }
        let of_request = |part: f64| (count > 0.0 && part > 0.0).then(|| part / count);
        Some(EngineUse {
            engine: first.engine.clone(),
            model: first.model.clone(),
            waiting: waiting.get(),
            cache_peak: cache,
            weights: None,
            latency: of_request(sum),
            requests: (count > 0.0).then(|| count / (hours as f64 * 3600.0)),
            prompt_tokens: of_request(prompts),
            answer_tokens: of_request(answers),
        })
    }
}
