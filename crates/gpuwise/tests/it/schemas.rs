//! Every answer says its schema, and is as the committed schema of that name says.
//!
//! `GPUWISE_UPDATE_DOCS=1` writes schemas: of answers whose fields are declared from the declaration,
//! of the others from what they answer here, over what is committed.

use crate::{runs::history, support::Place};
use gpuwise_app::{commands::declared, schemas};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::PathBuf,
};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/files");

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference/schema")
        .join(format!("{name}.v1.json"))
}

fn updating() -> bool {
    env::var_os("GPUWISE_UPDATE_DOCS").is_some()
}

/// A command of each kind of answer; files are made by those before.
const ASKED: &[&str] = &[
    "forecast traffic.csv --horizon 10m",
    "plan meta-llama/Llama-3.1-8B --rate 4 --isl 1000 --osl 200 --ttft p95:1s --gpu H100,L40S,L4 --save deployment.json --rule liqid",
    "plan meta-llama/Llama-3.1-8B --rate 4 --isl 1000 --osl 200 --ttft p95:1ms --gpu L4",
    "plan --from 'vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 4' --gpu L40S --rate 2 --isl 1000 --osl 200 --ttft p95:1s",
    "plan black-forest-labs/FLUX.1-dev --images 2/s --latency p95:8s --gpu H100,L40S",
    "plan black-forest-labs/FLUX.1-dev --images 2/s --latency p95:50ms --gpu L40S",
    "train meta-llama/Llama-3.1-8B --method lora --gpu H100,L4 --tokens 500e6 --budget 5000USD",
    "train meta-llama/Llama-3.1-8B --method full --gpus 1xL4",
    "memory meta-llama/Llama-3.1-8B --gpu L4,H100 --context 8192 --concurrency 64 --explain",
    "memory black-forest-labs/FLUX.1-dev --gpu L4,H100 --explain",
    "table --models 8b --precision fp8,bf16 --gpu H100,L4",
    "check meta-llama/Llama-3.1-8B --current 1xH100 --rate 0.5 --isl 1000 --osl 200 --ttft p95:2s --provider aws",
    "check meta-llama/Llama-3.1-8B --host g6.xlarge --rate 1 --isl 1000 --osl 200 --ttft p95:3s --provider aws",
    "check --current 8xH100 --host node.toml --samples 2500/s --stored 110kB",
    "composed deployment.json --fabric fabric.toml --explain",
    "composed --replay openb --nodes nodes.csv --trace pods.csv --load 0.9 --choice best",
    "scale plan deployment.json --trace traffic.csv --start 180s",
    "scale replay traffic.csv --policy gpuwise",
    "scale replay traffic.csv --variants variants.toml",
    "simulate deployment.json --requests 50 --save run.json",
    "validate deployment.json --requests 50 --seeds 1",
    "fleet check fleet.toml",
    "place fleet.toml jobs.toml --save plan.json",
    "place fleet.toml jobs.toml --why tune",
    "lint plan.json",
    "capacity fleet.toml jobs.toml",
    "replay mine/jobs.csv --policy fifo",
    "gpus",
    "gpus --check gpus-ours.toml",
    "models",
    "models black-forest-labs/FLUX.1-dev",
    "offers",
    "evidence meta-llama/Llama-3.1-70B-Instruct --gpu H100",
    "compare deployment.json run.json",
    "predict questions.csv",
    "accuracy measured.csv",
    "calibrate measured.csv",
    "tier jobs.csv --explain",
    "tco deployment.json --growth 4%/month --horizon 36mo",
    "tco --gpu L4 --gpus-per-host 8 --on-demand 6.40USD/h --horizon 12mo --explain",
    "profile loop.json --save --name train",
    "runs list",
    "runs export",
    "runs diff train train --operators",
    "runs trend train",
    "runs prune --keep-days 0",
    "runs show FIRST --database runs.db",
    "runs diff FIRST LAST --all --database runs.db",
    "runs regress --all --database runs.db",
    "profile loop.json --each",
    "profile loop.json --compat hta",
    "profile run --batch-sizes 2,8 -- sh -c true",
    "fleet mig A30",
    "fleet mig H100 --counts",
    "fleet mig H100 --pack 3g=5,2g=4,1g=9",
    "operators show H100 gemm",
    "operators show L40S attention_generation",
    "operators show H100 comm_allreduce",
    "operators check . --only gemm --keep-out shapes",
    "calibrate measured.csv --cross-validate gpu",
    "audit usage.csv --end 2025-11-21 --price 'H100 SXM5 80GB=3USD'",
    "audit --proof",
    "watch --file smi.csv",
    "workload from-metrics metrics.prom --for 2h",
    "profile loop.json --operators",
    "profile loop.json --streams",
    "profile loop.json --ranges",
    "profile loop.json --series queue",
    "profile loop.json --series bandwidth",
    "optimize meta-llama/Llama-3.1-8B-Instruct --advise --gpu L4 --rate 2 --ttft p95:1s",
    "schema gpus",
];

