//! Tables of usage, and files of thresholds and names.

use gpuwise_domain::usage::{ComputeMeasure, rules::Rules, vocabulary::Quantity};
use gpuwise_read::usage::{read_audit_catalogue, read_usage};
use proptest::prelude::*;

const CARRIED: &str = include_str!("../../../../catalogue/audit.toml");

#[test]
fn what_the_binary_carries_is_whole() {
    let read = read_audit_catalogue("audit.toml", CARRIED).expect("it is sound");
    assert!(Rules::of(&read.thresholds).is_ok());
    for quantity in Quantity::ALL {
        assert!(
            read.vocabulary.of(quantity).next().is_some(),
            "{} has no metric",
            quantity.name()
        );
    }
    assert!(
        read.thresholds
            .iter()
            .all(|row| !row.source.is_empty() && !row.meaning.is_empty())
    );
    let without = CARRIED.replacen("name = \"idle_share\"", "name = \"another\"", 1);
    let read = read_audit_catalogue("audit.toml", &without).expect("it is sound");
    assert_eq!(Rules::of(&read.thresholds), Err("idle_share"));
}

#[track_caller]
fn wrong_catalogue(text: &str, with: &str) {
    let error = read_audit_catalogue("mine.toml", text)
        .expect_err(text)
        .to_string();
    assert!(
        error.contains("mine.toml") && error.contains(with),
        "{error} without {with:?}"
    );
}

#[test]
fn catalogues_that_are_wrong() {
    wrong_catalogue("[[threshold]]\nname = 3", "line 2");
    wrong_catalogue(
        "[[threshold]]\nname=\"a\"\nvalue=-1\nmeaning=\"\"\nsource=\"\"",
        "from 0 up",
    );
    wrong_catalogue(
        "[[threshold]]\nname=\"a\"\nvalue=nan\nmeaning=\"\"\nsource=\"\"",
        "from 0 up",
    );
    wrong_catalogue(
        "[[metric]]\nquantity=\"sm\"\nnames=[\"x\"]\nsource=\"s\"",
        "sm_active",
    );
    wrong_catalogue("[[treshold]]", "treshold");
}

#[test]
fn a_row_is_read_as_it_is_written() {
    let text = "workload,gpu,gpus,memory_peak_mib,gpu_utilisation_p95,idle_hours,idle_stretch_hours,hours,colour\n\
                a, A100 ,2,1024,0.5,10,20,336,red\nb,T4,,,,,,,\n";
    let (rows, unread) = read_usage("u.csv", text).expect("it is sound");
    assert_eq!(unread, ["colour"]);
    let [a, b] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!(
        (
            a.asked.devices,
            a.memory_peak.map(gpuwise_units::Bytes::mib)
        ),
        (2, Some(1024.0))
    );
    assert_eq!(
        a.compute.as_ref().map(|c| (c.measure, c.p95)),
        Some((ComputeMeasure::Utilisation, Some(0.5)))
    );
    assert_eq!(
        a.idle.map(|i| (i.hours, i.in_stretches)),
        Some((10.0, 10.0)),
        "no more than there are"
    );
    assert_eq!(
        (b.asked.devices, b.memory_peak, b.compute.clone(), b.idle),
        (1, None, None, None)
    );
}

#[track_caller]
fn wrong(text: &str, with: &str) {
    let error = read_usage("u.csv", text).expect_err(text).to_string();
    assert!(
        error.contains("u.csv") && error.contains(with),
        "{error} without {with:?}"
    );
}

#[test]
fn tables_that_are_wrong() {
    wrong("", "no column `workload`");
    wrong("workload\na", "no column `gpu`");
    wrong("workload,gpu\n,T4", "line 2, workload");
    wrong(
        "workload,gpu,sm_active_p95\na,T4,80",
        "line 2, sm_active_p95",
    );
    wrong("workload,gpu,sm_active_p95\na,T4,eighty", "\"eighty\"");
    wrong("workload,gpu,gpus\na,T4,1.5", "whole number");
    wrong("workload,gpu,hours\na,T4,-1", "line 2, hours");
    wrong("workload,gpu\na", "line 2");
    let (rows, _) =
        read_usage("u.csv", "workload,gpu,gpus,replicas\na,T4,1000000,1000000").expect("large");
    assert_eq!(
        rows.first().map(gpuwise_domain::usage::Usage::devices),
        Some(u32::MAX)
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}", cells in "[a-z0-9,.\"\n-]{0,120}") {
        let _ = read_audit_catalogue("x", &text);
        let _ = read_usage("x", &format!("workload,gpu,gpus,hours,memory_peak_mib\n{cells}"));
    }
}
