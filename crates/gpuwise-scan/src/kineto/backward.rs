//! Operators of a backward pass, and the forward operators whose gradients they compute.
//!
//! Each node that autograd records takes the next sequence number of its thread. The profiler states the
//! number that was next when an operator of the forward pass began, and the number of the node that an
//! operator of the backward pass runs, with the thread that recorded it. Arrows (`fwdbwd`) are drawn from
//! the same two numbers and say nothing more, so they are not read. Source: `kineto_shim`, `collection.cpp`
//! and `profiler_kineto.cpp` of pytorch/pytorch (`generateForwardBackwardLink`).

use super::{lex::fields, number::count};
use gpuwise_domain::profile::timeline::{Backward, HostSpan, Index, NameId, Names, Timeline};
use memchr::memmem;
use rustc_hash::{FxHashMap, FxHashSet};

const SEQUENCE: &[u8] = b"Sequence number";
const FORWARD_THREAD: &[u8] = b"Fwd thread id";

/// The engine's own range around each node, also around those without a number (`AccumulateGrad`).
const ENGINE: &str = "autograd::engine::evaluate_function";

/// Threads that are looked at for one number; the limit bounds work on hostile input.
const MOST_THREADS: usize = 64;

/// Operators that are looked at for the name of one node; the limit bounds work on hostile input.
const MOST_OPERATORS: usize = 256;

/// An operator with a number of autograd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbered {
    /// Index into the operators of the timeline.
    pub(super) operator: u32,
    pub(super) sequence: u64,
    /// The thread that recorded the node, in PyTorch's own count; 0 for operators of the forward pass.
    pub(super) recorded_by: u64,
}

/// What the arguments of an operator say of autograd.
pub(super) fn number(args: &[u8]) -> Option<Numbered> {
    memmem::find(args, SEQUENCE)?;
    let (mut sequence, mut thread) = (None, None);
    fields(args, |key, value| match key {
        SEQUENCE => sequence = count(value),
        FORWARD_THREAD => thread = count(value),
        _ => {}
    });
    Some(Numbered {
        operator: 0,
        sequence: sequence?,
        recorded_by: thread?,
    })
}

/// An operator of the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Forward {
    sequence: u64,
    thread: u32,
    start_ns: i64,
    operator: u32,
}

/// Operators of the backward pass in the order of their place.
pub(super) fn of(timeline: &Timeline, numbered: &[Numbered]) -> Vec<Backward> {
    let span = |operator: u32| timeline.operators.get(operator as usize);
    let mut forward: Vec<Forward> = numbered
        .iter()
        .filter(|number| number.recorded_by == 0)
        .filter_map(|number| {
            let span = span(number.operator)?;
            Some(Forward {
                sequence: number.sequence,
                thread: span.thread,
                start_ns: span.start_ns,
                operator: number.operator,
            })
        })
        .collect();
    forward.sort_unstable();
    let behind: Vec<(Numbered, &HostSpan)> = numbered
        .iter()
        .filter(|number| number.recorded_by != 0)
        .filter_map(|number| Some((*number, span(number.operator)?)))
        .collect();
    let threads = recorders(&forward, &behind);
    let mut all: Vec<Backward> = behind
        .iter()
        .map(|(number, span)| {
            let found = threads.get(&number.recorded_by).and_then(|thread| {
                let node = (number.sequence, *thread);
                recording(&timeline.names, &forward, node, span, &timeline.operators)
            });
            Backward {
                operator: Index::of(number.operator as usize),
                forward: found.map_or(Index::NONE, |it| Index::of(it.operator as usize)),
            }
        })
        .collect();
    all.extend(unnumbered(timeline, &behind));
    all.sort_unstable_by_key(|backward| backward.operator);
    all
}

/// By PyTorch's count of threads: that of the file's threads on which most of its numbers were given.
/// Numbers are given thread by thread, so another thread may have a few of the same.
fn recorders(forward: &[Forward], behind: &[(Numbered, &HostSpan)]) -> FxHashMap<u64, u32> {
    let mut counts: FxHashMap<(u64, u32), u64> = FxHashMap::default();
    for (number, span) in behind {
        let mut at = forward.partition_point(|one| one.sequence < number.sequence);
        for _ in 0..MOST_THREADS {
            let Some(one) = forward
                .get(at)
                .filter(|one| one.sequence == number.sequence)
            else {
                break;
            };
            if one.start_ns <= span.start_ns {
                *counts.entry((number.recorded_by, one.thread)).or_default() += 1;
            }
            let next = (one.sequence, one.thread.saturating_add(1));
            at = forward.partition_point(|one| (one.sequence, one.thread) < next);
        }
    }
    let mut best: FxHashMap<u64, (u64, u32, bool)> = FxHashMap::default();
    for ((recorded_by, thread), count) in counts {
        let known = best.entry(recorded_by).or_insert((count, thread, true));
        match count.cmp(&known.0) {
            std::cmp::Ordering::Greater => *known = (count, thread, true),
            // Two threads fit equally well: which one it was is unknown.
            std::cmp::Ordering::Equal if thread != known.1 => known.2 = false,
            _ => {}
        }
    }
    let clear = best.into_iter().filter(|(_, (.., clear))| *clear);
    clear.map(|(by, (_, thread, _))| (by, thread)).collect()
}

/// The operator of a thread with a number, begun before the backward pass came to it, that recorded the
/// node: the last of the node's own name, since operators that record none, those before it and those
/// within a checkpoint, have its number too; else the last.
fn recording(
    names: &Names,
    forward: &[Forward],
    (sequence, thread): (u64, u32),
    span: &HostSpan,
    operators: &[HostSpan],
) -> Option<Forward> {
    let end = forward.partition_point(|one| {
        (one.sequence, one.thread, one.start_ns) <= (sequence, thread, span.start_ns)
    });
    let before = forward.get(..end)?;
    let same = before.iter().rev();
    let same = same.take_while(|one| (one.sequence, one.thread) == (sequence, thread));
    let node = plain(names.text(span.name));
    let name = |one: &Forward| {
        let operator = operators.get(one.operator as usize)?;
        Some(plain(names.text(operator.name)))
    };
    let mut nearest = same.clone().take(MOST_OPERATORS);
    let own = nearest.find(|&one| name(one).as_ref() == Some(&node));
    own.or_else(|| same.clone().next()).copied()
}

/// What operator and node are both called: `aten::native_batch_norm`, `NativeBatchNormBackward0`.
fn plain(name: &str) -> String {
    let name = name.rsplit(':').next().unwrap_or(name).trim();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = name.strip_suffix("Backward").unwrap_or(name);
    let letters = name.chars().filter(|c| *c != '_');
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Ranges of the engine around nodes without a number.
fn unnumbered(timeline: &Timeline, behind: &[(Numbered, &HostSpan)]) -> Vec<Backward> {
    let names = timeline.names.iter();
    let engine: FxHashSet<NameId> = names
        .filter(|(_, text)| text.starts_with(ENGINE))
        .map(|(id, _)| id)
        .collect();
    if engine.is_empty() {
        return Vec::new();
    }
    let known: FxHashSet<u32> = behind.iter().map(|(number, _)| number.operator).collect();
    let all = timeline.operators.iter().zip(0_u32..);
    all.filter(|(span, at)| engine.contains(&span.name) && !known.contains(at))
        .map(|(_, at)| Backward {
            operator: Index::of(at as usize),
            forward: Index::NONE,
        })
        .collect()
}
