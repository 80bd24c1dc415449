//! Patches of an audit, as they are applied.

use gpuwise_domain::usage::{
    Holder, ResourceRequest, Usage,
    proposal::{Change, Judgement, Proposal, Risk, Saving, Verdict},
};
use gpuwise_view::audit::{civil, patches};

fn usage(kind: &str, name: &str) -> Usage {
    Usage {
        holder: Holder {
            namespace: "team".into(),
            kind: kind.into(),
            name: name.into(),
        },
        tenant: "team".into(),
        asked: ResourceRequest {
            gpu: Some("NVIDIA A100-SXM4-80GB".into()),
            devices: 1,
            replicas: 3,
            container: Some("main".into()),
            ..ResourceRequest::default()
        },
        hours: 336.0,
        spanned_hours: 336.0,
        device_hours: 336.0,
        device_hours_seen: 336.0,
        present: true,
        memory_peak: None,
        memory_average: None,
        memory_hourly: Vec::new(),
        memory_full_share: None,
        compute: None,
        compute_hourly: Vec::new(),
        idle: None,
        idle_devices: 0,
        tensor_average: None,
        dram_p95: None,
        cpu_share: None,
        throttled_share: None,
        engine: None,
        missing: Vec::new(),
    }
}

/// Name and text of the first patch, comments left out but for how it is applied.
fn patch(kind: &str, name: &str, change: Change) -> (String, String) {
    let usage = usage(kind, name);
    let said = judgement(&usage, change);
    let product = |gpu: &str| (gpu == "A100 SXM4 80GB").then(|| "NVIDIA-A100-SXM4-80GB".to_owned());
    let mut made = patches(&usage, &said, product);
    let made = made.remove(0);
    let kept = made
        .text
        .lines()
        .filter(|line| !line.starts_with("# ") || line.contains("apply:"));
    (made.file, kept.flat_map(|line| [line, "\n"]).collect())
}

fn judgement(usage: &Usage, change: Change) -> Judgement {
    Judgement {
        holder: usage.holder.clone(),
        verdict: Verdict::OverProvisioned,
        reason: "because\nof that".into(),
        proposal: Some(Proposal {
            title: "this".into(),
            saving: Saving {
                gpus: 0.0,
                gpus_low: 0.0,
                gpus_high: 0.0,
                hourly: None,
                hourly_low: None,
                hourly_high: None,
            },
            risk: Risk {
                hours_short: Some(2),
                hours_seen: 336,
                note: "nothing".into(),
            },
            change,
            alternatives: Vec::new(),
        }),
        notes: Vec::new(),
    }
}

