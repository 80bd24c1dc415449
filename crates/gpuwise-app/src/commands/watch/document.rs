//! One interval of watching as a line of JSON.

use super::show::View;
use gpuwise_domain::{
    profile::finding::{Finding, Gain},
    telemetry::{Quantity, ReadingValue},
};
use serde_json::{Map, Value, json};

/// One line of JSON: rows with the newest values, engines, what began and ended, what holds.
pub(super) fn document(view: &View<'_>) -> Value {
    let rows: Vec<Value> = view
        .state
        .rows()
        .iter()
        .map(|row| {
            let mut values = Map::new();
            let mut unknown = Map::new();
            for quantity in Quantity::ALL {
                if let Some(value) = row.last(*quantity) {
                    values.insert(quantity.name().into(), json!(value));
                } else if let Some(why) = row.missing(*quantity) {
                    debug_assert!(ReadingValue::Unknown(why).known().is_none());
                    unknown.insert(quantity.name().into(), json!(why.to_string()));
                }
            }
            let subject = &row.subject;
            json!({
                "host": subject.gpu.host,
                "gpu": subject.gpu.index,
                "uuid": subject.gpu.uuid,
                "product": subject.gpu.product,
                "slice": subject.instance.as_ref().map(ToString::to_string),
                "holder": (!subject.holder.is_unknown()).then(|| subject.holder.to_string()),
                "seen_at_s": row.seen,
                "values": values,
                "unknown": unknown,
            })
        })
        .collect();
    let engines: Vec<Value> = view
        .state
        .replicas()
        .map(|((engine, model, replica), track)| {
            json!({
                "engine": engine, "model": model, "replica": replica,
                "running": track.running.last(), "waiting": track.waiting.last(),
                "cache_use": track.cache_use.last(),
                "prefix_hit_rate": track.hit_rate(f64::MIN, f64::MAX),
            })
        })
        .collect();
    let also: Map<String, Value> = view
        .also
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    let wrong = view.state.anomalies;
    json!({
        "at_s": view.now,
        "rows": rows,
        "engines": engines,
        "also": also,
        "findings": view.changes.holding().map(|(began, one)| finding(one, Some(began), None)).collect::<Vec<_>>(),
        "began": view.changed.iter().filter(|one| one.ended.is_none()).map(|one| finding(&one.finding, Some(one.began), None)).collect::<Vec<_>>(),
        "ended": view.changed.iter().filter(|one| one.ended.is_some()).map(|one| finding(&one.finding, Some(one.began), one.ended)).collect::<Vec<_>>(),
        "samples": {"late": wrong.late, "contradicting": wrong.duplicate, "unusable": wrong.not_a_number, "after_restart": wrong.reset},
    })
}

fn finding(finding: &Finding, began: Option<f64>, ended: Option<f64>) -> Value {
    let gain = match finding.gain {
        Gain::Time { low, high } => json!({"of": "time", "low": low, "high": high}),
        Gain::Device { low, high } => json!({"of": "device", "low": low, "high": high}),
        Gain::Memory { low, high } => json!({"of": "bytes", "low": low, "high": high}),
        Gain::Safety => json!({"of": "safety"}),
        Gain::Unknown => Value::Null,
    };
    json!({
        "class": finding.class,
        "of": finding.scope.part,
        "statement": finding.statement,
        "evidence": finding.evidence.iter().map(|one| json!({
            "figure": one.figure, "value": one.value, "unit": one.unit, "threshold": one.threshold,
        })).collect::<Vec<_>>(),
        "gain": gain,
        "advice": finding.advice,
        "began_at_s": began,
        "ended_at_s": ended,
    })
}
