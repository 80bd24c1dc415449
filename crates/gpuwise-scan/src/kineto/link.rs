//! Work to the calls that launched it and the operators that it belongs to.

use super::{
    backward,
    build::{Builder, stream_of_device},
};
use gpuwise_domain::profile::timeline::{Device, HostSpan, Index, Lack, Needed, Timeline};
use std::collections::BTreeMap;

/// Completes a timeline once everything is read.
pub(super) fn finish(mut builder: Builder<'_>, kinds: &[String]) -> Timeline {
    builder.close_names();
    builder.timeline.lacks.extend(sample(&builder));
    devices(&mut builder, kinds);
    for thread in &mut builder.timeline.threads {
        thread.name = builder
            .thread_names
            .get(&(thread.process, thread.thread))
            .filter(|name| !name.is_empty())
            .cloned();
    }
    calls(&mut builder);
    operators(&mut builder);
    builder.timeline.backward = backward::of(&builder.timeline, &builder.autograd);
    epoch(&mut builder.timeline);
    builder.timeline.losses = builder.losses.into_vec();
    builder.timeline
}

/// PyTorch numbers operators, and CUPTI calls, as they are made, those that are not recorded as well. Files
/// of the profiler keep nearly all operators and 6 % of the calls or more; one that keeps few of both is a
/// sample.
fn sample(builder: &Builder<'_>) -> Option<Lack> {
    /// The largest jumps are left out of the count: other threads' numbers, windows that were joined.
    const JUMPS: usize = 100;
    const LEAST: usize = 200;
    const FEW: f64 = 0.05;
    let kept = |links: &[(u64, u32)]| {
        let numbers = links.iter().map(|(number, _)| *number);
        let (first, last) = (numbers.clone().min()?, numbers.clone().max()?);
        let all = (last - first) as f64;
        if links.len() < LEAST || links.len() as f64 >= all * FEW {
            // Enough of them, or too few to tell.
            return Some((links.len(), 1.0));
        }
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        let next = numbers.iter().skip(1);
        let mut steps: Vec<u64> = numbers
            .iter()
            .zip(next)
            .map(|(one, next)| next - one)
            .collect();
        steps.sort_unstable();
        steps.truncate(steps.len() - steps.len() / JUMPS);
        let made: f64 = steps.iter().map(|step| *step as f64).sum();
        Some((numbers.len(), steps.len() as f64 / made.max(1.0)))
    };
    let (operators, share) = kept(&builder.operator_links)?;
    let few = |share: f64| share < FEW;
    let calls = kept(&builder.call_links).map(|(_, share)| share);
    (few(share) && calls.is_none_or(few)).then(|| Lack {
        needed: Needed::Events,
        place: format!(
            "{:.0} % of the operators that their numbers count (it has {operators})",
            (1.0 - share) * 100.0
        ),
    })
}

/// Files without `baseTimeNanoseconds` print microseconds since 1970 itself.
fn epoch(timeline: &mut Timeline) {
    /// 2015, before there was such a profiler.
    const EARLIEST_NS: i64 = 1_420_070_400_000_000_000;
    let first = timeline
        .work
        .first()
        .map(|work| work.start_ns)
        .or_else(|| timeline.operators.first().map(|span| span.start_ns))
        .or_else(|| timeline.calls.first().map(|span| span.start_ns));
    if timeline.epoch_ns.is_none() && first.is_some_and(|first| first > EARLIEST_NS) {
        timeline.epoch_ns = Some(0);
    }
}

/// Numbers the devices in ascending order, and says what the file knows of each.
fn devices(builder: &mut Builder<'_>, kinds: &[String]) {
    let mut found: BTreeMap<i64, Option<String>> = BTreeMap::new();
    for (device, _) in &builder.streams {
        found.insert(*device, None);
    }
    let hosts: Vec<i64> = builder.timeline.threads.iter().map(|t| t.process).collect();
    for ((device, kind), count) in &builder.other_devices {
        // Events that name no device stand under the host's process.
        let number = if hosts.contains(device) { -1 } else { *device };
        let kind = kinds.get(*kind).cloned().unwrap_or_default();
        builder.losses.of_file(
            format!("events of {kind} devices, whose work is not read"),
            *count,
        );
        found.entry(number).or_insert(Some(kind));
    }
    let described = &builder.timeline.described_devices;
    let is_uniform = described.windows(2).all(|pair| match pair {
        [a, b] => {
            Device {
                number: a.number,
                ..b.clone()
            } == *a
        }
        _ => true,
    });
    builder.timeline.devices = found
        .iter()
        .map(|(number, kind)| {
            let same = described.iter().find(|device| device.number == *number);
            // ROCm numbers agents, the CPUs' among them: where all devices are equal, the number
            // does not matter.
            let like = same.or_else(|| described.first().filter(|_| is_uniform && kind.is_none()));
            Device {
                number: *number,
                other_kind: kind.clone(),
                ..like.cloned().unwrap_or_default()
            }
        })
        .collect();
    let numbers: Vec<i64> = found.keys().copied().collect();
    builder.timeline.streams = builder
        .streams
        .iter()
        .map(|(device, stream)| {
            let index = numbers.binary_search(device).unwrap_or_default();
            stream_of_device(index, *stream)
        })
        .collect();
}

