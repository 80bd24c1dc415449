//! Events into the nouns of a timeline.

use super::{
    Limits,
    args::{self, WorkArgs},
    backward::{self, Numbered},
    event::{Event, MEMORY, MODULE},
    lex::Text,
    losses::{Losses, Place},
    names::{Interner, text},
    number::{count, integer, nanoseconds, real, unquoted},
    once::Once,
    vocabulary::{Class, Vocabulary},
};
use gpuwise_domain::profile::timeline::{
    CounterSample, Detail, HostSpan, Index, LaunchShape, MemoryEvent, Stream, Thread, Timeline,
    Work, WorkClass,
};
use std::collections::BTreeMap;

/// Different categories that are counted one by one; writers have a few dozen.
const MOST_CATEGORIES: usize = 512;

/// Systems allow 16 bytes; the limit bounds memory.
const LONGEST_THREAD_NAME: usize = 1024;

/// A category as it is spelled in the file.
struct Category {
    name: Box<[u8]>,
    class: Class,
    count: u64,
}

/// A timeline that is being read.
pub(super) struct Builder<'v> {
    vocabulary: &'v Vocabulary,
    limits: &'v Limits,
    pub(super) timeline: Timeline,
    pub(super) losses: Losses,
    names: Interner,
    categories: Vec<Category>,
    last_category: usize,
    /// Streams with the device's number; [`Timeline::streams`] is made of them at the end.
    pub(super) streams: Vec<(i64, i64)>,
    last_stream: usize,
    threads: BTreeMap<(i64, i64), u32>,
    last_thread: Option<((i64, i64), u32)>,
    /// Names of threads and processes, where the file states them.
    pub(super) thread_names: BTreeMap<(i64, i64), String>,
    once: Once,
    /// By name: its arguments are kept; it is a range of the framework.
    known_names: Vec<(bool, bool)>,
    /// Correlation and external identifier of each piece of work.
    pub(super) work_links: Vec<(u64, u64)>,
    /// Correlation of calls that have one, and their index.
    pub(super) call_links: Vec<(u64, u32)>,
    /// External identifier of operators that have one, and their index.
    pub(super) operator_links: Vec<(u64, u32)>,
    /// Operators with a number of autograd.
    pub(super) autograd: Vec<Numbered>,
    /// Devices that are no GPUs: number and index of the kind.
    pub(super) other_devices: BTreeMap<(i64, usize), u64>,
    /// Names that had quotes without a backslash.
    repaired: u64,
    /// Spans, samples and allocator events that were kept.
    kept: usize,
}

/// A host thread as numbers, with texts where the file has no numbers.
fn number_of(value: &[u8]) -> i64 {
    integer(value).unwrap_or(-1)
}

/// The stream of work without `args.stream`: 2021 files write `stream 7`.
fn stream_of(value: &[u8]) -> i64 {
    let inner = unquoted(value);
    let digits = inner
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    integer(inner)
        .or_else(|| integer(inner.get(inner.len() - digits..)?))
        .unwrap_or(-1)
}

impl<'v> Builder<'v> {
    pub(super) fn new(vocabulary: &'v Vocabulary, limits: &'v Limits) -> Self {
        Self {
            vocabulary,
            limits,
            timeline: Timeline::default(),
            losses: Losses::default(),
            names: Interner::new(),
            categories: Vec::new(),
            last_category: 0,
            streams: Vec::new(),
            last_stream: 0,
            threads: BTreeMap::new(),
            last_thread: None,
            thread_names: BTreeMap::new(),
            once: Once::new(),
            known_names: Vec::new(),
            work_links: Vec::new(),
            call_links: Vec::new(),
            operator_links: Vec::new(),
            autograd: Vec::new(),
            other_devices: BTreeMap::new(),
            repaired: 0,
            kept: 0,
        }
    }

    pub(super) fn event(&mut self, event: &Event<'_>, place: Place) {
        match event.phase {
            b'X' => self.span(event, place),
            b'i' | b'I' | b'R' if event.name.raw == MEMORY => self.memory(event, place),
            b'M' => self.metadata(event),
            b'C' => self.counter(event, place),
            b'B' | b'E' => self
                .losses
                .at("events that begin and end apart (`B`, `E`)", place),
            0 => self.losses.at("events without a phase (`ph`)", place),
            // Arrows and marks: nothing is drawn from them.
            _ => {}
        }
    }

    fn span(&mut self, event: &Event<'_>, place: Place) {
        let class = self.class(event.category);
        let unwanted = class == Class::Python && !event.name.raw.starts_with(MODULE);
        if event.skipped || class == Class::Other || unwanted {
            return;
        }
        if let Class::OtherDevice(kind) = class {
            let device = args::work(event.args)
                .device
                .unwrap_or_else(|| number_of(event.process));
            if self.other_devices.len() < MOST_CATEGORIES {
                *self.other_devices.entry((device, kind)).or_default() += 1;
            }
            return;
        }
        let Some((start_ns, end_ns)) = self.times(event, place) else {
            return;
        };
        if !self.has_room(place) {
            return;
        }
        self.repaired += u64::from(event.name.repaired);
        let class = match class {
            Class::Kernel => WorkClass::Kernel,
            Class::Copy => WorkClass::Copy,
            Class::Set => WorkClass::Set,
            _ => return self.host(event, class, start_ns, end_ns),
        };
        let args = args::work(event.args);
        self.work(event, class, &args, start_ns, end_ns);
    }

