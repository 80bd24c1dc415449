//! The series of a planted fleet as exporters would have written them: dcgm-exporter with the labels
//! of its pods (old spelling `exported_pod`, new `pod`; field names before and after DCGM 4.6),
//! kube-state-metrics, cAdvisor and vLLM.

use super::{
    planted::{Class, Workload, chance},
    signals::{Fault, Signal},
};

/// One series: labels sorted by name, and what it shows.
pub(crate) struct Series {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) workload: usize,
    pub(crate) part: u64,
    pub(crate) signal: Signal,
    pub(crate) fault: Fault,
}

/// Which spelling the exporters of a fleet have.
#[derive(Clone, Copy)]
struct Age {
    /// Names of DCGM 4.6 and labels without `exported_`.
    new: bool,
}

const DEVICE: [(Signal, &str, &str); 5] = [
    (Signal::Memory, "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED"),
    (
        Signal::Sm,
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_PROF_SM_UTIL_RATIO",
    ),
    (
        Signal::Tensor,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
    ),
    (
        Signal::Dram,
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "DCGM_FI_PROF_DRAM_UTIL_RATIO",
    ),
    (
        Signal::Busy,
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_GPU_UTIL_RATIO",
    ),
];

pub(crate) fn of_fleet(seed: u64, fleet: &[Workload], steps: u64, plain: bool) -> Vec<Series> {
    let age = Age { new: seed % 4 >= 2 };
    let mut out = Vec::new();
    for (index, of) in fleet.iter().enumerate() {
        let before = out.len();
        if plain {
            plainly(&mut out, index, of, age);
        } else {
            workload(&mut out, seed, index, of, age, steps);
        }
        for series in out.iter_mut().skip(before) {
            series.labels.sort();
        }
    }
    out
}

fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect()
}

/// The name of a pod, by what owns it.
fn pod_name(of: &Workload, pod: u64) -> String {
    let word = |what: u64, count: usize| -> String {
        (0..count as u64)
            .map(|at| {
                let letters = b"bcdfghjklmnpqrstvwxz2456789";
                let drawn = chance(of.number, 7000 + what, at) * letters.len() as f64;
                char::from(letters[drawn as usize % letters.len()])
            })
            .collect()
    };
    match of.kind {
        "Deployment" => format!("{}-{}-{}", of.name, word(0, 9), word(1 + pod, 5)),
        "StatefulSet" => format!("{}-{pod}", of.name),
        "Job" => format!("{}-{}", of.name, word(1 + pod, 5)),
        _ => of.name.clone(),
    }
}

/// Labels of a device's series, and of the pod that holds it.
fn device(of: &Workload, pod: u64, gpu: u64, name: &str, age: Age) -> Vec<(String, String)> {
    let number = (of.number * 64 + pod * 8 + gpu) % 8;
    let host = format!("node-{:04}", (of.number * 8 + pod) / 4);
    let mut out = labels(&[
        ("__name__", name),
        ("Hostname", &host),
        ("UUID", &format!("GPU-{:08x}-{pod:02}{gpu:02}", of.number)),
        ("gpu", &number.to_string()),
        ("device", &format!("nvidia{number}")),
        ("modelName", of.board.model),
        ("instance", &format!("{host}:9400")),
        ("job", "dcgm-exporter"),
    ]);
    if let Some((profile, _)) = of.slice {
        out.extend(labels(&[("GPU_I_ID", "7"), ("GPU_I_PROFILE", profile)]));
    }
    let pod = pod_name(of, pod);
    if age.new {
        out.extend(labels(&[
            ("namespace", &of.namespace),
            ("pod", &pod),
            ("container", "main"),
        ]));
    } else {
        out.extend(labels(&[
            ("exported_namespace", &of.namespace),
            ("exported_pod", &pod),
            ("exported_container", "main"),
            ("namespace", "gpu-operator"),
            (
                "pod",
                &format!("dcgm-exporter-{}", host.trim_start_matches("node-")),
            ),
            ("container", "nvidia-dcgm-exporter"),
        ]));
    }
    out
}

