//! Modules and ranges that were open when work was launched.

use gpuwise_domain::profile::{
    figures::NodeKind,
    timeline::{HostSpan, NameId, Timeline, Work},
};
use rustc_hash::FxHashMap;

/// The scope of what was launched within none.
pub(super) const ROOT: u32 = 0;

/// Depth beyond which scopes are not told apart: recursion without end is no structure.
const MOST_DEPTH: u16 = 64;

/// What Kineto puts before the name of a module.
const MODULE: &str = "nn.Module: ";

/// A module or range in those that hold it; instances that differ in their number are one.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) name: String,
    pub(super) kind: NodeKind,
    pub(super) parent: u32,
    depth: u16,
}

/// Scopes of a file, each after the one that holds it; the first is [`ROOT`].
#[derive(Debug)]
pub(super) struct Scopes {
    pub(super) scopes: Vec<Scope>,
    /// That of each piece of work that was asked about, in the same order.
    pub(super) of_work: Vec<u32>,
}

impl Scopes {
    /// Finds the innermost scope at the launch of each piece of work.
    pub(super) fn of<'t>(timeline: &'t Timeline, work: impl Iterator<Item = &'t Work>) -> Self {
        let mut builder = Builder::new(timeline);
        // Thread and time of each launch.
        let mut launches: Vec<(u32, i64, u32)> = Vec::new();
        let mut count = 0_usize;
        for (place, work) in (0_u32..).zip(work) {
            count += 1;
            let call = timeline
                .call_of(work)
                .or_else(|| timeline.operator_of(work));
            if let Some(call) = call {
                launches.push((call.thread, call.start_ns, place));
            }
        }
        launches.sort_unstable();
        let spans = builder.spans();
        let mut of_work = vec![ROOT; count];
        let mut open: Vec<(HostSpan, u32)> = Vec::new();
        let mut next = 0;
        for (thread, at, place) in launches {
            while let Some((span, kind)) = spans.get(next)
                && (span.thread, span.start_ns) <= (thread, at)
            {
                close(&mut open, span.thread, span.start_ns);
                let holder = open.last().map_or(ROOT, |(_, scope)| *scope);
                open.push((*span, builder.scope(holder, span.name, *kind)));
                next += 1;
            }
            close(&mut open, thread, at);
            if let Some(scope) = of_work.get_mut(place as usize) {
                *scope = open.last().map_or(ROOT, |(_, scope)| *scope);
            }
        }
        Self {
            scopes: builder.scopes,
            of_work,
        }
    }
}

/// Drops what ended by then, or is of another thread.
fn close(open: &mut Vec<(HostSpan, u32)>, thread: u32, at: i64) {
    open.retain(|(span, _)| span.thread == thread && span.end_ns > at);
}

struct Builder<'t> {
    timeline: &'t Timeline,
    scopes: Vec<Scope>,
    known: FxHashMap<(u32, u32), u32>,
    /// By name: which name without its instance's number it has.
    plain: FxHashMap<NameId, u32>,
    plains: FxHashMap<String, u32>,
}

impl<'t> Builder<'t> {
    fn new(timeline: &'t Timeline) -> Self {
        Self {
            timeline,
            scopes: vec![Scope {
                name: String::new(),
                kind: NodeKind::Range,
                parent: ROOT,
                depth: 0,
            }],
            known: FxHashMap::default(),
            plain: FxHashMap::default(),
            plains: FxHashMap::default(),
        }
    }

    /// Modules and ranges by thread and time, what holds others before them.
    fn spans(&self) -> Vec<(HostSpan, NodeKind)> {
        let modules = self.timeline.modules.iter();
        let ranges = self.timeline.annotations.iter();
        let mut spans: Vec<(HostSpan, NodeKind)> = modules
            .map(|span| (*span, NodeKind::Module))
            .chain(ranges.map(|span| (*span, NodeKind::Range)))
            .collect();
        spans.sort_by_key(|(span, _)| (span.thread, span.start_ns, std::cmp::Reverse(span.end_ns)));
        spans
    }

    fn scope(&mut self, holder: u32, name: NameId, kind: NodeKind) -> u32 {
        let plain = if let Some(known) = self.plain.get(&name) {
            *known
        } else {
            let text = without_number(self.timeline.names.text(name));
            let next = self.plains.len() as u32;
            let plain = *self.plains.entry(text).or_insert(next);
            self.plain.insert(name, plain);
            plain
        };
        if let Some(known) = self.known.get(&(holder, plain)) {
            return *known;
        }
        let depth = self
            .scopes
            .get(holder as usize)
            .map_or(0, |scope| scope.depth);
        if depth >= MOST_DEPTH {
            return holder;
        }
        let made = self.scopes.len() as u32;
        self.scopes.push(Scope {
            name: without_number(self.timeline.names.text(name)),
            kind,
            parent: holder,
            depth: depth + 1,
        });
        self.known.insert((holder, plain), made);
        made
    }
}

/// `nn.Module: Linear_12` as `Linear_*`, `ProfilerStep#7` as `ProfilerStep#*`: a number that counts
/// instances stands for all of them.
pub(super) fn without_number(name: &str) -> String {
    let name = name.strip_prefix(MODULE).unwrap_or(name);
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let counted = base.len() < name.len() && base.ends_with(['_', '#', ' ', '.', ':']);
    if counted {
        format!("{base}*")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::without_number;

    #[test]
    fn instances_are_one() {
        let check = |name: &str, plain: &str| assert_eq!(without_number(name), plain);
        check("nn.Module: Linear_12", "Linear_*");
        check("ProfilerStep#7", "ProfilerStep#*");
        check("step 12", "step *");
        check("conv2d", "conv2d");
        check("forward", "forward");
    }
}
