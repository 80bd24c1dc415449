//! Events of a Kineto trace as HolisticTraceAnalysis reads them: times as floating-point
//! microseconds, rounded inwards where the file has fractions.
//!
//! Rules of HolisticTraceAnalysis 0.6.1, `hta/common/trace_parser.py`.

use gpuwise_domain::profile::hta::{HtaRow, HtaTrace};
use rustc_hash::FxHashMap;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::{fmt, io::Read};

/// Why a trace could not be read in this way.
#[derive(Debug, thiserror::Error)]
#[error("not JSON as HolisticTraceAnalysis reads it: {0}")]
pub struct HtaRowsError(#[from] serde_json::Error);

/// Reads uncompressed JSON.
///
/// # Errors
/// When it is no JSON, or has no `traceEvents`.
pub fn read(reader: impl Read) -> Result<HtaTrace, HtaRowsError> {
    let mut collected = Collected::default();
    let mut json = serde_json::Deserializer::from_reader(reader);
    Whole(&mut collected).deserialize(&mut json)?;
    json.end()?;
    Ok(collected.finish())
}

/// Events as they come; whether times have fractions is known at the end.
#[derive(Default)]
struct Collected {
    names: FxHashMap<String, u32>,
    trace: HtaTrace,
    fractions: bool,
}

impl Collected {
    fn add(&mut self, event: &Map<String, Value>) {
        let number = |key: &str| event.get(key).filter(|value| value.is_number());
        self.fractions |= number("ts").is_none_or(Value::is_f64);
        let (Some(start), Some(duration), Some(category)) = (
            number("ts").and_then(Value::as_f64),
            number("dur").and_then(Value::as_f64),
            event.get("cat").and_then(text),
        ) else {
            return;
        };
        if category == "Trace" {
            return;
        }
        let name = event.get("name").and_then(text).unwrap_or_default();
        let next = self.names.len() as u32;
        let name = if let Some(known) = self.names.get(&name) {
            *known
        } else {
            self.trace.names.push(name.clone());
            self.names.insert(name, next);
            next
        };
        let argument = |key: &str| event.get("args")?.get(key).and_then(whole);
        self.trace.rows.push(HtaRow {
            start_us: start,
            end_us: start + duration,
            name,
            stream: argument("stream").unwrap_or(-1),
            correlation: argument("correlation").unwrap_or(-1),
        });
    }

    fn finish(mut self) -> HtaTrace {
        if self.fractions {
            for row in &mut self.trace.rows {
                row.start_us = libm::ceil(row.start_us);
                row.end_us = libm::floor(row.end_us);
            }
        }
        self.trace
    }
}

/// The object with `traceEvents`, or the events alone.
struct Whole<'c>(&'c mut Collected);

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                map.next_value_seed(Events(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Events(self.0).visit_seq(seq)
    }
}

struct Events<'c>(&'c mut Collected);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(event) = seq.next_element::<Map<String, Value>>()? {
            self.0.add(&event);
        }
        Ok(())
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.as_f64()?.to_string()),
        _ => None,
    }
}

/// What `pandas.to_numeric` makes of it.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_f64().map(|value| value as i64),
        Value::String(text) => text.trim().parse::<f64>().ok().map(|value| value as i64),
        _ => None,
    }
}
