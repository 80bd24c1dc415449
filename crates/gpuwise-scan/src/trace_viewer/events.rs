//! Events of the viewer's JSON, read as a stream.

use super::TraceViewerError;
use crate::xplane::operation;
use gpuwise_domain::profile::timeline::{
    Device, Format, HostSpan, Index, Loss, NameId, Origin, Stream, Thread, Timeline, Work,
    WorkClass,
};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Events up to which the viewer's writer goes (`max_events` of xprof's trace viewer).
const WRITERS_CAP: u64 = 1_000_000;

/// Reads a trace of the viewer.
///
/// Names of processes and threads come before their events, as the viewer's writer has them; events
/// of a process that is not named are counted as lost.
///
/// # Errors
///
/// Where the text is no such trace.
pub fn read_trace_viewer(bytes: &[u8]) -> Result<Timeline, TraceViewerError> {
    let mut reader = Reader::default();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let result = Document(&mut reader).deserialize(&mut json);
    match result.and_then(|()| json.end()) {
        Ok(()) => {}
        Err(error) if error.is_eof() && reader.timeline.event_count > 0 => {
            reader.lose(
                "the file is cut off; events from the cut on are missing",
                1,
                None,
            );
        }
        Err(error) => {
            return Err(TraceViewerError::Json {
                events: reader.timeline.event_count,
                what: error.to_string(),
            });
        }
    }
    reader.finish()
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    ph: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    pid: i64,
    #[serde(default)]
    tid: i64,
    ts: Option<f64>,
    dur: Option<f64>,
    #[serde(borrow)]
    args: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    name: Option<Name<'a>>,
    #[serde(borrow)]
    tf_op: Option<Name<'a>>,
    #[serde(borrow)]
    hlo_module: Option<Name<'a>>,
    #[serde(borrow)]
    hlo_op: Option<Name<'a>>,
}

impl Arguments<'_> {
    fn text<'n>(name: Option<&'n Name<'_>>) -> Option<&'n str> {
        match name? {
            Name::Text(text) => Some(text)
                .map(|text| &**text)
                .filter(|text| !text.is_empty()),
            Name::Other(_) => None,
        }
    }
}

/// `args.name` of metadata is a text; of other events it may be anything.
#[derive(Deserialize)]
#[serde(untagged)]
enum Name<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(IgnoredAny),
}

#[derive(Clone, Copy)]
enum Place {
    Stream(u32),
    Host(u32),
    Derived,
}

#[derive(Default)]
struct Reader {
    timeline: Timeline,
    names: BTreeMap<String, NameId>,
    processes: BTreeMap<i64, String>,
    threads: BTreeMap<(i64, i64), String>,
    places: BTreeMap<(i64, i64), Place>,
    derived: u64,
    unplaced: u64,
    without_time: u64,
}

impl Reader {
    fn lose(&mut self, what: &str, count: u64, first: Option<String>) {
        self.timeline.losses.push(Loss {
            what: what.into(),
            count,
            first,
        });
    }

    fn event(&mut self, event: &Event<'_>) {
        if event.ph == "M" {
            if let Some(Arguments {
                name: Some(Name::Text(name)),
                ..
            }) = &event.args
            {
                match &*event.name {
                    "process_name" => {
                        self.processes.insert(event.pid, name.to_string());
                    }
                    "thread_name" => {
                        let key = (event.pid, event.tid);
                        self.threads.insert(key, name.to_string());
                    }
                    _ => {}
                }
            }
            return;
        }
        if event.ph != "X" {
            return;
        }
        self.timeline.event_count += 1;
        let (Some(start), Some(length)) = (nanoseconds(event.ts), nanoseconds(event.dur)) else {
            self.without_time += 1;
            return;
        };
        let (start_ns, end_ns) = (start, start.saturating_add(length.max(0)));
        match self.place(event.pid, event.tid) {
            Some(Place::Stream(stream)) => {
                let name = self.name(&event.name);
                self.timeline.work.push(Work {
                    start_ns,
                    end_ns,
                    name,
                    stream,
                    call: Index::NONE,
                    operator: Index::NONE,
                    detail: Index::NONE,
                    class: class(&event.name),
                });
                let origin = self.origin(event.args.as_ref());
                self.timeline.origins.push(origin);
            }
            Some(Place::Host(thread)) if !event.name.starts_with('$') => {
                let name = self.name(&event.name);
                self.timeline.operators.push(HostSpan {
                    start_ns,
                    end_ns,
                    name,
                    thread,
                    operands: Index::NONE,
                });
            }
            Some(Place::Host(_)) => {}
            Some(Place::Derived) => self.derived += 1,
            None => self.unplaced += 1,
        }
    }

    /// What XLA says that a piece of work was made of.
    fn origin(&mut self, args: Option<&Arguments<'_>>) -> Origin {
        let mut of = |text: Option<&str>| {
            text.map_or(Index::NONE, |text| Index::of(self.name(text).0 as usize))
        };
        let Some(args) = args else {
            return Origin::NONE;
        };
        let operation = Arguments::text(args.tf_op.as_ref()).map(operation);
        let path = Arguments::text(args.name.as_ref());
        Origin {
            path: of(path.or(operation.filter(|name| !name.is_empty()))),
            program: of(Arguments::text(args.hlo_module.as_ref())),
            operation: of(Arguments::text(args.hlo_op.as_ref())),
        }
    }

