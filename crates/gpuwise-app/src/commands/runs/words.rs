//! Figures and times as people read them.

use gpuwise_domain::profile::figure::{Scope, Value};
use gpuwise_measure::figures::definitions::definition;
use gpuwise_units::Bytes;
use gpuwise_view::{figures, table::Cell};

/// A time as `2026-11-21 19:41`, in UTC.
pub(super) fn time(at_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(at_ns)).map_or_else(
        |_| figures::MISSING.into(),
        |time| time.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// A time for programs: RFC 3339.
pub(super) fn time_cell(at_ns: Option<i64>) -> Cell {
    match at_ns.and_then(|at| jiff::Timestamp::from_nanosecond(i128::from(at)).ok()) {
        Some(at) => Cell::new(at.strftime("%Y-%m-%d %H:%M").to_string(), at.to_string()),
        None => Cell::missing(),
    }
}

/// A value in the unit of its figure; a name that gpuwise does not define says its unit at its end.
pub(super) fn value(name: &str, value: f64) -> String {
    let unit = definition(name).map_or_else(
        || match name.rsplit('_').next() {
            Some("percent" | "pct") => "%",
            Some(ending @ ("ns" | "ms" | "s" | "bytes" | "seconds")) => ending,
            _ => "",
        },
        |known| known.unit,
    );
    let time = |seconds: f64| {
        let text = figures::seconds(seconds.abs());
        if seconds < 0.0 {
            format!("-{text}")
        } else {
            text
        }
    };
    match unit {
        "ns" => time(value / 1e9),
        "ms" => time(value / 1e3),
        "seconds" | "s" => time(value),
        "bytes" if value >= 0.0 => figures::bytes(Bytes::new(value as u64)),
        "%" => format!("{} %", figures::number(value)),
        "count" if value >= 0.0 && value.fract() == 0.0 => figures::count(value as u64),
        _ => figures::number(value),
    }
}

/// A figure's cell: what people see, and the value in full.
pub(super) fn cell(name: &str, of: &Value) -> Cell {
    match of {
        Value::Integer(exact) => Cell::new(value(name, *exact as f64), *exact),
        Value::Real(real) => Cell::new(value(name, *real), *real),
        Value::Unknown(_) => Cell::missing(),
    }
}

/// What a figure is a figure of: `rank 3, device 0, gemm`.
pub(super) fn scope(scope: &Scope) -> String {
    let mut words = Vec::new();
    words.extend(scope.rank.map(|rank| format!("rank {rank}")));
    words.extend(scope.device.map(|device| format!("device {device}")));
    words.extend(scope.part.clone());
    words.join(", ")
}
