//! What is short, in a sentence.

use crate::world::{StoredJob, World};
use gpuwise_domain::placement::{GpuAsk, KindId, Kinds, Level, NodeId, Shortage};
use gpuwise_units::Nanoseconds;
use std::{borrow::Cow, collections::BTreeMap};

/// What is short for a job, with numbers and names.
pub fn shortage_words(world: &World, job: &StoredJob, shortage: &Shortage) -> String {
    match shortage {
        Shortage::Untold => "it does not fit".to_owned(),
        Shortage::NoSuchGpu { kinds } => no_such_gpu(world, job, *kinds),
        Shortage::LargerThanFleet { fit, needed } => larger(world, job, *fit, *needed),
        Shortage::Gpus { needed, best, node } => {
            let place = on_node(world, *node);
            let kinds = kinds_words(world, job.worker.gpu.kinds());
            format!(
                "needs {} on one node; {place} has {best} free",
                gpus(*needed, &kinds)
            )
        }
        Shortage::Cpu { needed, best, node } => {
            let needed = format!("{} cores", thousandths(*needed));
            beside(world, &needed, *node, &thousandths(*best))
        }
        Shortage::Memory { needed, best, node } => {
            let needed = format!("{} of host memory", mib(*needed));
            beside(world, &needed, *node, &mib(*best))
        }
        Shortage::Fraction { needed, best } => format!(
            "needs {} % of a GPU; the best has {} % free",
            tenths(*needed),
            tenths(*best)
        ),
        Shortage::Slice => {
            "needs a MIG instance; no GPU has a free one, or room for one, as it is partitioned"
                .to_owned()
        }
        Shortage::Workers { needed, fit } => {
            format!("needs {needed} workers; {fit} fit")
        }
        Shortage::Topology {
            within,
            needed,
            best,
            place,
        } => topology(world, job, *within, (*needed, *best), *place),
        Shortage::Spread { needed, fit } => {
            let wish = job.spread.map_or_else(String::new, |spread| {
                format!(", at most {} in one {}", spread.most, spread.over.name())
            });
            format!("needs {needed} workers{wish}; {fit} fit")
        }
        Shortage::Quota(short) => super::quota_words::quota(world, short),
        Shortage::Budget { queue } => {
            let names = world.queues().get(*queue as usize);
            let name = names.map_or("?", |queue| queue.name.as_str());
            format!("the budget of queue {name} is spent")
        }
        Shortage::Reserved { node } => format!(
            "what is free, on {} among others, is reserved for another queue",
            on_node(world, Some(*node))
        ),
        Shortage::BehindHead { head } => {
            let name = world.job(*head).map_or("?", |state| &*state.job.name);
            format!("it would delay job {name}, which goes first")
        }
        Shortage::Held => "it is held back".to_owned(),
        Shortage::BackOff { until } => failed(world, None, *until),
        Shortage::Avoided { node, until } => failed(world, Some(*node), *until),
        Shortage::Unfenced { node } => format!(
            "it may still run on {}, which does not answer; it starts elsewhere once that node is fenced",
            node_name(world, *node)
        ),
        Shortage::Leaving => "it is still where it was told to stop".to_owned(),
    }
}

fn larger(world: &World, job: &StoredJob, fit: u32, needed: u32) -> String {
    let what = if needed == 1 {
        "one worker fits no node".to_owned()
    } else {
        format!("{needed} workers are needed and {fit} have room")
    };
    let wide = too_wide(world, job).unwrap_or_default();
    format!("larger than the fleet: {what}, were it empty{wide}")
}

fn beside(world: &World, needed: &str, node: Option<NodeId>, best: &str) -> String {
    let place = on_node(world, node);
    format!("needs {needed} beside its GPUs; {place} has {best} free")
}

fn failed(world: &World, on: Option<NodeId>, until: Nanoseconds) -> String {
    let again = after(world, until);
    match on {
        None => format!("it failed to start, and is tried again {again}"),
        Some(node) => {
            let node = node_name(world, node);
            format!("it failed to start on {node}, where it is tried again {again}")
        }
    }
}

/// That no node has as many GPUs as one worker wants, where none has.
fn too_wide(world: &World, job: &StoredJob) -> Option<String> {
    let GpuAsk::Whole { count, kinds, .. } = job.worker.gpu else {
        return None;
    };
    let mut of_nodes = BTreeMap::<NodeId, u32>::new();
    for gpu in world.gpus() {
        if let Some(node) = gpu.node.filter(|_| kinds.has(gpu.gpu.kind)) {
            *of_nodes.entry(node).or_default() += 1;
        }
    }
    let most = of_nodes.into_values().max().unwrap_or(0);
    let wide = format!(
        "; a worker wants {count} GPUs and the largest node has {most}: more workers, each with fewer, may fit"
    );
    (most > 0 && count > most).then_some(wide)
}

