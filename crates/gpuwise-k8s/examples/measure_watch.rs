//! How much memory and time an inventory of a large cluster takes, against a server on loopback in a process
//! of its own:
//!
//!     cargo run -p gpuwise-k8s --example measure_watch -- [NODES] [PODS]
//!
//! Prints the time to ready, the resident memory then and at most, the times of single changes, and what was
//! asked of the server.

#[expect(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/server.rs"]
mod server;

use gpuwise_k8s::{
    inventory::{Inventory, Kind},
    watch::{Live, Settings, start},
};
use kube::{Client, Config};
use server::Server;
use std::{
    error::Error,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
/// Single changes that are timed.
const CHANGES: usize = 50;

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| {
        words
            .get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(or)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    if words.first().is_some_and(|word| word == "serve") {
        return runtime.block_on(serve(
            number(1, 5_000),
            number(2, 50_000),
            words.get(3).is_some(),
        ));
    }
    let (nodes, pods) = (number(0, 5_000), number(1, 50_000));
    for streaming in [true, false] {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", &nodes.to_string(), &pods.to_string()]);
        if streaming {
            command.arg("streaming");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let mut orders = child.stdin.take().ok_or("no input")?;
        let url = said.next().ok_or("no address")??;
        let form = if streaming {
            "lists as the beginning of a watch"
        } else {
            "pages of 500"
        };
        println!("{nodes} nodes, {pods} pods, {form}:");
        runtime.block_on(measure(&url, streaming, pods, |at| {
            Ok(writeln!(orders, "change {at}")?)
        }))?;
        writeln!(orders, "asked")?;
        for line in said.by_ref() {
            let line = line?;
            if line.is_empty() {
                break;
            }
            println!("  asked {line}");
        }
        drop(orders);
        child.wait()?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example")]
async fn measure(
    url: &str,
    streaming: bool,
    pods: usize,
    mut change: impl FnMut(usize) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let before = resident("VmRSS")?;
    let client = Client::try_from(Config::new(url.parse()?))?;
    let began = Instant::now();
    let idle = spent()?;
    let settings = Settings {
        streaming: Some(streaming),
        ..Settings::default()
    };
    let live = start(client, settings).await?;
    let first = live.ready().await?;
    println!(
        "  ready after {:.2} s, of which {:.2} s of this process's processor time: {} nodes, {} pods",
        began.elapsed().as_secs_f64(),
        spent()? - idle,
        first.nodes.len(),
        first.pods.len()
    );
    drop(first);
    let mut took = Vec::new();
    for at in 0..CHANGES {
        let name = name(at * 7 % pods);
        let sent = Instant::now();
        change(at * 7 % pods)?;
        seen(&live, &name).await?;
        took.push(sent.elapsed());
    }
    took.sort();
    let at = |share: usize| {
        took.get(took.len() * share / 100)
            .copied()
            .unwrap_or_default()
            .as_millis()
    };
    println!(
        "  a change seen after {} ms (median), {} ms (99 %)",
        at(50),
        at(99)
    );
    println!(
        "  resident {} MiB, at most {} MiB; before {before} MiB",
        resident("VmRSS")?,
        resident("VmHWM")?
    );
    let figures = live.figures();
    println!(
        "  copies {}, lists of pods {}, errors {}",
        figures.copies(),
        figures.of(Kind::Pods).lists,
        figures.of(Kind::Pods).errors
    );
    let idle = spent()?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("  idle: {:.4} of a core", (spent()? - idle) / 5.0);
    Ok(())
}

/// Waits until this pod is told to end.
async fn seen(live: &Live, name: &str) -> Result<(), Box<dyn Error>> {
    let mut copies = live.subscribe();
    let ending = |all: &Arc<Inventory>| {
        let mut found = all
            .pods
            .namespaces()
            .filter_map(|namespace| all.pods.get(namespace, name));
        found.any(|pod| pod.deleting.is_some())
    };
    tokio::time::timeout(Duration::from_secs(20), copies.wait_for(ending)).await??;
    Ok(())
}

/// A figure of the kernel's about this process, in MiB.
fn resident(figure: &str) -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text
        .lines()
        .find(|line| line.starts_with(figure))
        .ok_or("no such figure")?;
    let kib: u64 = line.split_whitespace().nth(1).ok_or("no figure")?.parse()?;
    Ok(kib / 1024)
}

/// Processor seconds of this process (ticks of 1/100 s).
fn spent() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks = |at: usize| {
        rest.split_whitespace()
            .nth(at)
            .and_then(|text| text.parse::<f64>().ok())
    };
    Ok((ticks(11).ok_or("utime")? + ticks(12).ok_or("stime")?) / 100.0)
}

#[expect(clippy::print_stdout, reason = "an example")]
async fn serve(nodes: usize, pods: usize, streaming: bool) -> Result<(), Box<dyn Error>> {
    let server = Server::start(streaming).await;
    for at in 0..nodes {
        server.put(NODES, "", &format!("node-{at:04}"), &node(at));
    }
    for at in 0..pods {
        server.put(PODS, &namespace(at), &name(at), &pod(at, nodes, ""));
    }
    println!("{}", server.url);
    let mut lines = std::io::stdin().lines();
    loop {
        let line = tokio::task::block_in_place(|| lines.next());
        let Some(line) = line else { return Ok(()) };
        let line = line?;
        if let Some(at) = line.strip_prefix("change ") {
            let at: usize = at.parse()?;
            let ending = r#""deletionTimestamp":"2026-11-26T12:00:00Z","#;
            server.put(PODS, &namespace(at), &name(at), &pod(at, nodes, ending));
            continue;
        }
        for part in ["/nodes?", "/pods?&limit", "/pods?&watch", ""] {
            println!(
                "{} times {}",
                server.asked(part),
                if part.is_empty() { "in all" } else { part }
            );
        }
        println!();
    }
}

fn namespace(at: usize) -> String {
    format!("team-{}", at % 40)
}

fn name(at: usize) -> String {
    format!("service-{}-7d9f8b6c5-{at:05}", at / 10)
}

/// A node as GPU feature discovery and a cloud label it: 60 labels, 20 images.
fn node(at: usize) -> String {
    let more: Vec<String> = (0..45)
        .map(|label| format!("\"feature.node.kubernetes.io/cpu-cpuid.F{label}\":\"true\""))
        .collect();
    let images: Vec<String> = (0..20)
        .map(|image| format!("{{\"names\":[\"registry.example.com/team/image-{image}@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"registry.example.com/team/image-{image}:v1.2.3\"],\"sizeBytes\":{}}}", 100_000_000 + image))
        .collect();
    format!(
        r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"node-{at:04}","uid":"5f0c4a6e-0000-4000-8000-{at:012}","resourceVersion":"%V","creationTimestamp":"2026-11-01T00:00:00Z",
"labels":{{"kubernetes.io/hostname":"node-{at:04}","topology.kubernetes.io/zone":"zone-{}","topology.kubernetes.io/region":"here","karpenter.sh/nodepool":"gpu-{}","nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3","nvidia.com/gpu.count":"8","nvidia.com/gpu.memory":"81559","nvidia.com/gpu.family":"hopper","nvidia.com/cuda.driver.major":"570","nvidia.com/mig.capable":"true","nvidia.com/gpu.replicas":"1",{}}},
"annotations":{{"csi.volume.kubernetes.io/nodeid":"{{\"ebs.csi.aws.com\":\"i-0123456789abcdef0\"}}","volumes.kubernetes.io/controller-managed-attach-detach":"true"}},{}}},
"spec":{{"providerID":"cloud:///zone/i-{at:017}","podCIDR":"10.0.0.0/24","taints":[{{"key":"nvidia.com/gpu","value":"present","effect":"NoSchedule"}}]}},
"status":{{"capacity":{{"cpu":"192","memory":"2113411648Ki","pods":"110","ephemeral-storage":"800Gi","hugepages-2Mi":"0","nvidia.com/gpu":"8"}},"allocatable":{{"cpu":"191450m","memory":"2110000000Ki","pods":"110","ephemeral-storage":"700Gi","hugepages-2Mi":"0","nvidia.com/gpu":"8"}},
"conditions":[{{"type":"MemoryPressure","status":"False","reason":"KubeletHasSufficientMemory","message":"kubelet has sufficient memory available"}},{{"type":"DiskPressure","status":"False","reason":"KubeletHasNoDiskPressure","message":"kubelet has no disk pressure"}},{{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status","lastHeartbeatTime":"2026-11-26T10:00:00Z"}}],
"images":[{}],"nodeInfo":{{"kernelVersion":"6.8.0","osImage":"Ubuntu 24.04","containerRuntimeVersion":"containerd://2.0.0","kubeletVersion":"v1.37.2"}}}}}}"#,
        at % 3,
        at % 12,
        more.join(","),
        managed(30),
        images.join(",")
    )
}

/// A pod of one of some thousand Deployments: volumes, probes, environment, managed fields.
fn pod(at: usize, nodes: usize, ending: &str) -> String {
    let service = at / 10;
    let environment: Vec<String> = (0..20)
        .map(|one| format!("{{\"name\":\"SETTING_{one}\",\"value\":\"value-of-setting-{one}\"}}"))
        .collect();
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{}","generateName":"service-{service}-7d9f8b6c5-","namespace":"{}","uid":"7a1b2c3d-0000-4000-8000-{at:012}","resourceVersion":"%V","creationTimestamp":"2026-11-20T00:00:00Z",{ending}
"labels":{{"app":"service-{service}","pod-template-hash":"7d9f8b6c5","team":"team-{}"}},"annotations":{{"prometheus.io/scrape":"true","kubectl.kubernetes.io/restartedAt":"2026-11-20T00:00:00Z"}},
"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"service-{service}-7d9f8b6c5","uid":"1a1b2c3d-0000-4000-8000-{service:012}","controller":true,"blockOwnerDeletion":true}}],{}}},
"spec":{{"nodeName":"node-{:04}","schedulerName":"default-scheduler","priority":1000,"priorityClassName":"serving","serviceAccountName":"default","terminationGracePeriodSeconds":30,
"tolerations":[{{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"}},{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],
"volumes":[{{"name":"kube-api-access","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}}]}}}}],
"containers":[{{"name":"server","image":"registry.example.com/team/image:v1.2.3","args":["serve","--port","8000"],"env":[{}],"ports":[{{"containerPort":8000}}],"resources":{{"limits":{{"nvidia.com/gpu":"{}","memory":"64Gi"}},"requests":{{"cpu":"8","memory":"64Gi","nvidia.com/gpu":"{}"}}}},"livenessProbe":{{"httpGet":{{"path":"/health","port":8000}},"periodSeconds":10}},"readinessProbe":{{"httpGet":{{"path":"/health","port":8000}},"periodSeconds":5}},"volumeMounts":[{{"name":"kube-api-access","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}]}}]}},
"status":{{"phase":"Running","hostIP":"10.1.2.3","podIP":"10.2.3.4","startTime":"2026-11-20T00:00:05Z","qosClass":"Burstable","conditions":[{{"type":"PodScheduled","status":"True"}},{{"type":"Initialized","status":"True"}},{{"type":"ContainersReady","status":"True"}},{{"type":"Ready","status":"True"}}],"containerStatuses":[{{"name":"server","ready":true,"restartCount":0,"image":"registry.example.com/team/image:v1.2.3","imageID":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","containerID":"containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","state":{{"running":{{"startedAt":"2026-11-20T00:00:10Z"}}}}}}]}}}}"#,
        name(at),
        namespace(at),
        at % 40,
        managed(40),
        at % nodes.max(1),
        environment.join(","),
        at % 2,
        at % 2
    )
}

/// Who manages which fields: the larger part of most objects.
fn managed(fields: usize) -> String {
    let fields: Vec<String> = (0..fields)
        .map(|at| format!("\"f:field{at}\":{{\".\":{{}},\"f:inner\":{{}}}}"))
        .collect();
    format!(
        "\"managedFields\":[{{\"manager\":\"kube-controller-manager\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"time\":\"2026-11-20T00:00:00Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{{\"f:spec\":{{{}}}}}}}]",
        fields.join(",")
    )
}
