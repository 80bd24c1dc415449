//! LeaderWorkerSets: a replica that spans hosts is a group of pods, one for each host. All are told
//! how to find the first, which answers requests.
//!
//! Fields and variables as kubernetes-sigs/lws has them at v0.9.0: `api/leaderworkerset/v1`
//! (`LWS_LEADER_ADDRESS`, `LWS_WORKER_INDEX`) and `docs/examples/{vllm,sglang}`. The engines' flags are
//! in their own modules.

use super::{
    EmitError, Form,
    arguments::{Script, Server},
    containers::image,
    hosts::{HostArgument, Hosts},
    kubernetes::{name, resource},
    pods::{literal, mounts, ports, probes, resources, shared_gib, token, volumes},
    shell::comments,
    yaml,
};
use gpuwise_domain::{
    deployment::Deployment,
    facts::{Context, EngineFacts},
};
use serde_json::{Value, json};

const LEADER: &str = "$(LWS_LEADER_ADDRESS)";
const PLACE: &str = "LWS_WORKER_INDEX";

pub(super) fn manifests(
    script: &Script,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
) -> Result<String, EmitError> {
    let image = image(deployment, facts, context)?;
    let resource = resource(deployment, context);
    let mut out = comments(script);
    out.push_str(
        "# needs the controller of LeaderWorkerSet: https://lws.sigs.k8s.io\n\
         # gated models need: kubectl create secret generic hf-token --from-literal=token=…\n",
    );
    for (index, server) in script.servers.iter().enumerate() {
        let name = name(deployment, server);
        let hosts = server
            .hosts
            .as_ref()
            .ok_or_else(|| one_host(deployment, server))?;
        if index > 0 {
            out.push_str("---\n");
        }
        out.push_str(&yaml::document(&group(
            &name, &image, &resource, server, hosts,
        )));
        out.push_str("---\n");
        out.push_str(&yaml::document(&front(&name, server)));
    }
    Ok(out)
}

fn one_host(deployment: &Deployment, server: &Server) -> EmitError {
    let problem = match super::host_gpus(deployment) {
        Some((instance, host)) => format!(
            "is for replicas that span hosts, and {instance} has {host} GPUs for the {} of this one",
            server.gpus
        ),
        None => {
            "is for replicas that span hosts, and how many GPUs a host has is not known here".into()
        }
    };
    EmitError::NotInForm {
        form: Form::Lws.name(),
        problem,
        instead: "emit k8s".into(),
    }
}

fn group(name: &str, image: &str, resource: &str, server: &Server, hosts: &Hosts) -> Value {
    let shared = shared_gib(server, hosts.count);
    let template = |role: &str, leads: bool| {
        let mut container = json!({
            "name": role,
            "image": image,
            "command": command(server, hosts, leads),
            "args": arguments(server, hosts, leads),
        });
        if let Value::Object(container) = &mut container {
            container.insert("env".into(), json!([token()]));
            container.insert(
                "resources".into(),
                resources(server, resource, hosts.gpus, shared),
            );
            if leads {
                container.insert("ports".into(), ports(server.port));
                container.extend(probes());
            }
            container.insert("volumeMounts".into(), mounts());
        }
        json!({
            "metadata": {"labels": {"app": name, "role": role}},
            "spec": {
                "enableServiceLinks": false,
                "containers": [container],
                "volumes": volumes(shared),
            },
        })
    };
    json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": server.replicas,
            "leaderWorkerTemplate": {
                "size": hosts.count,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": template("leader", true),
                "workerTemplate": template("worker", false),
            },
        },
    })
}

/// Flags of the first host, or of the others.
fn told(hosts: &Hosts, leads: bool) -> impl Iterator<Item = (&str, Option<&HostArgument>)> {
    let others = if leads { &[][..] } else { &hosts.others };
    let flags = hosts.flags.iter().chain(others);
    flags.map(|(flag, said)| (flag.as_str(), said.as_ref()))
}

/// The program; behind a shell where a flag has to be computed from the host's place.
fn command(server: &Server, hosts: &Hosts, leads: bool) -> Vec<String> {
    let program = server.words.iter().take(1).map(|word| literal(word));
    let computed: String = told(hosts, leads)
        .filter_map(|(flag, said)| match said {
            Some(HostArgument::RanksBefore(ranks)) => {
                Some(format!(" {flag} \"$(({PLACE} * {ranks}))\""))
            }
            _ => None,
        })
        .collect();
    if computed.is_empty() {
        return program.collect();
    }
    let line = literal(&format!("exec \"$@\"{computed}"));
    ["sh".into(), "-c".into(), line, "sh".into()]
        .into_iter()
        .chain(program)
        .collect()
}

/// All that follows the program.
fn arguments(server: &Server, hosts: &Hosts, leads: bool) -> Vec<String> {
    let mut words: Vec<String> = server
        .words
        .iter()
        .skip(1)
        .map(String::as_str)
        .chain(server.arguments())
        .map(literal)
        .collect();
    for (flag, said) in told(hosts, leads) {
        let value = match said {
            None => None,
            Some(HostArgument::Text(text)) => Some(literal(text)),
            Some(HostArgument::Leader) => Some(LEADER.into()),
            Some(HostArgument::LeaderAt(port)) => Some(format!("{LEADER}:{port}")),
            Some(HostArgument::Place) => Some(format!("$({PLACE})")),
            // The shell of the command says it.
            Some(HostArgument::RanksBefore(_)) => continue,
        };
        words.push(flag.into());
        words.extend(value);
    }
    words
}

/// The service before the first pods of all groups.
fn front(name: &str, server: &Server) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "selector": {"leaderworkerset.sigs.k8s.io/name": name, "role": "leader"},
            "ports": [{"name": "http", "port": server.port, "targetPort": "http"}],
        },
    })
}
