//! Engines in manifests of Kubernetes: Deployments and what else has a template of pods, LeaderWorkerSets, inference
//! services of KServe, graphs of Dynamo, and values of llm-d's chart. Each container that starts an engine is read as
//! the command that it is.

use super::{LaunchError, parse_all};
use gpuwise_domain::facts::{EngineFacts, Launch, PoolRole};
use serde_json::Value;

/// Engines that are started alike.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchedPool {
    /// Kind and name of what starts them, such as `Deployment llama`.
    pub what: String,
    pub role: Option<PoolRole>,
    /// How many there are.
    pub replicas: u32,
    pub launch: Launch,
}

/// A pool before its command is read.
#[derive(Debug, Default)]
struct Found {
    what: String,
    role: Option<PoolRole>,
    replicas: u32,
    command: String,
}

/// Pools of a text that is a manifest; `None`: it is none.
///
/// # Errors
/// When a command of it cannot be read, or it starts no engine.
pub fn pools(text: &str, facts: &[EngineFacts]) -> Result<Option<Vec<LaunchedPool>>, LaunchError> {
    if text.len() > super::LONGEST_COMMAND {
        return Ok(None);
    }
    let Ok(documents) = serde_saphyr::from_multiple::<Value>(text) else {
        return Ok(None);
    };
    let is_one = |document: &Value| {
        document["kind"].is_string() && document["apiVersion"].is_string()
            || document["modelArtifacts"].is_object()
    };
    if !documents.iter().any(is_one) {
        return Ok(None);
    }
    let mut pools = Vec::new();
    let mut all: Vec<Found> = documents.iter().flat_map(found_in).collect();
    // Where nobody prefills, who decodes does both.
    if all.iter().all(|one| one.role != Some(PoolRole::Prefill)) {
        for one in &mut all {
            one.role = None;
        }
    }
    for found in all {
        let launches = parse_all(&found.command, facts, None)?;
        let pool = |launch: Launch| LaunchedPool {
            what: found.what.clone(),
            role: found.role.or(launch.role),
            replicas: found.replicas,
            launch,
        };
        pools.extend(launches.into_iter().next().map(pool));
    }
    if pools.is_empty() {
        let command = documents.iter().find_map(|one| one["kind"].as_str());
        let command = command.unwrap_or("a manifest").to_owned();
        return Err(LaunchError::NoEngine { command });
    }
    Ok(Some(pools))
}

fn found_in(document: &Value) -> Vec<Found> {
    let spec = &document["spec"];
    let named = |kind: &str| {
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        format!("{kind} {name}").trim_end().to_owned()
    };
    match document["kind"].as_str() {
        None => of_llm_d(document),
        Some("List") => {
            let items = document["items"].as_array().into_iter().flatten();
            items.flat_map(found_in).collect()
        }
        Some(kind @ "DynamoGraphDeployment") => of_dynamo(spec, &named(kind)),
        Some(kind @ "LeaderWorkerSet") => {
            let template = &spec["leaderWorkerTemplate"];
            let leader = [&template["leaderTemplate"], &template["workerTemplate"]];
            let pod = leader.into_iter().find(|one| one.is_object());
            let pod = pod.unwrap_or(&Value::Null);
            let role = llm_d_role(&pod["metadata"]["labels"]);
            of_pod(&pod["spec"], &named(kind), role, count(&spec["replicas"]))
        }
        Some(kind @ "InferenceService") => {
            let predictor = &spec["predictor"];
            let replicas = count(&predictor["minReplicas"]);
            of_pod(predictor, &named(kind), None, replicas)
        }
        Some("Pod") => of_pod(spec, &named("Pod"), None, 1),
        Some(kind) => {
            let pod = &spec["template"];
            let role = llm_d_role(&pod["metadata"]["labels"]);
            of_pod(&pod["spec"], &named(kind), role, count(&spec["replicas"]))
        }
    }
}

/// How many are wanted; one where it is not said.
fn count(value: &Value) -> u32 {
    let said = value.as_u64().and_then(|count| u32::try_from(count).ok());
    said.unwrap_or(1)
}

/// The containers of a pod that say what they start.
fn of_pod(pod: &Value, what: &str, role: Option<PoolRole>, replicas: u32) -> Vec<Found> {
    let containers = pod["containers"].as_array().into_iter().flatten();
    let found = |container: &Value| Found {
        what: what.to_owned(),
        role,
        replicas,
        command: command(container),
    };
    containers.map(found).collect()
}

