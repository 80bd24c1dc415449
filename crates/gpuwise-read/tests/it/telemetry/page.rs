//! The reference page of telemetry is written from the code and the catalogue. `GPUWISE_UPDATE_DOCS=1`
//! writes it anew.

use super::names;
use gpuwise_domain::telemetry::{MetricType, Quantity};
use gpuwise_read::telemetry::{read_thresholds, read_xids};
use std::{fmt::Write as _, fs, path::Path};

#[test]
fn the_reference_page_is_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let wanted = page(&root);
    let path = root.join("docs/reference/telemetry.md");
    if std::env::var_os("GPUWISE_UPDATE_DOCS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        wanted,
        "run GPUWISE_UPDATE_DOCS=1 cargo test -p gpuwise-read reference_page, and review the difference"
    );
}

fn page(root: &Path) -> String {
    let read = |file: &str| fs::read_to_string(root.join("catalogue").join(file)).unwrap();
    let names = names();
    let mut out = String::from(
        "# Telemetry\n\nGenerated from the code and from `catalogue/telemetry*`; how to use it: [Watch GPUs and engines](../guides/watch.md).\n\n\
         ## Quantities\n\n\
         Each is a name in JSON, in conditions and in thresholds. Of what goes up and down the database keeps `_mean`, `_p95` and `_max` over the window, of counters `_increase`. \
         The source of a name is in its row of `catalogue/telemetry_fields.csv`; DCGM fields count by id, under all names that they ever had.\n\n\
         | name | unit | goes | says | DCGM fields |\n|---|---|---|---|---|\n",
    );
    for quantity in Quantity::ALL {
        let mut ids: Vec<u32> = names
            .metrics_of(*quantity)
            .into_iter()
            .filter_map(|metric| names.dcgm_id(metric))
            .collect();
        ids.dedup();
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        let course = match quantity.course() {
            MetricType::Gauge => "up and down",
            MetricType::Counter => "up",
            MetricType::State => "seldom",
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {course} | {} | {} |",
            quantity.name(),
            quantity.unit(),
            quantity.meaning(),
            ids.join(", ")
        );
    }
    out += "\n## Thresholds\n\n| name | value | unit | decides | source |\n|---|---|---|---|---|\n";
    let limits = read_thresholds("telemetry.toml", &read("telemetry.toml")).unwrap();
    for (name, row) in &limits.rows {
        let _ = writeln!(
            out,
            "| `{name}` | {} | {} | {} | {} |",
            row.value, row.unit, row.meaning, row.source
        );
    }
    out += "\n## Error codes of the driver\n\n| XID | of | means | do |\n|---|---|---|---|\n";
    for (code, xid) in read_xids("telemetry_xid.csv", &read("telemetry_xid.csv")).unwrap() {
        let of = format!("{:?}", xid.class).to_lowercase();
        let _ = writeln!(out, "| {code} | {of} | {} | {} |", xid.meaning, xid.advice);
    }
    out
}