    /// Whether one more span may be kept.
    fn has_room(&mut self, place: Place) -> bool {
        let has_room = self.kept < self.limits.most_spans
            && self.names.bytes + self.once.bytes < self.limits.most_text_bytes;
        if has_room {
            self.kept += 1;
        } else {
            self.losses
                .at("events beyond what is kept of one file", place);
        }
        has_room
    }

    fn times(&mut self, event: &Event<'_>, place: Place) -> Option<(i64, i64)> {
        let what = match (event.start.map(unquoted), event.duration.map(unquoted)) {
            (_, None) => "spans without a duration (`dur`)",
            (None, _) => "spans without a start (`ts`)",
            (Some(start), Some(duration)) => match (nanoseconds(start), nanoseconds(duration)) {
                (Some(start), Some(duration)) if duration >= 0 => {
                    if let Some(end) = start.checked_add(duration) {
                        return Some((start, end));
                    }
                    "spans that end beyond 64 bits of nanoseconds"
                }
                (Some(_), Some(_)) => "spans of negative duration",
                _ => "spans whose start or duration is no number within 64 bits of nanoseconds",
            },
        };
        self.losses.at(what, place);
        None
    }

    fn class(&mut self, category: Text<'_>) -> Class {
        let last = self.categories.get_mut(self.last_category);
        if let Some(last) = last
            && *last.name == *category.raw
        {
            last.count += 1;
            return last.class;
        }
        let found = self
            .categories
            .iter()
            .position(|known| *known.name == *category.raw);
        let at = match found {
            Some(at) => at,
            None if self.categories.len() < MOST_CATEGORIES => {
                self.categories.push(Category {
                    name: category.raw.into(),
                    class: self.vocabulary.class(category.raw),
                    count: 0,
                });
                self.categories.len() - 1
            }
            None => return self.vocabulary.class(category.raw),
        };
        self.last_category = at;
        self.categories.get_mut(at).map_or(Class::Other, |known| {
            known.count += 1;
            known.class
        })
    }

    fn work(
        &mut self,
        event: &Event<'_>,
        class: WorkClass,
        args: &WorkArgs,
        start_ns: i64,
        end_ns: i64,
    ) {
        let device = args.device.unwrap_or_else(|| number_of(event.process));
        let stream = args.stream.unwrap_or_else(|| stream_of(event.thread));
        let detail = match class {
            WorkClass::Copy => Some(Detail::Copy(args::copy(event.name.raw, args))),
            WorkClass::Set => args.bytes.map(Detail::Set),
            WorkClass::Kernel => match &args.collective {
                Some(collective) => Some(Detail::Collective((**collective).clone())),
                None if args.launch == LaunchShape::default() => None,
                None => Some(Detail::Launch(args.launch)),
            },
        };
        let work = Work {
            start_ns,
            end_ns,
            name: self.names.id(event.name),
            stream: self.stream(device, stream),
            call: Index::NONE,
            operator: Index::NONE,
            detail: detail.map_or(Index::NONE, |detail| {
                self.once.detail(&mut self.timeline.details, detail)
            }),
            class,
        };
        self.timeline.work.push(work);
        self.work_links
            .push((args.correlation.unwrap_or(0), args.external.unwrap_or(0)));
    }

    fn stream(&mut self, device: i64, number: i64) -> u32 {
        let wanted = (device, number);
        if self.streams.get(self.last_stream) != Some(&wanted) {
            self.last_stream = match self.streams.iter().position(|stream| *stream == wanted) {
                Some(at) => at,
                // Beyond this many, hostile input would make the search slow: the last one takes all.
                None if self.streams.len() >= self.limits.most_streams => self.streams.len() - 1,
                None => {
                    self.streams.push(wanted);
                    self.streams.len() - 1
                }
            };
        }
        self.last_stream as u32
    }

    fn host(&mut self, event: &Event<'_>, class: Class, start_ns: i64, end_ns: i64) {
        let name = self.names.id(event.name);
        let mut span = HostSpan {
            start_ns,
            end_ns,
            name,
            thread: self.thread(event.process, event.thread),
            operands: Index::NONE,
        };
        match class {
            Class::Call => {
                if let Some(id) = args::link(event.args, [b"correlation"; 2]) {
                    self.call_links.push((id, self.timeline.calls.len() as u32));
                }
                self.timeline.calls.push(span);
            }
            Class::Operator => {
                let (is_counted, is_range) = self.known_name(name.0 as usize);
                if is_range {
                    self.timeline.annotations.push(span);
                    return;
                }
                if is_counted && let Some(operands) = args::operands(event.args) {
                    let known = &mut self.timeline.operands;
                    span.operands = self.once.operands(known, operands, event.args.len());
                }
                let operator = self.timeline.operators.len() as u32;
                if let Some(id) = args::link(event.args, [b"External id", b"external id"]) {
                    self.operator_links.push((id, operator));
                }
                self.autograd.extend(
                    backward::number(event.args).map(|number| Numbered { operator, ..number }),
                );
                self.timeline.operators.push(span);
            }
            Class::Overhead => self.timeline.overhead.push(span),
            Class::Python => self.timeline.modules.push(span),
            _ => self.timeline.annotations.push(span),
        }
    }

