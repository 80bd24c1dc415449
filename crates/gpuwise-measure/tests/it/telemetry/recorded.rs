//! Recorded exporters and machines as negatives: what they do not tell is not said.

use super::{classes, found};
use gpuwise_domain::telemetry::Quantity;
use gpuwise_measure::telemetry::State;
use gpuwise_read::telemetry::{FieldNames, read};

#[test]
fn recorded_machines() {
    let Some(root) = gpuwise_needs::data("") else {
        return;
    };
    let mut names = FieldNames::default();
    names
        .add_fields("f", &super::catalogue("telemetry_fields.csv"))
        .unwrap();
    names
        .add_dcgm("d", &super::catalogue("telemetry_dcgm.csv"))
        .unwrap();
    let folder = root.join("profile/dcgm");
    for (file, expected) in [
        // Burning: memory copies and matrix products at once; it tells neither 1002 nor 1005.
        (
            "nvsmi_exporter__linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__load.metrics",
            &[] as &[&str],
        ),
        (
            "nvsmi_exporter__linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__idle.metrics",
            &[],
        ),
        // With MIG nothing is told of use.
        (
            "nvsmi_exporter__linux-x86_64__nvidia-h100-mig__590.48.01__load.metrics",
            &[],
        ),
        ("kops_l4.prom", &[]),
        ("ericsson_t4.prom", &[]),
    ] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let page = read(&text, &names).unwrap().remove(0);
        let mut state = State::new(300.0);
        for at in 0..6 {
            state.take(&page, f64::from(at) * 10.0);
        }
        let found = found(&state);
        println!(
            "{file}: {:?} util {:?}",
            classes(&found),
            state.rows()[0].last(Quantity::GpuUtil)
        );
        assert_eq!(classes(&found), expected, "{file}");
    }
}