fn push(
    out: &mut Vec<Series>,
    workload: usize,
    part: u64,
    signal: Signal,
    labels: Vec<(String, String)>,
    fault: Fault,
) {
    out.push(Series {
        labels,
        workload,
        part,
        signal,
        fault,
    });
}

/// Six series: four of the device, two of its CPUs.
fn plainly(out: &mut Vec<Series>, index: usize, of: &Workload, age: Age) {
    for (signal, old, new) in DEVICE.iter().take(4) {
        let name = if age.new { new } else { old };
        push(
            out,
            index,
            0,
            *signal,
            device(of, 0, 0, name, age),
            Fault::default(),
        );
    }
    let pod = pod_name(of, 0);
    for (signal, name) in [
        (Signal::CpuSeconds, "container_cpu_usage_seconds_total"),
        (
            Signal::Throttled,
            "container_cpu_cfs_throttled_periods_total",
        ),
    ] {
        let pairs = labels(&[
            ("__name__", name),
            ("namespace", &of.namespace),
            ("pod", &pod),
            ("container", "main"),
            ("job", "kubelet"),
        ]);
        push(out, index, 0, signal, pairs, Fault::default());
    }
}

/// What is spoilt in the series of a workload.
fn fault(seed: u64, of: &Workload, steps: u64) -> (Fault, u64) {
    let draw = |what: u64| chance(seed, 9000 + of.number, what);
    if of.class == Class::Young {
        return (Fault::default(), 0);
    }
    let at = |what: u64, reach: u64| {
        let begin = (draw(what) * (steps - reach) as f64) as u64;
        Some((begin, begin + reach))
    };
    let mut fault = Fault::default();
    if draw(1) < 0.15 {
        fault.gap = at(2, 24 + (draw(3) * 72.0) as u64);
    }
    if draw(4) < 0.12 {
        fault.nan = at(5, 6 + (draw(6) * 20.0) as u64);
    }
    if draw(7) < 0.12 {
        fault.blank = at(8, 1).map(|(begin, _)| begin);
    }
    if draw(9) < 0.15 {
        fault.reset = at(10, 1).map(|(begin, _)| begin);
    }
    (
        fault,
        if draw(11) < 0.2 {
            1 + (draw(12) * 2.0) as u64
        } else {
            0
        },
    )
}

fn workload(out: &mut Vec<Series>, seed: u64, index: usize, of: &Workload, age: Age, steps: u64) {
    let (fault, copy) = fault(seed, of, steps);
    for pod in 0..of.pods {
        for gpu in 0..of.gpus {
            for (signal, old, new) in DEVICE {
                // In MIG mode there is no utilisation by nvidia-smi.
                if signal == Signal::Busy && of.slice.is_some() {
                    continue;
                }
                let name = if age.new { new } else { old };
                let pairs = device(of, pod, gpu, name, age);
                let part = pod * 8 + gpu;
                match copy {
                    // Two scrapers for safety, one of them a little late.
                    1 => {
                        let mut twin = pairs.clone();
                        twin.extend(labels(&[("prometheus_replica", "b")]));
                        push(out, index, part, signal, twin, Fault { late: 17, ..fault });
                    }
                    // The exporter's address changed, and both overlap for a while.
                    2 => {
                        let middle = steps / 2;
                        let mut twin = pairs.clone();
                        for pair in twin.iter_mut().filter(|pair| pair.0 == "instance") {
                            pair.1 = format!("10.0.0.{}:9400", of.number % 250);
                        }
                        push(
                            out,
                            index,
                            part,
                            signal,
                            twin,
                            Fault {
                                only: Some((middle - 6, steps)),
                                ..fault
                            },
                        );
                        push(
                            out,
                            index,
                            part,
                            signal,
                            pairs,
                            Fault {
                                only: Some((0, middle)),
                                ..fault
                            },
                        );
                        continue;
                    }
                    _ => {}
                }
                push(out, index, part, signal, pairs, fault);
            }
        }
        host(out, index, of, pod, fault);
    }
    if of.kind == "Deployment" {
        let pairs = labels(&[
            ("__name__", "kube_deployment_spec_replicas"),
            ("namespace", &of.namespace),
            ("deployment", &of.name),
            ("job", "kube-state-metrics"),
        ]);
        push(
            out,
            index,
            0,
            Signal::Constant(of.pods as u32),
            pairs,
            Fault::default(),
        );
        let set = pod_name(of, 0);
        let set = set.rsplit_once('-').map_or("", |(set, _)| set);
        let pairs = labels(&[
            ("__name__", "kube_replicaset_owner"),
            ("namespace", &of.namespace),
            ("replicaset", set),
            ("owner_kind", "Deployment"),
            ("owner_name", &of.name),
            ("job", "kube-state-metrics"),
        ]);
        push(out, index, 0, Signal::Constant(1), pairs, Fault::default());
    }
}

