//! Timelines of processes while they are filled.

use gpuwise_domain::profile::nsight::NsightProcess;
use gpuwise_domain::profile::timeline::{
    Detail, Device, HostSpan, Index, Loss, NameId, Stream, Thread,
};
use std::collections::{BTreeMap, HashMap};

/// Processes by their global id without its lowest 24 bits, which are the thread's: host, machine and
/// process together, so that equal process ids of two machines stay apart.
pub(super) type ProcessKey = i64;

/// Bits of a global id that are the thread's.
const THREAD_BITS: u32 = 24;
const LOW_BITS: i64 = (1 << THREAD_BITS) - 1;

pub(super) fn process_key(global: i64) -> ProcessKey {
    global >> THREAD_BITS
}

pub(super) fn process_id(key: ProcessKey) -> i64 {
    key & LOW_BITS
}

pub(super) fn thread_id(global: i64) -> i64 {
    global & LOW_BITS
}

/// One process while it is filled.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) process: NsightProcess,
    names: HashMap<i64, NameId>,
    texts: HashMap<String, NameId>,
    details: BTreeMap<String, Index>,
    streams: BTreeMap<(i64, i64), u32>,
    threads: BTreeMap<i64, u32>,
    /// The last call of a correlation id, of this process.
    pub(super) calls: HashMap<i64, Index>,
}

impl Builder {
    /// A name by its id in the file's table of texts.
    pub(super) fn name_of(&mut self, id: i64, strings: &HashMap<i64, String>) -> NameId {
        if let Some(known) = self.names.get(&id) {
            return *known;
        }
        let name = match strings.get(&id) {
            Some(text) => self.name(text),
            None => self.name(&id.to_string()),
        };
        self.names.insert(id, name);
        name
    }

    pub(super) fn name(&mut self, text: &str) -> NameId {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let id = self.process.timeline.names.add(text);
        self.texts.insert(text.into(), id);
        id
    }

    /// What is known of a piece of work, stored once.
    pub(super) fn detail(&mut self, detail: Detail) -> Index {
        let key = format!("{detail:?}");
        if let Some(known) = self.details.get(&key) {
            return *known;
        }
        let index = Index::of(self.process.timeline.details.len());
        self.process.timeline.details.push(detail);
        self.details.insert(key, index);
        index
    }

    /// A stream of a device, which is added where it is new.
    pub(super) fn stream(&mut self, device: i64, number: i64) -> u32 {
        if let Some(known) = self.streams.get(&(device, number)) {
            return *known;
        }
        let timeline = &mut self.process.timeline;
        let known = timeline.devices.iter().position(|d| d.number == device);
        let place = known.unwrap_or_else(|| {
            timeline.devices.push(Device {
                number: device,
                ..Device::default()
            });
            timeline.devices.len() - 1
        });
        let stream = u32::try_from(timeline.streams.len()).unwrap_or(u32::MAX);
        timeline.streams.push(Stream {
            device: u16::try_from(place).unwrap_or(u16::MAX),
            number,
        });
        self.streams.insert((device, number), stream);
        stream
    }

    /// A host thread by its global id.
    pub(super) fn thread(&mut self, global: i64, names: &HashMap<i64, String>) -> u32 {
        if let Some(known) = self.threads.get(&global) {
            return *known;
        }
        let index = u32::try_from(self.process.timeline.threads.len()).unwrap_or(u32::MAX);
        self.process.timeline.threads.push(Thread {
            process: process_id(process_key(global)),
            thread: thread_id(global),
            name: names.get(&global).cloned(),
        });
        self.threads.insert(global, index);
        index
    }

    /// Something that this timeline has not.
    pub(super) fn lose(&mut self, what: &str, count: u64) {
        let losses = &mut self.process.timeline.losses;
        if let Some(known) = losses.iter_mut().find(|loss| loss.what == what) {
            known.count += count;
        } else if count > 0 {
            losses.push(Loss {
                what: what.into(),
                count,
                first: None,
            });
        }
    }

    /// Gives each piece of work the innermost operator around the call that launched it.
    pub(super) fn link_operators(&mut self) {
        let timeline = &mut self.process.timeline;
        let operator_of = enclosing(&timeline.operators, &timeline.calls);
        for work in &mut timeline.work {
            let call = work.call.get();
            work.operator = call
                .and_then(|call| operator_of.get(call).copied())
                .unwrap_or(Index::NONE);
        }
    }

    /// Devices in ascending order of their numbers.
    pub(super) fn sort_devices(&mut self) {
        let timeline = &mut self.process.timeline;
        let mut order: Vec<usize> = (0..timeline.devices.len()).collect();
        order.sort_by_key(|place| timeline.devices.get(*place).map(|device| device.number));
        let devices = std::mem::take(&mut timeline.devices);
        let sorted = order
            .iter()
            .filter_map(|place| devices.get(*place).cloned());
        timeline.devices = sorted.collect();
        for stream in &mut timeline.streams {
            let place = order
                .iter()
                .position(|old| *old == usize::from(stream.device));
            let place = place.and_then(|place| u16::try_from(place).ok());
            stream.device = place.unwrap_or(u16::MAX);
        }
    }
}

/// For each call the innermost operator of the same thread in which it begins.
fn enclosing(operators: &[HostSpan], calls: &[HostSpan]) -> Vec<Index> {
    let order = |spans: &[HostSpan]| {
        let mut order: Vec<usize> = (0..spans.len()).collect();
        order.sort_by_key(|place| {
            let span = spans.get(*place);
            span.map(|span| (span.thread, span.start_ns, std::cmp::Reverse(span.end_ns)))
        });
        order
    };
    let mut found = vec![Index::NONE; calls.len()];
    let outer = order(operators);
    let mut next = 0;
    let mut open: Vec<(usize, HostSpan)> = Vec::new();
    for place in order(calls) {
        let Some(call) = calls.get(place) else {
            continue;
        };
        while let Some((index, span)) = outer
            .get(next)
            .and_then(|index| Some((*index, *operators.get(*index)?)))
            .filter(|(_, span)| (span.thread, span.start_ns) <= (call.thread, call.start_ns))
        {
            open.retain(|(_, before)| {
                before.thread == span.thread && before.end_ns > span.start_ns
            });
            open.push((index, span));
            next += 1;
        }
        open.retain(|(_, span)| span.thread == call.thread && span.end_ns > call.start_ns);
        if let (Some(found), Some((index, _))) = (found.get_mut(place), open.last()) {
            *found = Index::of(*index);
        }
    }
    found
}