    fn name(&mut self, text: &str) -> NameId {
        if let Some(known) = self.names.get(text) {
            return *known;
        }
        let id = self.timeline.names.add(text);
        self.names.insert(text.into(), id);
        id
    }

    fn place(&mut self, process: i64, thread: i64) -> Option<Place> {
        if let Some(known) = self.places.get(&(process, thread)) {
            return Some(*known);
        }
        let process_name = self.processes.get(&process)?;
        let line = self.threads.get(&(process, thread)).cloned();
        let device = process_name
            .strip_prefix("/device:")
            .and_then(|rest| rest.split_once(':'));
        let place = if let Some((kind, number)) = device {
            let number = number.split_whitespace().next()?.parse().ok()?;
            let kind = kind.to_owned();
            let line = line.as_deref().unwrap_or("");
            self.device_line(&kind, number, line, thread)
        } else {
            let index = u32::try_from(self.timeline.threads.len()).unwrap_or(u32::MAX);
            self.timeline.threads.push(Thread {
                process,
                thread,
                name: line,
            });
            Place::Host(index)
        };
        self.places.insert((process, thread), place);
        Some(place)
    }

    fn device_line(&mut self, kind: &str, number: i64, line: &str, thread: i64) -> Place {
        let known = self
            .timeline
            .devices
            .iter()
            .position(|d| d.number == number);
        let device = known.unwrap_or_else(|| {
            self.timeline.devices.push(Device {
                number,
                other_kind: (kind != "GPU").then(|| kind.to_owned()),
                ..Device::default()
            });
            self.timeline.devices.len() - 1
        });
        if kind != "GPU" {
            return Place::Derived;
        }
        // `XLA Ops - from #7` and the like name a stream that they were derived from.
        let Some(rest) = line.strip_prefix("Stream #") else {
            return Place::Derived;
        };
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        let stream = u32::try_from(self.timeline.streams.len()).unwrap_or(u32::MAX);
        self.timeline.streams.push(Stream {
            device: u16::try_from(device).unwrap_or(u16::MAX),
            number: digits.and_then(|d| d.parse().ok()).unwrap_or(thread),
        });
        Place::Stream(stream)
    }

    fn finish(mut self) -> Result<Timeline, TraceViewerError> {
        let named = |name: &String| name.starts_with("/device:") || name.starts_with("/host:");
        if !self.processes.values().any(named) {
            return Err(TraceViewerError::NotATrace);
        }
        self.timeline.format = Format::TraceViewer;
        let events = self.timeline.event_count;
        let sample = if events >= WRITERS_CAP {
            "a sample: the trace viewer's writer dropped events beyond its cap; take the .xplane.pb"
        } else {
            "a sample, as the trace viewer serves it: it may leave events out; take the .xplane.pb"
        };
        self.lose(sample, 1, None);
        let counts = [
            (
                "events on lines that the viewer derived from others, or of other devices than GPUs",
                self.derived,
            ),
            ("events of processes without a name", self.unplaced),
            ("events without a time that is a number", self.without_time),
        ];
        for (what, count) in counts {
            if count > 0 {
                self.lose(what, count, None);
            }
        }
        if self.timeline.origins.iter().all(|one| *one == Origin::NONE) {
            self.timeline.origins.clear();
        }
        sort_devices(&mut self.timeline);
        Ok(self.timeline)
    }
}

/// Devices in ascending order of their numbers.
fn sort_devices(timeline: &mut Timeline) {
    let mut order: Vec<usize> = (0..timeline.devices.len()).collect();
    order.sort_by_key(|index| timeline.devices.get(*index).map(|device| device.number));
    let devices = std::mem::take(&mut timeline.devices);
    timeline.devices = order
        .iter()
        .filter_map(|index| devices.get(*index).cloned())
        .collect();
    for stream in &mut timeline.streams {
        let place = order
            .iter()
            .position(|old| *old == usize::from(stream.device));
        stream.device = place
            .and_then(|p| u16::try_from(p).ok())
            .unwrap_or(u16::MAX);
    }
}

/// Microseconds of the file, which its writer rounds to nanoseconds.
fn nanoseconds(microseconds: Option<f64>) -> Option<i64> {
    let nanoseconds = libm::rint(microseconds? * 1_000.0);
    // Beyond this a real number no longer tells nanoseconds apart.
    (nanoseconds.is_finite() && nanoseconds.abs() < 9_007_199_254_740_992.0)
        .then_some(nanoseconds as i64)
}

fn class(name: &str) -> WorkClass {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("memset") || lower.starts_with("fillbuffer") {
        WorkClass::Set
    } else if lower.starts_with("memcpy")
        || lower.starts_with("copydevice")
        || lower.starts_with("copyhost")
    {
        WorkClass::Copy
    } else {
        WorkClass::Kernel
    }
}

struct Document<'r>(&'r mut Reader);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object with `traceEvents`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "traceEvents" {
                map.next_value_seed(Events(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Events<'r>(&'r mut Reader);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element::<Event<'de>>()? {
            self.0.event(&event);
        }
        Ok(())
    }
}
