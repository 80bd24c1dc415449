//! Events of a Kineto trace as HolisticTraceAnalysis reads them: times as floating-point
//! microseconds, rounded inwards where the file has fractions.
//!
//! Rules of HolisticTraceAnalysis 0.6.1, `hta/common/trace_parser.py`.

use gpuwise_domain::profile::hta::{HtaRow, HtaTrace};
use rustc_hash::FxHashMap;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::{borrow::Cow, fmt, io::Read};

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
    fn add(&mut self, event: Event<'_>) {
        self.fractions |= event.start.is_none_or(|start| start.fraction);
        let (Some(start), Some(duration), Some(category)) =
            (event.start, event.duration, event.category)
        else {
            return;
        };
        if category == "Trace" {
            return;
        }
        let name = event.name.unwrap_or_default();
        let next = self.names.len() as u32;
        let name = if let Some(known) = self.names.get(name.as_ref()) {
            *known
        } else {
            self.trace.names.push(name.clone().into_owned());
            self.names.insert(name.into_owned(), next);
            next
        };
        self.trace.rows.push(HtaRow {
            start_us: start.value,
            end_us: start.value + duration.value,
            name,
            stream: event.stream.unwrap_or(-1),
            correlation: event.correlation.unwrap_or(-1),
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

/// A number, and whether it is written with a fraction.
#[derive(Clone, Copy)]
struct Number {
    value: f64,
    fraction: bool,
}

#[derive(Default)]
struct Event<'a> {
    name: Option<Cow<'a, str>>,
    category: Option<Cow<'a, str>>,
    start: Option<Number>,
    duration: Option<Number>,
    stream: Option<i64>,
    correlation: Option<i64>,
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
        while let Some(event) = seq.next_element::<Event<'_>>()? {
            self.0.add(event);
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Event<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Event<'static>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut event = Event::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" => event.name = text(map.next_value()?),
                        "cat" => event.category = text(map.next_value()?),
                        "ts" => event.start = number(&map.next_value()?),
                        "dur" => event.duration = number(&map.next_value()?),
                        "args" => {
                            let arguments: Arguments = map.next_value()?;
                            event.stream = arguments.stream;
                            event.correlation = arguments.correlation;
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(event)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A value that is a text, a number, or something else.
enum Scalar {
    Text(String),
    Number(Number),
    Other,
}

fn text(value: Scalar) -> Option<Cow<'static, str>> {
    match value {
        Scalar::Text(text) => Some(Cow::Owned(text)),
        Scalar::Number(number) => Some(Cow::Owned(number.value.to_string())),
        Scalar::Other => None,
    }
}

fn number(value: &Scalar) -> Option<Number> {
    match value {
        Scalar::Number(number) => Some(*number),
        Scalar::Text(_) | Scalar::Other => None,
    }
}

/// What `pandas.to_numeric` makes of it.
fn whole(value: &Scalar) -> Option<i64> {
    match value {
        Scalar::Number(number) => Some(number.value as i64),
        Scalar::Text(text) => text.trim().parse::<f64>().ok().map(|value| value as i64),
        Scalar::Other => None,
    }
}

#[derive(Default)]
struct Arguments {
    stream: Option<i64>,
    correlation: Option<i64>,
}

macro_rules! anything {
    ($value:ty, $other:expr) => {
        fn visit_unit<E>(self) -> Result<$value, E> {
            Ok($other)
        }
        fn visit_bool<E>(self, _: bool) -> Result<$value, E> {
            Ok($other)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<$value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($other)
        }
    };
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Arguments;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("arguments")
            }
            anything!(Arguments, Arguments::default());
            fn visit_str<E>(self, _: &str) -> Result<Arguments, E> {
                Ok(Arguments::default())
            }
            fn visit_f64<E>(self, _: f64) -> Result<Arguments, E> {
                Ok(Arguments::default())
            }
            fn visit_u64<E>(self, _: u64) -> Result<Arguments, E> {
                Ok(Arguments::default())
            }
            fn visit_i64<E>(self, _: i64) -> Result<Arguments, E> {
                Ok(Arguments::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Arguments, A::Error> {
                let mut arguments = Arguments::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "stream" => arguments.stream = whole(&map.next_value()?),
                        "correlation" => arguments.correlation = whole(&map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(arguments)
            }
        }
        deserializer.deserialize_any(Fields)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            anything!(Scalar, Scalar::Other);
            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                let fraction = true;
                Ok(Scalar::Number(Number { value, fraction }))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                let (value, fraction) = (value as f64, false);
                Ok(Scalar::Number(Number { value, fraction }))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                let (value, fraction) = (value as f64, false);
                Ok(Scalar::Number(Number { value, fraction }))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }
        deserializer.deserialize_any(Any)
    }
}
