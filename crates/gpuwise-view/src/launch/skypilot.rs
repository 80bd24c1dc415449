//! A service of SkyPilot: machines by the accelerators that they have, the engine from PyPI, and
//! replicas behind one endpoint.
//!
//! Fields as `docs/source/reference/yaml-spec.rst` of skypilot-org/skypilot and the service
//! specification (docs.skypilot.co, `serving/service-yaml-spec`) have them; several nodes as in its
//! `llm/vllm/vllm-multinode.sky.yaml`, with the engine's own flags in place of Ray. Names of
//! accelerators: `get_common_gpus` in its `sky/catalog/__init__.py`, and GB200 and RTXPRO6000 of its
//! catalogues.

use super::{
    EmitError, Form,
    arguments::{Script, Server},
    engine_at,
    engines::{Launcher, launcher},
    hosts::{HostArgument, HostFlag, Hosts},
    kubernetes::name,
    shell::{command, comments, quoted},
    vendor, yaml,
};
use gpuwise_domain::{
    deployment::{Deployment, Rental},
    facts::{Context, EngineFacts, Vendor},
    offer::Terms,
};
use serde_json::{Map, json};
use std::fmt::Write as _;

/// Our names and SkyPilot's; one of its names may be of several boards.
const ACCELERATORS: [(&str, &str); 19] = [
    ("T4", "T4"),
    ("V100 PCIe 16GB", "V100"),
    ("V100 SXM2 16GB", "V100"),
    ("V100 PCIe 32GB", "V100-32GB"),
    ("V100 SXM2 32GB", "V100-32GB"),
    ("A10", "A10"),
    ("A10G", "A10G"),
    ("A100 PCIe 40GB", "A100"),
    ("A100 SXM4 40GB", "A100"),
    ("A100 PCIe 80GB", "A100-80GB"),
    ("A100 SXM4 80GB", "A100-80GB"),
    ("L4", "L4"),
    ("L40S", "L40S"),
    ("H100 PCIe 80GB", "H100"),
    ("H100 SXM5 80GB", "H100"),
    ("H200 SXM 141GB", "H200"),
    ("B200 SXM 180GB", "B200"),
    ("GB200 186GB", "GB200"),
    ("RTX PRO 6000 Blackwell Server", "RTXPRO6000"),
];

/// Providers of offers that SkyPilot has under the same name.
const CLOUDS: [&str; 5] = ["aws", "azure", "gcp", "lambda", "nebius"];

/// How long loading may take: as long as probes of the other forms wait.
const LOADING_SECONDS: u32 = 1800;

pub(super) fn service(
    script: &Script,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
) -> Result<String, EmitError> {
    let [server] = script.servers.as_slice() else {
        return Err(cannot(
            "has one pool of replicas, and prefill and decode are two",
            "emit llm-d or k8s",
        ));
    };
    let accelerator = accelerator(deployment, context)?;
    let gpus = server
        .hosts
        .as_ref()
        .map_or(server.gpus, |hosts| hosts.gpus);
    let rental = deployment.rental.as_ref();
    let mut out = comments(script);
    out.push_str(
        "# sky serve up THIS_FILE, for gated models with --secret HF_TOKEN\n\
         # accelerators are SkyPilot's names, which do not tell boards of one GPU apart\n",
    );
    let mut resources = Map::new();
    if let Some(infra) = rental.and_then(infra) {
        resources.insert("infra".into(), infra.into());
    }
    resources.insert(
        "accelerators".into(),
        format!("{accelerator}:{gpus}").into(),
    );
    match rental.map(|rental| rental.terms) {
        Some(Terms::Spot) => {
            resources.insert("use_spot".into(), true.into());
        }
        Some(Terms::Reserved) => {
            out.push_str("# priced as reserved: SkyPilot starts it on demand where no reservation is set up\n");
        }
        Some(Terms::OnDemand) | None => {}
    }
    resources.insert("ports".into(), server.port.into());
    let mut root = json!({
        "name": name(deployment, server),
        "resources": resources,
        "secrets": {"HF_TOKEN": ""},
    });
    if let Some(hosts) = &server.hosts {
        root["num_nodes"] = hosts.count.into();
    }
    root["setup"] = setup(deployment, facts)?.into();
    root["run"] = run(server).into();
    root["service"] = json!({
        "readiness_probe": {"path": "/health", "initial_delay_seconds": LOADING_SECONDS},
        "replicas": server.replicas,
    });
    out.push_str(&yaml::document(&root));
    Ok(out)
}