/// The first position from `hint` on, or else anywhere, at which `key` stands in a sorted list.
fn position(sorted: &[(u64, u32)], hint: usize, key: u64) -> Option<usize> {
    let at = |index: usize| sorted.get(index).map(|pair| pair.0);
    // Work stands in a file in nearly the order of its calls.
    for index in hint..hint + 4 {
        if at(index) == Some(key) && (index == 0 || at(index - 1) != Some(key)) {
            return Some(index);
        }
    }
    let found = sorted.partition_point(|pair| pair.0 < key);
    (at(found) == Some(key)).then_some(found)
}

fn calls(builder: &mut Builder<'_>) {
    let links = &mut builder.call_links;
    if !links.is_sorted() {
        links.sort_unstable();
    }
    let mut hint = 0;
    let calls = &builder.timeline.calls;
    for (work, (correlation, _)) in builder.timeline.work.iter_mut().zip(&builder.work_links) {
        if *correlation == 0 {
            continue;
        }
        let Some(at) = position(links, hint, *correlation) else {
            continue;
        };
        hint = at;
        let same = links.get(at..).unwrap_or_default().iter();
        let mut same = same
            .take_while(|link| link.0 == *correlation)
            .map(|link| link.1);
        let mut chosen = same.next();
        // Several have the number where profiles were joined: the last one begun by then.
        for call in same {
            let begun = calls.get(call as usize).map(|call| call.start_ns);
            if begun.is_some_and(|begun| begun <= work.start_ns) {
                chosen = Some(call);
            }
        }
        work.call = chosen.map_or(Index::NONE, |call| Index::of(call as usize));
    }
}

/// Joins work to operators by the identifier that both state; files in which work states its
/// correlation there instead, as those before 2023 do, by the operator that runs when the call is made.
fn operators(builder: &mut Builder<'_>) {
    let timeline = &mut builder.timeline;
    let same = builder
        .work_links
        .iter()
        .filter(|(correlation, external)| correlation == external)
        .count();
    // By chance the two are equal now and then.
    if same * 2 < builder.work_links.len() {
        let operators = &timeline.operators;
        let start = |index: u32| {
            operators
                .get(index as usize)
                .map_or(0, |span| span.start_ns)
        };
        let links = &mut builder.operator_links;
        links.sort_unstable_by_key(|(id, index)| (*id, start(*index)));
        let calls = &timeline.calls;
        let mut hint = 0;
        for (work, (_, external)) in timeline.work.iter_mut().zip(&builder.work_links) {
            if *external == 0 {
                continue;
            }
            let Some(first) = position(links, hint, *external) else {
                continue;
            };
            hint = first;
            // Several have the identifier where profiles were joined: the last one begun by then.
            let by = work
                .call
                .get()
                .and_then(|call| calls.get(call))
                .map_or(work.start_ns, |call| call.start_ns);
            let mut chosen = None;
            for (id, index) in links.get(first..).unwrap_or_default() {
                if id != external || (chosen.is_some() && start(*index) > by) {
                    break;
                }
                chosen = Some(*index);
            }
            work.operator = chosen.map_or(Index::NONE, |index| Index::of(index as usize));
        }
    }
    by_time(timeline);
}

/// For work with a call and no operator yet: the innermost operator of the call's thread at the
/// time of the call.
fn by_time(timeline: &mut Timeline) {
    let wanting: Vec<(u32, i64, u32)> = {
        let calls = &timeline.calls;
        let mut wanting: Vec<_> = timeline
            .work
            .iter()
            .enumerate()
            .filter(|(_, work)| work.operator == Index::NONE)
            .filter_map(|(index, work)| {
                let call = calls.get(work.call.get()?)?;
                Some((call.thread, call.start_ns, index as u32))
            })
            .collect();
        wanting.sort_unstable();
        wanting
    };
    if wanting.is_empty() {
        return;
    }
    let spans = &timeline.operators;
    let mut order: Vec<u32> = (0..spans.len() as u32).collect();
    let key = |span: &HostSpan| (span.thread, span.start_ns, std::cmp::Reverse(span.end_ns));
    order.sort_by_key(|index| spans.get(*index as usize).map(key));
    let mut open: Vec<u32> = Vec::new();
    let mut next = 0;
    for (thread, at, work) in wanting {
        while let Some(index) = order.get(next)
            && let Some(span) = spans.get(*index as usize)
            && (span.thread, span.start_ns) <= (thread, at)
        {
            open.push(*index);
            next += 1;
        }
        // What ended before, or is of another thread, holds none of the calls to come.
        while let Some(span) = open.last().and_then(|index| spans.get(*index as usize))
            && (span.thread != thread || span.end_ns < at)
        {
            open.pop();
        }
        if let (Some(operator), Some(work)) = (open.last(), timeline.work.get_mut(work as usize)) {
            work.operator = Index::of(*operator as usize);
        }
    }
}