#[test]
fn a_slice_in_place_of_a_gpu() {
    let change = Change::Slice {
        gpu: "A100 SXM4 80GB".into(),
        profile: "1g.10gb".into(),
    };
    let (file, text) = patch("Deployment", "model", change);
    assert_eq!(file, "team-model.yaml");
    insta::assert_snapshot!(text, @r#"
    # apply: kubectl patch -n team deployment model --patch-file team-model.yaml
    spec:
      template:
        spec:
          nodeSelector:
            nvidia.com/gpu.product: "NVIDIA-A100-SXM4-80GB"
          containers:
          - name: "main"
            resources:
              limits: {nvidia.com/gpu: null, nvidia.com/mig-1g.10gb: 1}
              requests: {nvidia.com/gpu: null, nvidia.com/mig-1g.10gb: 1}
    "#);
}

#[test]
fn replicas_and_hours() {
    let (_, text) = patch("StatefulSet", "model", Change::Replicas { from: 3, to: 2 });
    assert!(text.ends_with("spec:\n  replicas: 2\n"), "{text}");
    let (_, text) = patch("Pod", "jupyter-a", Change::ScaleToZero);
    assert_eq!(text, "# apply: kubectl delete -n team pod jupyter-a\n");
    // Monday from 9 to 12, Tuesday the same.
    let busy_hours = vec![33, 34, 35, 57, 59];
    let (_, text) = patch("Deployment", "model", Change::Schedule { busy_hours });
    assert!(
        text.contains("start: \"0 9 * * 1,2\"\n      end: \"59 11 * * 1,2\""),
        "{text}"
    );
    assert!(
        text.contains("minReplicaCount: 0") && text.contains("desiredReplicas: \"3\""),
        "{text}"
    );
}

/// Replicas and slice go into one patch, hours into an object of their own that keeps the new count.
#[test]
fn several_changes_are_applied_together() {
    let change = Change::Combined(vec![
        Change::Replicas { from: 3, to: 2 },
        Change::Slice {
            gpu: "A100 SXM4 80GB".into(),
            profile: "1g.10gb".into(),
        },
        Change::Schedule {
            busy_hours: vec![33, 34],
        },
    ]);
    let usage = usage("Deployment", "model");
    let said = judgement(&usage, change);
    let product = |_: &str| Some("NVIDIA-A100-SXM4-80GB".to_owned());
    let made = patches(&usage, &said, product);
    let names: Vec<&str> = made.iter().map(|patch| patch.file.as_str()).collect();
    assert_eq!(names, ["team-model.yaml", "team-model-schedule.yaml"]);
    let body: Vec<&str> = made[0]
        .text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .collect();
    assert_eq!(
        body[..3],
        ["spec:", "  replicas: 2", "  template:"],
        "{body:?}"
    );
    assert!(
        made[0].text.contains("nvidia.com/mig-1g.10gb: 1"),
        "{}",
        made[0].text
    );
    assert!(
        made[1].text.contains("desiredReplicas: \"2\""),
        "{}",
        made[1].text
    );
}

#[test]
fn slurm_gets_its_lines() {
    let change = Change::Slice {
        gpu: "A100 SXM4 80GB".into(),
        profile: "1g.10gb".into(),
    };
    assert_eq!(
        patch("SlurmJob", "4711", change),
        (
            "team-4711.sh".into(),
            "#SBATCH --gres=gpu:1g.10gb:1\n".into()
        )
    );
    assert_eq!(
        patch("SlurmJob", "4711", Change::ScaleToZero).1,
        "scancel 4711\n"
    );
}

/// A name from a label may hold anything: it leads to no other file and ends no comment.
#[test]
fn names_that_mean_harm() {
    let (file, text) = patch("Pod", "../../etc/x\nrm -rf '", Change::ScaleToZero);
    assert!(!file.contains('/') && !file.starts_with('.'), "{file}");
    assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
}

#[test]
fn days_by_the_calendar() {
    for (at, shown) in [
        (0, "1970-01-01 00:00 UTC"),
        (951_782_400, "2000-02-29 00:00 UTC"),
        (1_763_726_400, "2025-11-21 12:00 UTC"),
        (-1, "1969-12-31 23:59 UTC"),
    ] {
        assert_eq!(civil(at), shown);
    }
}

/// One that gives GPUs back, one in place of another that is cheaper, one that holds too little, one of which nothing is
/// known: each row is counted once, by what it does.
#[test]
fn the_headline_counts_every_row() {
    let mut rows = Vec::new();
    for (name, verdict, gpus, hourly) in [
        ("a", Verdict::OverProvisioned, 1.0, Some("2USD")),
        ("b", Verdict::OverProvisioned, 0.0, Some("1USD")),
        ("c", Verdict::UnderProvisioned, 0.0, None),
        ("d", Verdict::OverProvisioned, 0.0, None),
    ] {
        let usage = usage("Deployment", name);
        let mut said = judgement(&usage, Change::Replicas { from: 3, to: 2 });
        said.verdict = verdict;
        let proposal = said.proposal.as_mut().unwrap();
        (proposal.saving.gpus, proposal.saving.hourly) =
            (gpus, hourly.and_then(|money| money.parse().ok()));
        rows.push((usage, said));
    }
    let (workloads, said): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let totals = gpuwise_domain::usage::totals::Totals {
        saved: "3USD".parse().unwrap(),
        ..gpuwise_domain::usage::totals::Totals::new(String::new())
    };
    let report = gpuwise_view::audit::Report {
        window: gpuwise_domain::usage::Window {
            start: 0,
            end: 86_400,
        },
        workloads: &workloads,
        said: &said,
        totals: &totals,
        tenants: &[],
        unheld: 0,
        notes: &[],
        prices: "yours",
    };
    let page = gpuwise_view::audit::page(&report, |_| None, "gpuwise");
    let expected = "2 changes save 3.00 USD an hour; 1 workload needs more than it holds; 1 change costs as much as now.";
    assert!(page.contains(expected), "{page}");
}

/// A page of one proposal, with its patch, whatever its names hold.
#[test]
fn an_audit_is_a_page() {
    let mut workload = usage("Deployment", "\"><script>alert(1)</script>");
    workload.compute = None;
    let said = Judgement {
        holder: workload.holder.clone(),
        verdict: Verdict::OverProvisioned,
        reason: "peaks at 6 GiB <of> 80 GiB".into(),
        proposal: Some(Proposal {
            title: "2 replicas".into(),
            change: Change::Replicas { from: 3, to: 2 },
            saving: Saving {
                gpus: 1.0,
                gpus_low: 0.5,
                gpus_high: 1.0,
                hourly: "2USD".parse().ok(),
                hourly_low: "1USD".parse().ok(),
                hourly_high: "3USD".parse().ok(),
            },
            risk: Risk {
                hours_short: Some(4),
                hours_seen: 336,
                note: "peaks may come again".into(),
            },
            alternatives: Vec::new(),
        }),
        notes: Vec::new(),
    };
    let (workloads, said) = ([workload], [said]);
    let totals = gpuwise_domain::usage::totals::Totals {
        gpus: 3.0,
        freed: 1.0,
        saved: "2USD".parse().unwrap(),
        saved_low: "1USD".parse().unwrap(),
        saved_high: "3USD".parse().unwrap(),
        hourly: "6USD".parse().unwrap(),
        ..gpuwise_domain::usage::totals::Totals::new(String::new())
    };
    let report = gpuwise_view::audit::Report {
        window: gpuwise_domain::usage::Window {
            start: 0,
            end: 86_400,
        },
        workloads: &workloads,
        said: &said,
        totals: &totals,
        tenants: &[],
        unheld: 0,
        notes: &[],
        prices: "yours",
    };
    let page = gpuwise_view::audit::page(&report, |_| None, "gpuwise");
    let page = crate::html::check_page(&page);
    for expected in [
        "1 change saves 2.00 USD of 6.00 USD (33 %) an hour.",
        "2.00 USD/h",
        "1.00 to 3.00",
        "replicas: 2",
        "kubectl patch",
        "in 4 of 336 hours seen",
        "peaks may come again",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}