fn cannot(problem: impl Into<String>, instead: &str) -> EmitError {
    EmitError::NotInForm {
        form: Form::SkyPilot.name(),
        problem: problem.into(),
        instead: instead.into(),
    }
}

fn accelerator(deployment: &Deployment, context: &Context) -> Result<&'static str, EmitError> {
    if deployment.slice.is_some() {
        return Err(cannot(
            "gives whole GPUs, and this deployment is on slices",
            "plan with --no-slices, or emit k8s",
        ));
    }
    let known = ACCELERATORS
        .iter()
        .find(|(ours, _)| *ours == deployment.gpu);
    match known {
        Some((_, theirs)) if vendor(context) == Vendor::Nvidia => Ok(theirs),
        _ => Err(cannot(
            format!("has no name for {} that is known here", deployment.gpu),
            "emit docker or k8s",
        )),
    }
}

/// Cloud and region, where the offer's provider is one of SkyPilot's.
fn infra(rental: &Rental) -> Option<String> {
    let cloud = CLOUDS
        .into_iter()
        .find(|cloud| rental.provider.name() == *cloud)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if rental.region.is_empty() || !rental.region.chars().all(plain) {
        return Some(cloud.into());
    }
    Some(format!("{cloud}/{}", rental.region))
}

/// The engine's package of PyPI in the release that was sized.
fn setup(deployment: &Deployment, facts: &EngineFacts) -> Result<String, EmitError> {
    let package = launcher(facts.engine).and_then(Launcher::package);
    let package = package.ok_or_else(|| {
        cannot(
            format!(
                "installs engines from PyPI, and {} is not there whole",
                engine_at(deployment, facts)
            ),
            "emit docker or k8s",
        )
    })?;
    let release = facts.spelled(facts.resolve(deployment.release));
    Ok(format!(
        "pip install {}\n",
        quoted(&format!("{package}=={release}"))
    ))
}

fn run(server: &Server) -> String {
    let Some(hosts) = &server.hosts else {
        return command(&server.words, server);
    };
    let mut out = String::from("LEADER=$(echo \"$SKYPILOT_NODE_IPS\" | head -n 1)\n");
    let one = |flags: &[&[HostFlag]]| -> String {
        let mut line = command(&server.words, server).trim_end().to_string();
        for (flag, said) in flags.iter().copied().flatten() {
            let _ = write!(line, " \\\n  {flag}");
            if let Some(said) = said {
                let _ = write!(line, " {}", spoken(said));
            }
        }
        line
    };
    let Hosts { flags, others, .. } = hosts;
    if others.is_empty() {
        out.push_str(&one(&[flags]));
        out.push('\n');
        return out;
    }
    let _ = write!(
        out,
        "if [ \"$SKYPILOT_NODE_RANK\" = 0 ]; then\n{}\nelse\n{}\nfi\n",
        one(&[flags]),
        one(&[flags, others]),
    );
    out
}

/// A value in words of the shell that SkyPilot runs.
fn spoken(said: &HostArgument) -> String {
    match said {
        HostArgument::Text(text) => quoted(text),
        HostArgument::Leader => "\"$LEADER\"".into(),
        HostArgument::LeaderAt(port) => format!("\"$LEADER:{port}\""),
        HostArgument::Place => "\"$SKYPILOT_NODE_RANK\"".into(),
        HostArgument::RanksBefore(ranks) => format!("$((SKYPILOT_NODE_RANK * {ranks}))"),
    }
}
