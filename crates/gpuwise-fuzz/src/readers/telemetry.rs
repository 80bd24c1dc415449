//! Telemetry of any form, conditions, and metrics that programs send.

use gpuwise_read::telemetry::{FieldNames, OtlpForm, read, read_condition, read_otlp};
use std::sync::LazyLock;

pub(super) static NAMES: LazyLock<FieldNames> = LazyLock::new(|| {
    let mut names = FieldNames::default();
    names
        .add_fields(
            "fields",
            include_str!("../../../../catalogue/telemetry_fields.csv"),
        )
        .expect("the catalogue is sound");
    names
        .add_dcgm(
            "dcgm",
            include_str!("../../../../catalogue/telemetry_dcgm.csv"),
        )
        .expect("the catalogue is sound");
    names
});

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let _ = read_otlp(data, OtlpForm::Json);
    let _ = read_otlp(data, OtlpForm::Protobuf);
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = read_condition(text);
    for found in read(text, &NAMES).into_iter().flatten() {
        for reading in &found.readings {
            assert!((reading.subject as usize) < found.subjects.len());
            assert!(reading.value.known().is_none_or(f64::is_finite));
        }
        for link in &found.links {
            assert!((link.subject as usize) < found.subjects.len());
        }
    }
}
