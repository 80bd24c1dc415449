//! What stands beside the events: devices, rank, versions, the clock.

use super::build::head_count;
use gpuwise_domain::profile::timeline::{Device, Rank, Timeline};
use serde_json::Value;

/// Whether a key beside `traceEvents` says something here.
pub(super) fn is_wanted(key: &[u8]) -> bool {
    matches!(
        key,
        b"deviceProperties" | b"distributedInfo" | b"baseTimeNanoseconds"
    ) || key.ends_with(b"_version")
}

/// Takes one key beside `traceEvents`; `false` where its value is not what writers put there.
pub(super) fn take(timeline: &mut Timeline, key: &[u8], value: &Value) -> bool {
    match key {
        b"deviceProperties" => match value.as_array() {
            Some(devices) => timeline.described_devices = devices.iter().map(device).collect(),
            None => return false,
        },
        b"distributedInfo" => return distributed(timeline, value),
        b"baseTimeNanoseconds" => match value.as_i64() {
            Some(epoch) => timeline.epoch_ns = Some(epoch),
            None => return false,
        },
        _ => {
            let key = String::from_utf8_lossy(key);
            match software(&key, value) {
                Some(known) => timeline.software.push(known),
                None => return false,
            }
        }
    }
    true
}

fn small(value: &Value) -> Option<u32> {
    head_count(value).and_then(|count| u32::try_from(count).ok())
}

fn device(properties: &Value) -> Device {
    let field = |name: &str| properties.get(name).unwrap_or(&Value::Null);
    let name = field("name").as_str().filter(|name| !name.is_empty());
    // AMD's wavefronts have 64 lanes; its "compute" numbers are those of gfx targets.
    let is_cuda = small(field("warpSize")) == Some(32)
        && !name.is_some_and(|name| name.contains("AMD") || name.contains("Radeon"));
    Device {
        number: field("id").as_i64().unwrap_or(-1),
        name: name.map(Into::into),
        total_memory: head_count(field("totalGlobalMem")).filter(|bytes| *bytes > 0),
        multiprocessors: small(field("numSms")).filter(|count| *count > 0),
        compute_capability: small(field("computeMajor"))
            .zip(small(field("computeMinor")))
            .filter(|_| is_cuda),
        other_kind: None,
    }
}

fn distributed(timeline: &mut Timeline, value: &Value) -> bool {
    if let Some(version) = value.get("nccl_version").and_then(Value::as_str) {
        timeline.software.push(("NCCL".into(), version.into()));
    }
    let Some(number) = value.get("rank").and_then(small) else {
        // Writers that know nothing of their rank leave the object empty.
        return value.is_object();
    };
    timeline.rank = Some(Rank {
        number,
        world_size: value.get("world_size").and_then(small),
        backend: value
            .get("backend")
            .and_then(Value::as_str)
            .filter(|backend| !backend.is_empty())
            .map(Into::into),
        groups: groups(value),
    });
    true
}

/// Process groups by their description (`pg_config`), at most so many as layouts have.
fn groups(value: &Value) -> Vec<(String, u32)> {
    let all = value.get("pg_config").and_then(Value::as_array);
    let told = all.into_iter().flatten().filter_map(|group| {
        let description = group.get("pg_desc").and_then(Value::as_str)?;
        let size = group.get("pg_size").and_then(small)?;
        (description != "default_pg").then(|| (description.to_owned(), size))
    });
    told.take(64).collect()
}

/// A version under a key, as people write it. CUDA counts 1000 × major + 10 × minor (cuda.h,
/// `CUDA_VERSION`), HIP 10⁷ × major + 10⁵ × minor + patch (hip_version.h, `HIP_VERSION`).
fn software(key: &str, value: &Value) -> Option<(String, String)> {
    let plain = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let number: Option<u64> = plain.parse().ok();
    let cuda = |n: u64| format!("{}.{}", n / 1000, n % 1000 / 10);
    let hip = |n: u64| format!("{}.{}.{}", n / 10_000_000, n / 100_000 % 100, n % 100_000);
    Some(match (key, number) {
        ("cuda_runtime_version", Some(n)) => ("CUDA".into(), cuda(n)),
        ("cuda_driver_version", Some(n)) => ("CUDA driver".into(), cuda(n)),
        ("hip_runtime_version", Some(n)) => ("HIP".into(), hip(n)),
        ("hip_driver_version", Some(n)) => ("HIP driver".into(), hip(n)),
        _ => (key.trim_end_matches("_version").into(), plain),
    })
}