/// A container as the command that would start it: with its image, of which the release is known.
fn command(container: &Value) -> String {
    let words = |key: &str| {
        let all = container[key].as_array().into_iter().flatten();
        all.filter_map(Value::as_str)
            .map(quoted)
            .collect::<Vec<_>>()
    };
    let (entry, arguments) = (words("command"), words("args"));
    let image = container["image"].as_str().unwrap_or("image");
    let mut all = vec!["docker".into(), "run".into(), quoted(image)];
    all.extend(entry);
    all.extend(arguments);
    dynamo(&all.join(" "))
}

/// Dynamo starts engines by modules of its own, which take the engine's flags.
fn dynamo(command: &str) -> String {
    let modules = [
        ("-m dynamo.vllm ", "-m vllm.entrypoints.openai.api_server "),
        ("-m dynamo.sglang ", "-m sglang.launch_server "),
        ("-m dynamo.trtllm ", "trtllm-serve "),
    ];
    let replace = |text: String, (own, engine): &(&str, &str)| text.replace(own, engine);
    modules.iter().fold(command.to_owned(), replace)
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

/// Workers of a graph; what has no role by name may have one by its flags.
fn of_dynamo(spec: &Value, what: &str) -> Vec<Found> {
    let services = spec["services"].as_object().into_iter().flatten();
    let services = services.map(|(name, service)| (name.as_str(), service));
    let components = spec["components"].as_array().into_iter().flatten();
    let components = components.map(|one| (one["name"].as_str().unwrap_or_default(), one));
    let mut all = Vec::new();
    for (name, service) in services.chain(components) {
        let kind = service["subComponentType"].as_str();
        let kind = kind.or_else(|| service["type"].as_str()).unwrap_or(name);
        let role = match kind.to_ascii_lowercase() {
            kind if kind.contains("prefill") => Some(PoolRole::Prefill),
            kind if kind.contains("decode") => Some(PoolRole::Decode),
            _ => None,
        };
        let replicas = count(&service["replicas"]);
        let what = format!("{what} {name}");
        let main = &service["extraPodSpec"]["mainContainer"];
        if main.is_object() {
            all.push(Found {
                what,
                role,
                replicas,
                command: command(main),
            });
        } else {
            all.extend(of_pod(
                &service["podTemplate"]["spec"],
                &what,
                role,
                replicas,
            ));
        }
    }
    all
}

/// The role of pods that carry llm-d's label of it, as its chart makes them.
fn llm_d_role(labels: &Value) -> Option<PoolRole> {
    match labels["llm-d.ai/role"].as_str()? {
        "prefill" => Some(PoolRole::Prefill),
        "decode" => Some(PoolRole::Decode),
        _ => None,
    }
}

/// Pools of llm-d's chart, which itself writes the model and the sizes of parallelism.
fn of_llm_d(values: &Value) -> Vec<Found> {
    let artifacts = &values["modelArtifacts"];
    let model = artifacts["name"].as_str();
    let uri = artifacts["uri"].as_str();
    let of_uri = || uri.map(|uri| uri.strip_prefix("hf://").unwrap_or(uri));
    let model = model.or_else(of_uri).unwrap_or_default();
    let is_made = |pool: &Value| pool.is_object() && pool["create"] != Value::Bool(false);
    let split = is_made(&values["prefill"]) && count(&values["prefill"]["replicas"]) > 0;
    let pools = [("decode", PoolRole::Decode), ("prefill", PoolRole::Prefill)];
    let mut all = Vec::new();
    for (key, role) in pools {
        let pool = &values[key];
        if !is_made(pool) {
            continue;
        }
        let size = &pool["parallelism"];
        let mut words = vec!["vllm serve".to_owned(), quoted(model)];
        for (flag, name) in [
            ("--tensor-parallel-size", "tensor"),
            ("--data-parallel-size", "data"),
        ] {
            if let Some(ranks) = size[name].as_u64() {
                words.push(format!("{flag} {ranks}"));
            }
        }
        let container = pool["containers"].as_array().and_then(|all| all.first());
        let arguments = container.and_then(|one| one["args"].as_array());
        let arguments = arguments.into_iter().flatten().filter_map(Value::as_str);
        words.extend(arguments.map(quoted));
        all.push(Found {
            what: format!("llm-d {key}"),
            role: split.then_some(role),
            replicas: count(&pool["replicas"]),
            command: words.join(" "),
        });
    }
    all
}
