//! Figures of every real trace, held against an independent oracle to the nanosecond.

use crate::support::{classifier, measured, trace};
use gpuwise_domain::profile::figures::{ClassFigures, DeviceFigures, RankFigures};
use serde_json::{Value, json};

#[test]
fn real_traces_have_the_exact_figures() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let names = classifier();
    let text =
        std::fs::read_to_string(folder.join("expected_traces.json")).expect("expected values");
    let expected: Value = serde_json::from_str(&text).expect("JSON");
    let mut checked = 0;
    for (dataset, entry) in expected["datasets"].as_object().expect("datasets") {
        for (rank, exact) in entry["exact"].as_object().expect("ranks") {
            let file = entry["ranks"][rank]["file"].as_str().expect("a file");
            let timeline = trace(&folder.join(file));
            let found = measured(&timeline, &names).figures;
            let place = format!("{dataset} rank {rank}");
            assert_eq!(core(&found), wanted(exact), "{place}");
            assert!(
                found.devices.len() <= 1
                    || found.devices.len() == exact["devices"].as_array().expect("devices").len()
            );
            for device in found.devices.iter().chain([&found.whole]) {
                sums(device, &place);
            }
            if let Some(path) = &found.critical_path {
                let sum: i64 = path.by_cause.iter().map(|(_, ns)| ns).sum();
                assert_eq!(sum, found.whole.span_ns(), "{place}: critical path");
            }
            checked += 1;
        }
    }
    assert!(checked > 30, "only {checked} ranks are there");
}

/// Parts that must sum to their whole.
fn sums(device: &DeviceFigures, place: &str) {
    assert_eq!(device.idle.sum_ns(), device.idle_ns, "{place}: idle");
    let causes = device.idle.causes;
    assert_eq!(
        causes.loader_ns + causes.synchronisation_ns + causes.copy_calls_ns + causes.framework_ns,
        device.idle.host_wait_ns,
        "{place}: host wait"
    );
    let cores = device.tensor_cores;
    assert_eq!(
        cores.used_ns + cores.unused_ns + cores.ineligible_ns + cores.unknown_ns,
        device.kernel_time_ns,
        "{place}: kernels"
    );
    let kinds: i64 = device.kinds.iter().map(|kind| kind.sum_ns).sum();
    assert_eq!(
        kinds,
        device.kernel_time_ns + device.classes.memory_sum_ns,
        "{place}: kinds"
    );
}

fn core(found: &RankFigures) -> Value {
    let whole = &found.whole;
    let Some(window) = whole.window else {
        return json!({ "n_gpu_events": whole.work_count, "n_streams": whole.stream_count });
    };
    json!({
        "n_gpu_events": whole.work_count,
        "n_streams": whole.stream_count,
        "span_ns": window.length(),
        "busy_ns": whole.busy_ns,
        "idle_ns": whole.idle_ns,
        "sub_us_kernels": whole.below_1us,
        "lt_10us_kernels": whole.below_10us,
        "nccl_only": classes(&whole.classes_nccl),
        "wide": classes(&whole.classes),
        "top_kernels": whole.kernels.iter().take(10).map(|kernel| json!({
            "name": kernel.name, "sum_ns": kernel.sum_ns, "count": kernel.count,
        })).collect::<Vec<_>>(),
    })
}

fn classes(classes: &ClassFigures) -> Value {
    json!({
        "comp_union_ns": classes.computation_ns,
        "comm_union_ns": classes.communication_ns,
        "mem_union_ns": classes.memory_ns,
        "comm_comp_overlap_ns": classes.overlap_ns,
        "exposed_comm_ns": classes.exposed_communication_ns(),
        "exposed_mem_ns": classes.exposed_memory_ns,
        "comp_sum_ns": classes.computation_sum_ns,
        "comm_sum_ns": classes.communication_sum_ns,
        "mem_sum_ns": classes.memory_sum_ns,
        "n_comm": classes.communication_count,
        "n_mem": classes.memory_count,
        "n_comp": classes.computation_count,
    })
}

fn wanted(exact: &Value) -> Value {
    let keys = [
        "n_gpu_events",
        "n_streams",
        "span_ns",
        "busy_ns",
        "idle_ns",
        "sub_us_kernels",
        "lt_10us_kernels",
        "top_kernels",
    ];
    let mut wanted = json!({});
    for key in keys {
        if let Some(value) = exact.get(key) {
            wanted[key] = value.clone();
        }
    }
    for class in ["nccl_only", "wide"] {
        if let Some(figures) = exact
            .get("comm_classes")
            .and_then(|classes| classes.get(class))
        {
            wanted[class] = figures.clone();
            if let Some(figures) = wanted[class].as_object_mut() {
                figures.remove("comm_overlap_pct");
            }
        }
    }
    wanted
}

/// Idle time by cause as three traces were read by hand, in milliseconds.
#[test]
fn idle_time_is_split_as_read_by_hand() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let names = classifier();
    let check = |file: &str, wanted: [i64; 6]| {
        let whole = measured(&trace(&folder.join("traces").join(file)), &names)
            .figures
            .whole;
        let idle = &whole.idle;
        let found = [
            whole.idle_ns,
            idle.host_wait_ns,
            idle.in_call_ns,
            idle.kernel_wait_ns,
            idle.other_ns,
            idle.causes.loader_ns,
        ];
        assert_eq!(found, wanted, "{file}");
    };
    check(
        "tb_resnet50_nw0_a.json.gz",
        [
            392_919_000,
            363_053_000,
            14_946_000,
            14_920_000,
            0,
            283_707_000,
        ],
    );
    check(
        "deepseek_train.json.gz",
        [497_000, 32_000, 8_000, 457_000, 0, 0],
    );
    check(
        "tl_sglang_decode.json.gz",
        [463_977_017, 376_512, 320_299, 28_448, 463_251_758, 0],
    );
}
