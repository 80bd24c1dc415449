//! Answers of a Prometheus server, read as they come: one series in memory at a time.
//!
//! The format: Prometheus documentation, "HTTP API", "Format overview" and "Expression query result
//! formats": numbers are `[seconds, "text"]`, where the text may be `NaN`, `+Inf` and `-Inf`.

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::{
    borrow::Cow,
    cell::Cell,
    fmt,
    io::{self, BufReader, Read},
};

/// What a server may send for one series before it is stopped.
const LARGEST_SERIES: u64 = 64 << 20;

/// One value at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The value; may be NaN or infinite.
    pub value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Series<'a> {
    /// Its labels as the server lists them; none for a scalar.
    pub labels: &'a [(String, String)],
    /// Its points: one for an instant query.
    pub points: &'a [Point],
}

impl Series<'_> {
    /// The value of a label; an empty one is as good as none.
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|v| !v.is_empty())
    }

    /// The last point's value.
    pub fn value(&self) -> Option<f64> {
        self.points.last().map(|point| point.value)
    }
}

/// What came besides the series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// `success` or `error`.
    pub status: String,
    /// The kind of error, by Prometheus's names.
    pub error_type: String,
    pub error: String,
    /// What the server warns of: among others, that its answer is partial.
    pub warnings: Vec<String>,
    pub series: u64,
    /// Points that are native histograms, which are left out.
    pub histograms: u64,
}

#[derive(Debug)]
pub(super) enum Event<'a> {
    Series(Series<'a>),
    Name(&'a str),
}

/// Why an answer cannot be read, after so many series.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) series: u64,
    pub(super) error: serde_json::Error,
}

/// Reads an answer and hands over each series as it comes.
///
/// # Errors
/// In words, when it breaks off, is no such document, or holds a series of more than 64 MiB.
pub fn read_answer(reader: impl Read, mut each: impl FnMut(Series<'_>)) -> Result<Answer, String> {
    let mut take = |event: Event<'_>| {
        if let Event::Series(series) = event {
            each(series);
        }
    };
    read(reader, &mut take)
        .map_err(|broken| format!("after {} series: {}", broken.series, broken.error))
}

pub(super) fn read(reader: impl Read, each: &mut dyn FnMut(Event<'_>)) -> Result<Answer, Broken> {
    let used = Cell::new(0);
    let bounded = Bounded {
        inner: reader,
        used: &used,
    };
    let mut json =
        serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 17, bounded));
    let mut reading = Reading {
        answer: Answer::default(),
        labels: Vec::new(),
        points: Vec::new(),
        used: &used,
        each,
    };
    let outcome = Document(&mut reading).deserialize(&mut json);
    let series = reading.answer.series;
    outcome.map_err(|error| Broken { series, error })?;
    Ok(reading.answer)
}

/// Stops a server that never comes to the end of a series.
struct Bounded<'a, R> {
    inner: R,
    used: &'a Cell<u64>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        let used = self.used.get() + got as u64;
        self.used.set(used);
        if used > LARGEST_SERIES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "more than 64 MiB for one series",
            ));
        }
        Ok(got)
    }
}

struct Reading<'a, 'e> {
    answer: Answer,
    labels: Vec<(String, String)>,
    points: Vec<Point>,
    used: &'a Cell<u64>,
    each: &'a mut (dyn FnMut(Event<'_>) + 'e),
}

impl Reading<'_, '_> {
    fn series_ends(&mut self) {
        self.answer.series += 1;
        (self.each)(Event::Series(Series {
            labels: &self.labels,
            points: &self.points,
        }));
        self.used.set(0);
    }
}

/// Whatever stands there decides which visit is made.
macro_rules! any_to {
    ($seed:ident) => {
        impl<'de> DeserializeSeed<'de> for $seed<'_, '_, '_> {
            type Value = ();
            fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
                input.deserialize_any(self)
            }
        }
    };
}

struct Document<'r, 'a, 'e>(&'r mut Reading<'a, 'e>);
any_to!(Document);

