//! What fleets hold beside whole GPUs of one pod each: slices without a profile, GPUs that pods share, GPUs
//! that no label gives to anybody, engines that hardly work. Each gets a verdict that holds, or none by name.

use super::{DAYS, END, blocks, collected, prometheus, with_market};
use gpuwise_domain::usage::{
    Fleet,
    proposal::{Judgement, Verdict},
};
use gpuwise_measure::audit::{judge, totals};

const STEP: u64 = 300;
const MEMORY: &str = "DCGM_FI_DEV_FB_USED";
const SM: &str = "DCGM_FI_PROF_SM_ACTIVE";

/// A series that shows the same all the time.
type Steady = (Vec<(String, String)>, f64);

fn series(name: &str, labels: &[(&str, &str)], value: f64) -> Steady {
    let all = labels.iter().copied().chain([("__name__", name)]);
    let mut all: Vec<_> = all.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    all.sort();
    (all, value)
}

/// Memory in MiB and compute of a device, as its exporter shows them.
fn device(out: &mut Vec<Steady>, uuid: &str, more: &[(&str, &str)], mib: f64, sm: f64) {
    let base = [
        ("UUID", uuid),
        ("Hostname", "a"),
        ("modelName", "NVIDIA A100-SXM4-80GB"),
    ];
    let labels = [&base, more].concat();
    out.push(series(MEMORY, &labels, mib));
    out.push(series(SM, &labels, sm));
}

fn pod(name: &str) -> [(&'static str, &str); 3] {
    [
        ("exported_namespace", "team"),
        ("exported_pod", name),
        ("exported_container", "main"),
    ]
}

const EXPORTER: [(&str, &str); 3] = [
    ("namespace", "ops"),
    ("pod", "dcgm-exporter-1"),
    ("container", "nvidia-dcgm-exporter"),
];

fn planted() -> Vec<Steady> {
    let mut out = Vec::new();
    // One GPU in two time slices.
    device(&mut out, "GPU-shared", &pod("slice-a"), 20_000.0, 0.3);
    device(&mut out, "GPU-shared", &pod("slice-b"), 20_000.0, 0.3);
    // A MIG instance of untold profile, and one whose pod says what it asked for.
    let instance = |name| [&pod(name)[..], &[("GPU_I_ID", "3")]].concat();
    device(&mut out, "GPU-mig-1", &instance("untold"), 4000.0, 0.7);
    device(&mut out, "GPU-mig-2", &instance("asked"), 7000.0, 0.7);
    let asked = [
        ("namespace", "team"),
        ("pod", "asked"),
        ("container", "main"),
        ("resource", "nvidia_com_mig_1g_10gb"),
    ];
    out.push(series("kube_pod_container_resource_requests", &asked, 1.0));
    // Nobody is named: one works, one does nothing.
    device(&mut out, "GPU-unnamed", &EXPORTER, 60_000.0, 0.8);
    device(&mut out, "GPU-empty", &EXPORTER, 500.0, 0.0);
    // A replica at 5 % that holds what engines hold.
    device(&mut out, "GPU-engine", &pod("chat"), 75_000.0, 0.05);
    let vllm = [
        ("namespace", "team"),
        ("pod", "chat"),
        ("model_name", "a/model-of-ours"),
    ];
    out.push(series("vllm:kv_cache_usage_perc", &vllm, 0.05));
    out.push(series("vllm:num_requests_waiting", &vllm, 0.0));
    // Four GPUs of one pod, of which one works.
    for index in 0..4 {
        let busy = if index == 0 { 0.9 } else { 0.0 };
        device(
            &mut out,
            &format!("GPU-of-four-{index}"),
            &pod("four"),
            70_000.0,
            busy,
        );
    }
    out
}

fn write(folder: &std::path::Path) {
    let mut all = planted();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let mut symbols = blocks::Symbols::default();
    for (name, value) in all.iter().flat_map(|series| &series.0) {
        symbols.add(name);
        symbols.add(value);
    }
    symbols.seal();
    let numbered: Vec<blocks::Labels> = all
        .iter()
        .map(|(labels, _)| {
            let pairs = labels.iter();
            pairs
                .map(|(a, b)| (symbols.number(a), symbols.number(b)))
                .collect()
        })
        .collect();
    let ulid = "01HXAVD7T0000000000000000A";
    let mut block = blocks::Block::new(folder, ulid, symbols).expect("a block");
    let begin = END - DAYS * 86_400 + STEP;
    for ((_, value), labels) in all.iter().zip(&numbered) {
        let times = (begin..=END).step_by(STEP as usize);
        let samples: Vec<_> = times.map(|at| (at.cast_signed() * 1000, *value)).collect();
        block.series(labels, &samples).expect("a series");
    }
    block.finish(ulid).expect("a whole block");
}

fn of<'a>(said: &'a [Judgement], name: &str) -> &'a Judgement {
    let found = said.iter().find(|one| one.holder.name == name);
    found.unwrap_or_else(|| panic!("{name} in {said:?}"))
}

fn looked_at() -> Option<(Fleet, Vec<Judgement>, f64)> {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    let server = prometheus(folder.path(), &[])?;
    let fleet = collected(&server, None).expect("it answers");
    let (said, gpus) = with_market(|rules, market| {
        let all = fleet.workloads.iter();
        let said: Vec<_> = all
            .map(|of| judge(of, fleet.window, rules, market))
            .collect();
        let gpus = totals(&fleet.workloads, &said, market).0.gpus;
        (said, gpus)
    });
    Some((fleet, said, gpus))
}

#[test]
fn odd_holders_get_a_verdict_that_holds_or_none_by_name() {
    let Some((fleet, said, gpus)) = looked_at() else {
        gpuwise_needs::skipped("prometheus is not installed");
        return;
    };
    for (name, verdict, why) in [
        ("slice-a", Verdict::Unknown, "1 other pod on the same GPU"),
        ("slice-b", Verdict::Unknown, "1 other pod on the same GPU"),
        ("untold", Verdict::Unknown, "profile of its MIG instance"),
        ("asked", Verdict::RightSized, "of 9.62 GiB"),
        ("a/GPU-unnamed", Verdict::RightSized, "80 %"),
        (
            "chat",
            Verdict::Unknown,
            "its engine takes memory at the start",
        ),
        ("four", Verdict::OverProvisioned, "3 of 4 GPUs"),
    ] {
        let found = of(&said, name);
        assert_eq!(found.verdict, verdict, "{found:?}");
        assert!(found.reason.contains(why), "{name}: {}", found.reason);
    }
    assert_eq!(fleet.unheld_devices, 1, "the one that does nothing");
    assert!(
        fleet
            .notes
            .iter()
            .any(|note| note.contains("1 GPUs are in use though no label"))
    );
    // One shared, a seventh asked for and at least a seventh untold, one unnamed, the engine's, and four.
    assert!(
        (gpus - (1.0 + 2.0 / 7.0 + 1.0 + 1.0 + 4.0)).abs() < 1e-6,
        "{gpus}"
    );
}