fn topology(
    world: &World,
    job: &StoredJob,
    within: Level,
    (needed, best): (u32, u32),
    place: Option<u32>,
) -> String {
    let place = place.map(|place| match within {
        Level::Island => world.islands().get(place as usize).cloned(),
        Level::Rack | Level::Block | Level::Zone => {
            world.domains().get(place as usize).map(|d| d.name.clone())
        }
        Level::Node | Level::Numa | Level::Switch => world
            .node(NodeId(place))
            .map(|state| state.node.name.clone()),
    });
    let name = place
        .flatten()
        .map_or_else(String::new, |name| format!(", {name},"));
    let level = level_words(within);
    if let GpuAsk::Whole { count, kinds, .. } = job.worker.gpu {
        let kinds = kinds_words(world, kinds);
        return format!(
            "needs {} in one {level}; the best{name} has room for {}",
            gpus(needed * count, &kinds),
            best * count
        );
    }
    format!("needs {needed} workers in one {level}; the best{name} has room for {best}")
}

/// A level as people call it.
pub(super) fn level_words(level: Level) -> &'static str {
    match level {
        Level::Island => "NVLink domain",
        Level::Numa => "NUMA node",
        Level::Switch => "PCIe switch",
        other => other.name(),
    }
}

fn no_such_gpu(world: &World, job: &StoredJob, kinds: Kinds) -> String {
    let named = match job.worker.gpu {
        GpuAsk::Whole { kinds, need, .. } if need != gpuwise_domain::placement::Need::default() => {
            let of = kinds_words(world, kinds);
            let of = if of.is_empty() { "GPU".to_owned() } else { of };
            let mut wants = Vec::new();
            if need.memory_mib > 0 {
                wants.push(format!("{} of memory", mib(u64::from(need.memory_mib))));
            }
            if need.tflops > 0 {
                wants.push(format!("{} TFLOP/s", need.tflops));
            }
            if need.bandwidth_gbs > 0 {
                wants.push(format!("{} GB/s", need.bandwidth_gbs));
            }
            return format!("the fleet has no {of} with {}", wants.join(" and "));
        }
        _ => kinds_words(world, kinds),
    };
    if named.is_empty() {
        return "the fleet has no GPU of a kind that it accepts".to_owned();
    }
    format!("the fleet has no {named}")
}

/// Names of kinds, or nothing where any will do.
pub(super) fn kinds_words(world: &World, kinds: Kinds) -> String {
    if kinds == Kinds::ANY {
        return String::new();
    }
    let all = || world.kinds().iter().zip((0..).map(KindId));
    let mut names: Vec<Cow<'_, str>> = Vec::new();
    for kind in kinds.iter().filter_map(|kind| world.kind(kind)) {
        // Features count where not all kinds of a name will do.
        let others = all().filter(|(one, _)| one.name == kind.name);
        let name = if others.into_iter().all(|(_, id)| kinds.has(id)) {
            Cow::Borrowed(kind.name.as_str())
        } else {
            kind.label()
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" or ")
}

fn gpus(count: u32, kinds: &str) -> String {
    let plural = if count == 1 { "GPU" } else { "GPUs" };
    if kinds.is_empty() {
        return format!("{count} {plural}");
    }
    format!("{count} {plural} ({kinds})")
}

fn node_name(world: &World, node: NodeId) -> String {
    let state = world.node(node);
    state.map_or_else(|| "a node".to_owned(), |state| state.node.name.clone())
}

fn after(world: &World, until: Nanoseconds) -> String {
    format!(
        "in {}",
        span(Nanoseconds(until.0.saturating_sub(world.now().0)))
    )
}

fn on_node(world: &World, node: Option<NodeId>) -> String {
    let name = node.and_then(|node| world.node(node));
    name.map_or_else(
        || "the best".to_owned(),
        |state| format!("the best, {},", state.node.name),
    )
}

pub(super) fn thousandths(milli: u64) -> String {
    let (whole, rest) = (milli / 1000, milli % 1000);
    if rest == 0 {
        return whole.to_string();
    }
    let rest = format!("{rest:03}");
    format!("{whole}.{}", rest.trim_end_matches('0'))
}

fn tenths(milli: u32) -> String {
    if milli.is_multiple_of(10) {
        return (milli / 10).to_string();
    }
    format!("{}.{}", milli / 10, milli % 10)
}

fn mib(mib: u64) -> String {
    if mib >= 1024 {
        let tenth = (mib * 10 + 512) / 1024;
        if tenth.is_multiple_of(10) {
            return format!("{} GiB", tenth / 10);
        }
        return format!("{}.{} GiB", tenth / 10, tenth % 10);
    }
    format!("{mib} MiB")
}

/// A span of time as a reader would say it: two units at most.
pub fn span(time: Nanoseconds) -> String {
    let seconds = (time.0 + 500_000_000) / 1_000_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: u64, of: &str, small: u64, part: &str| {
        if small == 0 {
            format!("{large} {of}")
        } else {
            format!("{large} {of} {small} {part}")
        }
    };
    match (days, hours, minutes) {
        (0, 0, 0) if seconds == 0 && time.0 > 0 => "< 1 s".to_owned(),
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) if minutes >= 10 => format!("{} min", (seconds + 30) / 60),
        (0, 0, _) => two(minutes, "min", seconds % 60, "s"),
        (0, ..) => two(hours, "h", minutes % 60, "min"),
        _ => two(days, "d", hours % 24, "h"),
    }
}