impl<'de> Visitor<'de> for Document<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer of Prometheus")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match key.as_ref() {
                "status" => self.0.answer.status = map.next_value()?,
                "errorType" => self.0.answer.error_type = map.next_value()?,
                "error" => self.0.answer.error = map.next_value()?,
                "warnings" | "infos" => {
                    let said: Option<Vec<String>> = map.next_value()?;
                    self.0.answer.warnings.extend(said.unwrap_or_default());
                }
                "data" => map.next_value_seed(Data(self.0))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Data<'r, 'a, 'e>(&'r mut Reading<'a, 'e>);
any_to!(Data);

impl<'de> Visitor<'de> for Data<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("data of an answer")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == "result" {
                map.next_value_seed(List(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        List(self.0).visit_seq(items)
    }
}

struct List<'r, 'a, 'e>(&'r mut Reading<'a, 'e>);
any_to!(List);

impl<'de> Visitor<'de> for List<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of results")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut scalar_at = None;
        while items
            .next_element_seed(Item(self.0, &mut scalar_at))?
            .is_some()
        {}
        Ok(())
    }
}

/// A series, a name, or half of a scalar.
struct Item<'r, 'a, 'e>(&'r mut Reading<'a, 'e>, &'r mut Option<f64>);
any_to!(Item);

impl<'de> Visitor<'de> for Item<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series, a name or a scalar")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let reading = self.0;
        reading.labels.clear();
        reading.points.clear();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match key.as_ref() {
                "metric" => map.next_value_seed(Labels(reading))?,
                "value" => map.next_value_seed(OnePoint(reading))?,
                "values" => map.next_value_seed(Points(reading))?,
                "histogram" | "histograms" => {
                    reading.answer.histograms += 1;
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        reading.series_ends();
        Ok(())
    }
    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        *self.1 = Some(value);
        Ok(())
    }
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }
    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        let reading = self.0;
        match (self.1.take(), number(text)) {
            (Some(at), Some(value)) => {
                reading.labels.clear();
                reading.points.clear();
                reading.points.push(Point {
                    at_ms: milliseconds(at),
                    value,
                });
                reading.series_ends();
            }
            (Some(_), None) => {}
            (None, _) => {
                (reading.each)(Event::Name(text));
                reading.used.set(0);
            }
        }
        Ok(())
    }
}

struct Labels<'r, 'a, 'e>(&'r mut Reading<'a, 'e>);
any_to!(Labels);

impl<'de> Visitor<'de> for Labels<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(pair) = map.next_entry::<String, String>()? {
            self.0.labels.push(pair);
        }
        Ok(())
    }
}

struct Points<'r, 'a, 'e>(&'r mut Reading<'a, 'e>);
any_to!(Points);

impl<'de> Visitor<'de> for Points<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of points")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(OnePoint(self.0))?.is_some() {}
        Ok(())
    }
}

struct OnePoint<'r, 'a, 'e>(&'r mut Reading<'a, 'e>);
any_to!(OnePoint);

impl<'de> Visitor<'de> for OnePoint<'_, '_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a point: [seconds, \"number\"]")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let at: f64 = items
            .next_element()?
            .ok_or_else(|| A::Error::custom("a point without time"))?;
        let value = items
            .next_element_seed(NumberText)?
            .ok_or_else(|| A::Error::custom("a point without value"))?;
        while items.next_element::<IgnoredAny>()?.is_some() {}
        self.0.points.push(Point {
            at_ms: milliseconds(at),
            value,
        });
        Ok(())
    }
}

struct NumberText;

impl<'de> DeserializeSeed<'de> for NumberText {
    type Value = f64;
    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<f64, D::Error> {
        input.deserialize_any(self)
    }
}

impl Visitor<'_> for NumberText {
    type Value = f64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number in quotes")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<f64, E> {
        number(text).ok_or_else(|| E::custom(format!("{text:?} is no number")))
    }
    fn visit_f64<E>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }
    fn visit_u64<E>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }
    fn visit_i64<E>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }
}

/// `NaN`, `+Inf` and `-Inf` are among what Rust reads as a number.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}
