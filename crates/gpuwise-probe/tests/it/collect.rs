//! A fleet from a server that answers some questions, refuses others, and holds samples that are none.

use gpuwise_domain::usage::{ComputeMeasure, Fleet, Window};
use gpuwise_probe::{
    prometheus::{Client, PrometheusError, Settings as Server},
    usage::{Settings, Unclear, collect},
};
use gpuwise_read::usage::read_audit_catalogue;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    thread,
    time::Duration,
};

const WINDOW: Window = Window {
    start: 1_763_596_800,
    end: 1_763_683_200,
};

/// A fleet as a server tells it that answers a request's first line and body with status and body.
fn told(answer: fn(&str) -> (u16, String)) -> Result<Fleet, PrometheusError> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            let (mut asked, mut length) = (String::new(), 0);
            let _ = reader.read_line(&mut asked);
            loop {
                let mut header = String::new();
                if reader.read_line(&mut header).unwrap_or(0) < 3 {
                    break;
                }
                if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            asked.push_str(&String::from_utf8_lossy(&body));
            let (status, body) = answer(&asked);
            let _ = write!(
                stream,
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    let mut settings = Server::new(address);
    settings.timeout = Duration::from_secs(10);
    settings.first_wait = Duration::ZERO;
    let client = Client::new(settings).expect("sound settings");
    let names = read_audit_catalogue(
        "audit.toml",
        include_str!("../../../../catalogue/audit.toml"),
    );
    let settings = Settings {
        window: WINDOW,
        matchers: None,
        tenant_label: None,
        at_once: 2,
        namespaces: ["quiet".to_owned()].into(),
        idle_below: 0.01,
    };
    let all = |fleet: &Fleet| {
        let holders = fleet.workloads.iter().map(|usage| usage.holder.clone());
        Unclear {
            compute: holders.clone().collect(),
            bandwidth: holders.collect(),
        }
    };
    collect(
        &client,
        &names.expect("names").vocabulary,
        &settings,
        &all,
        &|_| {},
    )
}

fn success(data: &str) -> (u16, String) {
    (200, format!(r#"{{"status":"success","data":{data}}}"#))
}

const POD: &str = r#""exported_namespace":"team","exported_pod":"chat-7d9c5b8f4-x2vkq","exported_container":"main","pod":"dcgm-exporter-1","container":"nvidia-dcgm-exporter","UUID":"GPU-1","Hostname":"a","modelName":"NVIDIA L40S""#;
const NOBODY: &str = r#""pod":"dcgm-exporter-1","namespace":"ops","container":"nvidia-dcgm-exporter","UUID":"GPU-2","Hostname":"a","modelName":"NVIDIA L40S""#;

/// One value of each hour from the first, as an answer has them.
fn hours(values: &[&str]) -> String {
    let points = (1..)
        .zip(values)
        .map(|(hour, value)| format!("[{},\"{value}\"]", WINDOW.start + hour * 3600));
    points.collect::<Vec<_>>().join(",")
}

#[test]
fn what_is_refused_stays_unknown_and_is_said() {
    let fleet = told(|asked| {
        if asked.contains("/label/__name__/") {
            return success(r#"["DCGM_FI_DEV_FB_USED","DCGM_FI_DEV_GPU_UTIL"]"#);
        }
        if asked.contains("quantile_over_time") {
            return (500, "no quantiles today".into());
        }
        if asked.contains("query_range") {
            let mut values = vec!["50"; 24];
            // What exporters write for unknown, in both widths, and what is no number.
            (values[1], values[2], values[3]) = ("9223372036854775792", "NaN", "2147483632");
            if asked.contains("FB_USED") {
                values[5] = "1000";
            }
            // The same device by two scrapers, and one that nobody holds.
            return success(&format!(
                r#"{{"resultType":"matrix","result":[{{"metric":{{{POD},"instance":"x"}},"values":[{v}]}},{{"metric":{{{POD},"instance":"y"}},"values":[{v}]}},{{"metric":{{{NOBODY}}},"values":[{v}]}}]}}"#,
                v = hours(&values)
            ));
        }
        // The mean over a blank is none: it is asked again without it.
        let value = if asked.contains("%3C") || asked.contains('<') { "40" } else { "384307168202282325" };
        success(&format!(r#"{{"resultType":"vector","result":[{{"metric":{{{POD}}},"value":[1,"{value}"]}}]}}"#))
    })
    .expect("most of it is told");
    let [unnamed, usage] = fleet.workloads.as_slice() else {
        panic!("two workloads in {fleet:?}");
    };
    assert_eq!(
        (unnamed.holder.kind.as_str(), unnamed.holder.name.as_str()),
        ("Device", "a/GPU-2")
    );
    // Half busy, it is held by somebody whom no label names.
    assert_eq!(fleet.unheld_devices, 0);
    assert_eq!(
        (usage.holder.kind.as_str(), usage.holder.name.as_str()),
        ("Deployment", "chat")
    );
    assert_eq!(usage.asked.container.as_deref(), Some("main"));
    assert_eq!(
        usage.memory_peak.map(gpuwise_units::Bytes::mib),
        Some(1000.0)
    );
    // Twenty hours of 50 MiB and one of 1000.
    let average = usage.memory_average.map(gpuwise_units::Bytes::mib);
    assert!(
        average.is_some_and(|mib| (mib - 2000.0 / 21.0).abs() < 0.01),
        "{average:?}"
    );
    assert!(
        (usage.hours - 21.0).abs() < 1e-9 && usage.present,
        "three hours are unknown: {usage:?}"
    );
    let compute = usage.compute.as_ref().expect("by utilisation");
    assert_eq!(
        (compute.measure, compute.p95),
        (ComputeMeasure::Utilisation, Some(0.5)),
        "that of the hours stands in"
    );
    assert!(compute.of_hours);
    assert!(
        compute
            .average
            .is_some_and(|share| (share - 0.4).abs() < 1e-9),
        "percent: {compute:?}"
    );
    assert!(usage.dram_p95.is_none() && usage.cpu_share.is_none() && usage.engine.is_none());
    let said = |what: &str| fleet.notes.iter().any(|note| note.contains(what));
    assert!(
        said("no quantiles today") && said("SM activity") && said("CPU use is not known"),
        "{:?}",
        fleet.notes
    );
}

/// Devices of one pod, and what kube-state-metrics lists: `listed` is a status with a body.
fn with_listed(asked: &str, listed: (u16, String)) -> (u16, String) {
    if asked.contains("/label/__name__/") {
        return success(r#"["DCGM_FI_DEV_FB_USED","kube_deployment_spec_replicas"]"#);
    }
    if asked.contains("query_range") {
        let values = hours(&["50"; 24]);
        return success(&format!(
            r#"{{"resultType":"matrix","result":[{{"metric":{{{POD}}},"values":[{values}]}}]}}"#
        ));
    }
    if !asked.contains("kube_deployment_spec_replicas") {
        return success(r#"{"resultType":"vector","result":[]}"#);
    }
    // Also what holds no GPU is asked for.
    assert!(asked.contains("quiet%7Cteam"), "{asked}");
    listed
}

#[test]
fn what_is_declared_is_told_with_whether_it_is_all() {
    let listed = |asked: &str| {
        let rows = [("chat", "1"), ("asleep", "0"), ("odd", "NaN")].map(|(name, count)| {
            format!(
                r#"{{"metric":{{"namespace":"team","deployment":"{name}"}},"value":[1,"{count}"]}}"#
            )
        });
        let data = format!(r#"{{"resultType":"vector","result":[{}]}}"#, rows.join(","));
        with_listed(asked, success(&data))
    };
    let fleet = told(listed).expect("it is told");
    let declared: Vec<(&str, u32)> = fleet
        .declared
        .replicas
        .iter()
        .map(|(holder, replicas)| (holder.name.as_str(), *replicas))
        .collect();
    assert_eq!(declared, [("asleep", 0), ("chat", 1)]);
    assert!(fleet.declared.whole);
    assert!(
        fleet.scope.source.starts_with("http://127.0.0.1:"),
        "{:?}",
        fleet.scope
    );
    let fleet = told(|asked| with_listed(asked, (500, "no".into()))).expect("the rest is told");
    assert!(!fleet.declared.whole && fleet.declared.replicas.is_empty());
    let warned = |asked: &str| {
        let body = r#"{"status":"success","warnings":["partial"],"data":{"resultType":"vector","result":[]}}"#;
        with_listed(asked, (200, body.into()))
    };
    assert!(!told(warned).expect("it is told").declared.whole);
}

#[test]
fn a_server_that_knows_no_gpu_is_named() {
    let error = told(|_| success("[]")).expect_err("there is nothing");
    assert!(error.to_string().contains("no metrics of GPUs"), "{error}");
    let error = told(|_| (401, "who are you".into())).expect_err("it is shut");
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("--token-file")),
        "{error}"
    );
    // Names are told, and then nothing.
    let error = told(|asked| {
        if asked.contains("__name__") {
            success(r#"["DCGM_FI_DEV_FB_USED"]"#)
        } else {
            (500, "closed".into())
        }
    })
    .expect_err("no query is answered");
    assert!(error.to_string().contains("500: closed"), "{error}");
}