    /// Whether the arguments of an operator of this name are kept, and whether it is a range.
    fn known_name(&mut self, id: usize) -> (bool, bool) {
        for index in self.known_names.len()..=id {
            let name = self
                .names
                .names
                .text(gpuwise_domain::profile::timeline::NameId(index as u32));
            let vocabulary = self.vocabulary;
            let counted = vocabulary.counted_operators.iter();
            let mut kept = counted.chain(&vocabulary.moving_operators);
            self.known_names.push((
                kept.any(|known| known == name),
                vocabulary
                    .annotation_prefixes
                    .iter()
                    .any(|prefix| name.starts_with(prefix.as_str())),
            ));
        }
        self.known_names.get(id).copied().unwrap_or_default()
    }

    fn thread(&mut self, process: &[u8], thread: &[u8]) -> u32 {
        let key = (number_of(process), number_of(thread));
        if let Some((last, index)) = self.last_thread
            && last == key
        {
            return index;
        }
        let threads = &mut self.timeline.threads;
        let index = *self.threads.entry(key).or_insert_with(|| {
            threads.push(Thread {
                process: key.0,
                thread: key.1,
                name: None,
            });
            threads.len() as u32 - 1
        });
        self.last_thread = Some((key, index));
        index
    }

    fn memory(&mut self, event: &Event<'_>, place: Place) {
        let found = args::memory(event.args);
        let at = event.start.map(unquoted).and_then(nanoseconds);
        let (Some(at_ns), Some(bytes)) = (at, found.bytes) else {
            self.losses
                .at("`[memory]` events without time or bytes", place);
            return;
        };
        if !self.has_room(place) {
            return;
        }
        let is_host = found.device_type == Some(0) || found.device.is_none_or(|id| id < 0);
        self.timeline.memory.push(MemoryEvent {
            at_ns,
            device: found.device.filter(|_| !is_host),
            bytes,
            allocated: found.allocated,
            reserved: found.reserved,
        });
    }

    fn metadata(&mut self, event: &Event<'_>) {
        if event.name.raw != b"thread_name" || self.thread_names.len() >= self.limits.most_streams {
            return;
        }
        let key = (number_of(event.process), number_of(event.thread));
        super::lex::fields(event.args, |field, value| {
            if field == b"name" && value.len() < LONGEST_THREAD_NAME {
                self.thread_names.insert(key, text(value));
            }
        });
    }

    fn counter(&mut self, event: &Event<'_>, place: Place) {
        let Some(at_ns) = event.start.map(unquoted).and_then(nanoseconds) else {
            self.losses.at("counters without a time (`ts`)", place);
            return;
        };
        let device = number_of(event.process);
        let mut values = Vec::new();
        super::lex::fields(event.args, |key, value| {
            if let Some(value) = real(value) {
                values.push((key, value));
            }
        });
        for (key, value) in values {
            if !self.has_room(place) {
                return;
            }
            let joined = [event.name.raw, b" ", key].concat();
            let name = self.names.id(Text {
                raw: &joined,
                escaped: joined.contains(&b'\\'),
                repaired: false,
            });
            self.timeline.samples.push(CounterSample {
                at_ns,
                device,
                name,
                value,
            });
        }
    }

    /// Moves names and categories into the timeline, and says what was done to them.
    pub(super) fn close_names(&mut self) {
        self.timeline.categories = self
            .categories
            .iter()
            .map(|category| {
                let name = String::from_utf8_lossy(&category.name).into_owned();
                (name, category.count)
            })
            .collect();
        let names = std::mem::replace(&mut self.names, Interner::new());
        self.timeline.names = names.names;
        if names.damaged > 0 {
            self.losses.of_file(
                "names that are no UTF-8 text: what could not be read stands as `\u{fffd}`".into(),
                names.damaged,
            );
        }
        if self.repaired > 0 {
            self.losses.of_file(
                "names with quotes that are not escaped; they were kept".into(),
                self.repaired,
            );
        }
    }
}

/// A count under a key of the file's head.
pub(super) fn head_count(value: &serde_json::Value) -> Option<u64> {
    count(value.to_string().as_bytes())
}

/// Streams that are told apart in one file.
pub(super) fn stream_of_device(device: usize, number: i64) -> Stream {
    Stream {
        device: u16::try_from(device).unwrap_or(u16::MAX),
        number,
    }
}
