//! Documents of jobs: pods of Kubernetes (`kubectl get pods -o json`), and Philly's log of jobs.

use super::{FleetError, Ran, table::Rows, times};
use serde_json::Value;

pub(super) fn read(file: &str, text: &str) -> Result<Rows, FleetError> {
    let wrong = |place: &str, problem: &str| FleetError {
        file: file.into(),
        place: place.into(),
        problem: problem.into(),
    };
    let document: Value = serde_json::from_str(text).map_err(|error| {
        let place = format!("line {}", error.line());
        wrong(&place, &error.to_string())
    })?;
    if let Some(pods) = document.get("items").and_then(Value::as_array) {
        return Ok(gathered(pods, pod));
    }
    if let Some(jobs) = document.as_array()
        && jobs.first().is_none_or(|job| job.get("attempts").is_some())
    {
        return Ok(gathered(jobs, philly));
    }
    let problem = "expected pods (`kubectl get pods -A -o json`), or a list of jobs with attempts as Philly's log has them";
    Err(wrong("the document", problem))
}

fn gathered(list: &[Value], read: fn(&Value) -> Option<Ran>) -> Rows {
    let mut left_out = 0;
    let mut rows = Vec::new();
    for (one, number) in list.iter().zip(1..) {
        match read(one) {
            Some(ran) => rows.push((format!("number {number}"), ran)),
            None => left_out += 1,
        }
    }
    (rows, left_out)
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or("")
}

/// A pod that has ended; its containers run beside one another, and it ends with the last.
fn pod(pod: &Value) -> Option<Ran> {
    let submitted = times::moment(text(pod, "/metadata/creationTimestamp"))?;
    let states = pod.pointer("/status/containerStatuses")?.as_array()?;
    let ends = states
        .iter()
        .map(|one| times::moment(text(one, "/state/terminated/finishedAt")));
    let ended = ends
        .collect::<Option<Vec<f64>>>()?
        .into_iter()
        .fold(f64::NEG_INFINITY, f64::max);
    let starts = states
        .iter()
        .filter_map(|one| times::moment(text(one, "/state/terminated/startedAt")));
    let started = starts.fold(f64::INFINITY, f64::min);
    let started = if started.is_finite() {
        started
    } else {
        times::moment(text(pod, "/status/startTime"))?
    };
    let mut ran = Ran {
        name: format!(
            "{}/{}",
            text(pod, "/metadata/namespace"),
            text(pod, "/metadata/name")
        ),
        group: text(pod, "/metadata/namespace").into(),
        submitted,
        started: Some(started),
        seconds: ended - started,
        nodes: 1,
        ..Ran::default()
    };
    for container in pod.pointer("/spec/containers")?.as_array()? {
        let asked = |name: &str| {
            let of = |part: &str| container.pointer(part).and_then(|all| all.get(name));
            let value = of("/resources/limits").or_else(|| of("/resources/requests"))?;
            Some(
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned),
            )
        };
        let requested = |name: &str| {
            let value = container.pointer("/resources/requests")?.get(name)?;
            Some(
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned),
            )
        };
        let gpus = asked("nvidia.com/gpu").or_else(|| asked("amd.com/gpu"));
        ran.gpus += gpus.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        let cpu = requested("cpu").map_or(0.0, |text| match text.strip_suffix('m') {
            Some(milli) => milli.parse().unwrap_or(0.0),
            None => text.parse::<f64>().unwrap_or(0.0) * 1000.0,
        });
        ran.cpu_milli += cpu.max(0.0) as u64;
        ran.memory_mib += requested("memory")
            .and_then(|text| times::mib(&text))
            .unwrap_or(0);
    }
    let selector = pod.pointer("/spec/nodeSelector");
    let product = selector.and_then(|all| all.get("nvidia.com/gpu.product"));
    ran.gpu = product.and_then(Value::as_str).map(str::to_owned);
    Some(ran)
}

/// A job of Philly's log: all its attempts, on the GPUs of the first.
fn philly(job: &Value) -> Option<Ran> {
    let attempts = job.get("attempts")?.as_array()?;
    let first = attempts.first()?;
    let hosts = first.get("detail")?.as_array()?;
    let gpus = hosts.iter().filter_map(|host| host.get("gpus")?.as_array());
    let length = |attempt: &Value| {
        let (start, end) = (text(attempt, "/start_time"), text(attempt, "/end_time"));
        Some(times::moment(end)? - times::moment(start)?)
    };
    Some(Ran {
        name: text(job, "/jobid").into(),
        group: text(job, "/vc").into(),
        user: text(job, "/user").into(),
        submitted: times::moment(text(job, "/submitted_time"))?,
        started: times::moment(text(first, "/start_time")),
        seconds: attempts.iter().filter_map(length).sum(),
        gpus: gpus.map(Vec::len).sum::<usize>() as u32,
        nodes: hosts.len() as u32,
        ..Ran::default()
    })
}