#[test]
fn answers_are_as_their_schemas_say() {
    let place = Place::new();
    for entry in fs::read_dir(FILES).unwrap().flatten() {
        if entry.path().is_file() {
            place.write(
                &entry.file_name().to_string_lossy(),
                fs::read(entry.path()).unwrap(),
            );
        }
    }
    let jobs = "vc,job,submit_s,gpus,duration_s\na,0,0,4,600\na,1,60,8,600\n";
    place.write("mine/jobs.csv", jobs);
    place.write("mine/vc_nodes.csv", "vc,nodes\na,1\n");
    place.write("gemm.csv", operator_times());
    let runs = history(&place);
    let (first, last) = (&runs[0], &runs[12]);
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut answered: BTreeSet<String> = BTreeSet::new();
    for asked in ASKED.iter().filter(|asked| !asked.starts_with("schema ")) {
        let asked = asked.replace("FIRST", first).replace("LAST", last);
        let mut arguments = words(&asked);
        // What comes after `--` is a job's.
        let end = arguments.iter().position(|word| *word == "--");
        let end = end.unwrap_or(arguments.len());
        arguments.splice(end..end, ["--format", "json"]);
        let done = place.run(&arguments);
        // Of a stream every document says what it is.
        let answers = serde_json::Deserializer::from_str(&done.out).into_iter::<Value>();
        let answers: Vec<Value> = answers.map_while(Result::ok).collect();
        if answers.is_empty() {
            wrong.push(format!("{asked}: no JSON: {}{}", done.out, done.err));
        }
        for answer in answers {
            let Some(name) = named(&answer) else {
                wrong.push(format!("{asked}: no schema"));
                continue;
            };
            answered.insert(name.into());
            if updating() && !declared(name) {
                let drawn = seen
                    .remove(name)
                    .map_or_else(|| of(&answer), |before| joined(before, of(&answer)));
                seen.insert(name.into(), drawn);
                continue;
            }
            let schema = committed(name);
            if let Err(why) = fits(&answer, &schema, &schema, "") {
                wrong.push(format!("{asked}: {name}{why}"));
            }
        }
    }
    for (name, drawn) in seen {
        fs::write(path(&name), written(&name, drawn)).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unasked = |name: &&str| !answered.contains(*name) && !ELSEWHERE.contains(name);
    let unasked: Vec<&str> = schemas::names().filter(unasked).collect();
    assert!(unasked.is_empty(), "nothing here answers {unasked:?}");
}

/// Schemas to which nothing here is held: of documents that are read back, which their own tests look at,
/// of a GPU, whose made report is held to it where it is put together, of a broker, where one runs, and of a cluster (`.ci/check_kubernetes.py`).
const ELSEWHERE: &[&str] = &[
    "cluster-top",
    "pod-why",
    "broker-policy",
    "nodes",
    "secrets",
    "fleet-changes",
    "reservations",
    "scale-decision",
    "scale-mix-decision",
    "slo-costs",
    "policy",
    "decisions",
    "deployment",
    "doctor",
    "event",
    "inventory",
    "job",
    "lease",
    "lease-dry-run",
    "lease-explanation",
    "lease-log",
    "lease-offers",
    "lease-usage",
    "leases",
    "numbered-plan",
    "plan",
    "policy",
    "prices",
    "profile-gpu",
    "proposals",
    "slos",
    "statement",
    "store-backup",
    "store-check",
    "store-snapshot",
    "tenant",
    "tenants",
    "token",
    "token-audit",
    "tokens",
    "top",
];

/// That an answer of a broker is as its schema says; which it is.
pub(crate) fn held(answer: &Value) -> String {
    let name = named(answer).expect("it says its schema");
    let schema = committed(name);
    let fits = fits(answer, &schema, &schema, "");
    assert!(fits.is_ok(), "{name}{fits:?}: {answer}");
    name.to_owned()
}

/// Times of matrix products, as tables of operators have them: seven tenths of the peak.
fn operator_times() -> String {
    let mut text = String::from("system,engine,version,kernel,launch,dtype,m,n,k,latency_ms\n");
    for (doubling, width) in (4..12).flat_map(|m| [1024_u64, 4096, 8192].map(|n| (m, n))) {
        let tokens = 1_u64 << doubling;
        let ms = (2 * tokens * width * width) as f64 / (0.7 * 989e12) * 1e3 + 0.002;
        let shape = format!("{tokens},{width},{width}");
        text.extend([
            "h100_sxm,vllm,0.24.0,,graph,bfloat16,",
            &shape,
            &format!(",{ms}\n"),
        ]);
    }
    text
}

/// Words of a command, quoted ones as one.
fn words(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for (at, part) in text.split('\'').enumerate() {
        if at % 2 == 1 {
            out.push(part);
        } else {
            out.extend(part.split_whitespace());
        }
    }
    out
}

/// The name in `gpuwise.NAME/v1`.
fn named(answer: &Value) -> Option<&str> {
    let schema = answer.get("schema")?.as_str()?;
    schema.strip_prefix("gpuwise.")?.strip_suffix("/v1")
}

/// Whether the schema follows from a declaration: of an answer, or of a document that is saved.
fn declared(name: &str) -> bool {
    let documents = ["deployment", "plan", "profile", "run", "workload"];
    documents.contains(&name) || declared::schemas().iter().any(|(known, _)| *known == name)
}

fn committed(name: &str) -> Value {
    let text = fs::read_to_string(path(name)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

#[test]
fn committed_schemas_are_those_of_the_declarations() {
    for (name, schema) in declared::schemas() {
        if updating() {
            fs::write(path(name), &schema).unwrap();
        }
        assert!(
            fs::read_to_string(path(name)).unwrap_or_default() == schema,
            "{name} is not that of the code: run the tests with GPUWISE_UPDATE_DOCS=1 and commit it"
        );
    }
}

#[test]
fn every_schema_is_printed() {
    let place = Place::new();
    let mut files: Vec<String> = fs::read_dir(path("gpus").parent().unwrap())
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some(name.strip_suffix(".v1.json")?.to_owned())
        })
        .collect();
    files.sort();
    let listed = place.run(&["schema"]);
    let names: Vec<&str> = listed.out.lines().collect();
    assert_eq!(names, files);
    let one = place.run(&["schema", "gpus"]);
    assert_eq!(one.out, fs::read_to_string(path("gpus")).unwrap());
    let odd = place.run(&["schema", "gpu"]);
    assert!(odd.code == 2 && odd.err.contains("gpus"), "{}", odd.err);
}

/// What an answer is, as narrow as it can be said.
fn of(value: &Value) -> Value {
    match value {
        Value::Null => json!({"type": ["null"]}),
        Value::Bool(_) => json!({"type": ["boolean"]}),
        Value::Number(_) => json!({"type": ["number"]}),
        Value::String(_) => json!({"type": ["string"]}),
        Value::Array(items) => {
            let all = items.iter().map(of).reduce(joined);
            json!({"type": ["array"], "items": all.unwrap_or(json!({}))})
        }
        Value::Object(fields) => {
            let properties: Map<String, Value> = fields
                .iter()
                .map(|(key, value)| (key.clone(), of(value)))
                .collect();
            json!({
                "type": ["object"],
                "properties": properties,
                "required": fields.keys().collect::<Vec<_>>(),
                "additionalProperties": false,
            })
        }
    }
}

/// What is one or the other.
fn joined(one: Value, other: Value) -> Value {
    let (Value::Object(mut one), Value::Object(mut other)) = (one, other) else {
        return json!({});
    };
    if one.is_empty() {
        return Value::Object(other);
    }
    let list = |of: &Map<String, Value>, key: &str| -> Vec<Value> {
        of.get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let mut kinds = list(&one, "type");
    kinds.extend(list(&other, "type"));
    kinds.sort_by_key(ToString::to_string);
    kinds.dedup();
    let objects = one.contains_key("properties") && other.contains_key("properties");
    let required: Vec<Value> = list(&one, "required")
        .into_iter()
        .filter(|key| !objects || list(&other, "required").contains(key))
        .collect();
    for key in ["items", "properties", "additionalProperties", "required"] {
        let Some(theirs) = other.remove(key) else {
            continue;
        };
        let Some(mine) = one.remove(key) else {
            one.insert(key.into(), theirs);
            continue;
        };
        let both = match (key, mine, theirs) {
            ("items", mine, theirs) => joined(mine, theirs),
            ("properties", Value::Object(mut mine), Value::Object(theirs)) => {
                for (name, theirs) in theirs {
                    let both = mine.shift_remove(&name);
                    let both = both.map_or(theirs.clone(), |mine| joined(mine, theirs));
                    mine.insert(name, both);
                }
                Value::Object(mine)
            }
            ("required", ..) => Value::Array(required.clone()),
            (_, mine, _) => mine,
        };
        one.insert(key.into(), both);
    }
    one.insert("type".into(), Value::Array(kinds));
    Value::Object(one)
}

fn written(name: &str, mut drawn: Value) -> String {
    let mut root = Map::new();
    root.insert(
        "$schema".into(),
        "https://json-schema.org/draft/2020-12/schema".into(),
    );
    root.insert("title".into(), format!("The answer {name}").into());
    drawn["properties"]["schema"] = json!({"const": format!("gpuwise.{name}/v1")});
    if let Value::Object(own) = drawn {
        root.extend(own);
    }
    format!("{:#}\n", Value::Object(root))
}

/// Whether a value is as a schema says, as far as the schemas here go.
fn fits(value: &Value, schema: &Value, root: &Value, path: &str) -> Result<(), String> {
    if schema.as_object().is_some_and(Map::is_empty) {
        return Ok(());
    }
    if let Some(target) = schema["$ref"].as_str() {
        let found = root.pointer(target.trim_start_matches('#'));
        let found = found.ok_or_else(|| format!("{path}: {target} leads nowhere"))?;
        return fits(value, found, root, path);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = |choice| fits(value, choice, root, path);
        let failed = choices
            .iter()
            .map(fitting)
            .filter_map(Result::err)
            .next_back();
        return match choices.iter().filter(|one| fitting(one).is_ok()).count() {
            1 => Ok(()),
            _ => Err(failed.unwrap_or_default()),
        };
    }
    if let Some(expected) = schema.get("const") {
        let same = value == expected;
        return same
            .then_some(())
            .ok_or(format!("{path}: {value} is not {expected}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{path}: {value} is none of {words:?}"));
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return parts
            .iter()
            .try_for_each(|part| fits(value, part, root, path));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return Err(format!("{path}: no type in {schema}")),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !(kinds.contains(&kind) || kind == "integer" && kinds.contains(&"number")) {
        return Err(format!("{path}: {kind} where {kinds:?} is"));
    }
    match value {
        Value::Array(items) => items.iter().enumerate().try_for_each(|(at, item)| {
            fits(item, &schema["items"], root, &format!("{path}[{at}]"))
        }),
        Value::Object(object) => {
            for (key, inner) in object {
                let path = format!("{path}.{key}");
                match (&schema["properties"][key], &schema["additionalProperties"]) {
                    (Value::Null, Value::Object(_)) => {
                        fits(inner, &schema["additionalProperties"], root, &path)?;
                    }
                    (Value::Null, Value::Bool(false)) => {
                        return Err(format!("{path}: not in the schema"));
                    }
                    (Value::Null, _) => {}
                    (property, _) => fits(inner, property, root, &path)?,
                }
            }
            let required = schema["required"].as_array().into_iter().flatten();
            let missing = required
                .filter_map(Value::as_str)
                .find(|key| !object.contains_key(*key));
            missing.map_or(Ok(()), |key| Err(format!("{path}: {key} is required")))
        }
        _ => Ok(()),
    }
}
