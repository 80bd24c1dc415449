//! What was measured, asked from a program: a trace, a table of usage.

#[cfg(feature = "bench")]
use gpuwise_app::audit;
use gpuwise_app::settings::parse;
use gpuwise_app::{App, profile};
use gpuwise_domain::profile::figure::Scope;
use std::path::Path;

fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path).display().to_string()
}

#[test]
fn a_trace_answers_in_figures_and_findings() {
    let trace = file("fuzz/seeds/kineto/object.json");
    let concluded = profile(&App::shipped(), &parse([trace]).expect("flags")).expect("a trace");
    let figures = &concluded.summary.figures;
    let whole = |name: &str| {
        let of_all = |scope: &Scope| scope.device.is_none() && scope.part.is_none();
        let mut named = figures.iter().filter(|figure| figure.name == name);
        named.find(|figure| of_all(&figure.scope))?.value.real()
    };
    let (span, busy) = (whole("span_ns"), whole("busy_ns"));
    assert!(span >= busy && busy > Some(0.0), "{span:?} {busy:?}");
    assert_eq!(concluded.timelines.len(), 1);
}

#[test]
fn a_file_that_is_not_there_is_an_error_that_names_it() {
    let flags = parse(["nowhere.json"]).expect("flags");
    let error = profile(&App::shipped(), &flags).expect_err("no file");
    assert!(format!("{error:#}").contains("nowhere.json"), "{error:#}");
}

#[test]
#[cfg(feature = "bench")]
fn a_table_of_usage_answers_in_judgements_and_totals() {
    let flags = parse([file("docs/guides/files/usage.csv")]).expect("flags");
    let audited = audit(&App::shipped(), &flags).expect("a table");
    assert_eq!(audited.judgements.len(), audited.fleet.workloads.len());
    assert!(!audited.tenants.is_empty());
    let by_tenant: f64 = audited.tenants.iter().map(|one| one.gpus).sum();
    assert!((by_tenant - audited.totals.gpus).abs() < 1e-9);
}