/// What Kubernetes and the kubelet say of a pod, and its engine.
fn host(out: &mut Vec<Series>, index: usize, of: &Workload, pod: u64, fault: Fault) {
    let name = pod_name(of, pod);
    let base = |metric: &str, job: &str| {
        labels(&[
            ("__name__", metric),
            ("namespace", &of.namespace),
            ("pod", &name),
            ("container", "main"),
            ("job", job),
        ])
    };
    let resource = of.slice.map_or("nvidia_com_gpu".into(), |(profile, _)| {
        format!("nvidia_com_mig_{}", profile.replace('.', "_"))
    });
    for (metric, resource, value) in [
        (
            "kube_pod_container_resource_requests",
            resource.as_str(),
            of.gpus as u32,
        ),
        (
            "kube_pod_container_resource_requests",
            "cpu",
            of.cpus as u32,
        ),
        ("kube_pod_container_resource_limits", "cpu", of.cpus as u32),
    ] {
        let mut pairs = base(metric, "kube-state-metrics");
        pairs.extend(labels(&[("resource", resource)]));
        push(
            out,
            index,
            pod,
            Signal::Constant(value),
            pairs,
            Fault::default(),
        );
    }
    let (kind, owner) = match of.kind {
        "Deployment" => (
            "ReplicaSet",
            name.rsplit_once('-').map_or("", |(set, _)| set),
        ),
        "Pod" => ("<none>", "<none>"),
        kind => (kind, of.name.as_str()),
    };
    let mut pairs = labels(&[
        ("__name__", "kube_pod_owner"),
        ("namespace", &of.namespace),
        ("pod", &name),
        ("job", "kube-state-metrics"),
    ]);
    pairs.extend(labels(&[("owner_kind", kind), ("owner_name", owner)]));
    push(
        out,
        index,
        pod,
        Signal::Constant(1),
        pairs,
        Fault::default(),
    );
    for (signal, metric) in [
        (Signal::CpuSeconds, "container_cpu_usage_seconds_total"),
        (
            Signal::Throttled,
            "container_cpu_cfs_throttled_periods_total",
        ),
        (Signal::Periods, "container_cpu_cfs_periods_total"),
    ] {
        push(out, index, pod, signal, base(metric, "kubelet"), fault);
    }
    if of.engine.is_some() {
        for (signal, metric) in [
            (Signal::Waiting, "vllm:num_requests_waiting"),
            (Signal::Cache, "vllm:kv_cache_usage_perc"),
        ] {
            let mut pairs = base(metric, "vllm");
            pairs.extend(labels(&[(
                "model_name",
                "meta-llama/Llama-3.1-8B-Instruct",
            )]));
            push(out, index, pod, signal, pairs, fault);
        }
    }
}
