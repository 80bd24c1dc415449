//! Modules and ranges that were open when work was launched.

use super::origins::Origins;
use gpuwise_domain::profile::{
    figures::{NodeKind, Pass},
    timeline::{HostSpan, NameId, Origin, Timeline, Work},
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

/// Where a piece of work belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) scope: u32,
    pub(super) pass: Option<Pass>,
    /// Index into [`Scopes::operations`] of the operation that a compiler names; then there is no other
    /// operator.
    pub(super) operation: Option<u32>,
}

const NOWHERE: Placed = Placed {
    scope: ROOT,
    pass: None,
    operation: None,
};

/// Scopes of a file, each after the one that holds it; the first is [`ROOT`].
#[derive(Debug)]
#[allow(clippy::struct_field_names, reason = "it is what it holds")]
pub(super) struct Scopes {
    pub(super) scopes: Vec<Scope>,
    /// That of each piece of work that was asked about, in the same order.
    pub(super) of_work: Vec<Placed>,
    pub(super) operations: Vec<String>,
}

impl Scopes {
    /// Finds where each piece of work belongs, named by its place in the timeline: by what the compiler
    /// says, else by the innermost scope at its launch.
    pub(super) fn of(timeline: &Timeline, work: &[(usize, &Work)]) -> Self {
        let mut builder = Builder::new(timeline);
        let mut launches: Vec<Launch> = Vec::new();
        for (place, (_, work)) in (0_u32..).zip(work) {
            let call = timeline
                .call_of(work)
                .or_else(|| timeline.operator_of(work));
            launches.extend(call.map(|call| (call.thread, call.start_ns, place)));
        }
        let spans = builder.spans();
        let forward = builder.forward(&spans);
        let mut of_work = builder.place(&spans, &forward, launches, work.len());
        let mut origins = Origins::default();
        for (placed, (at, _)) in of_work.iter_mut().zip(work) {
            if let Some(origin) = timeline
                .origins
                .get(*at)
                .filter(|one| **one != Origin::NONE)
            {
                *placed = origins.placed(&mut builder, *origin);
            }
        }
        Self {
            scopes: builder.scopes,
            of_work,
            operations: origins.operations,
        }
    }
}

/// Thread and time of a launch, and where its answer goes.
type Launch = (u32, i64, u32);

/// What a span of the host opens.
#[derive(Debug, Clone, Copy)]
enum Opened {
    Scope(NodeKind),
    /// An operator of the backward pass: its place in [`Timeline::backward`].
    Backward(u32),
}

/// Drops what ended by then, or is of another thread.
fn close(open: &mut Vec<(HostSpan, Placed)>, thread: u32, at: i64) {
    open.retain(|(span, _)| span.thread == thread && span.end_ns > at);
}

pub(super) struct Builder<'t> {
    pub(super) timeline: &'t Timeline,
    scopes: Vec<Scope>,
    known: FxHashMap<(u32, u32), u32>,
    /// By name: which name without its instance's number it has.
    plain: FxHashMap<NameId, u32>,
    plains: FxHashMap<String, u32>,
    /// Names without their instance's number.
    texts: Vec<String>,
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
            texts: Vec::new(),
        }
    }

    /// Modules, ranges and operators of the backward pass by thread and time, what holds others first.
    fn spans(&self) -> Vec<(HostSpan, Opened)> {
        let of = |span: &HostSpan, kind| (*span, Opened::Scope(kind));
        let modules = self.timeline.modules.iter();
        let ranges = self.timeline.annotations.iter();
        let mut spans: Vec<(HostSpan, Opened)> = modules
            .map(|span| of(span, NodeKind::Module))
            .chain(ranges.map(|span| of(span, NodeKind::Range)))
            .collect();
        for (place, backward) in (0_u32..).zip(&self.timeline.backward) {
            let operator = backward.operator.get();
            let span = operator.and_then(|at| self.timeline.operators.get(at));
            spans.extend(span.map(|span| (*span, Opened::Backward(place))));
        }
        spans.sort_by_key(|(span, _)| (span.thread, span.start_ns, std::cmp::Reverse(span.end_ns)));
        spans
    }

    /// For each operator of the backward pass the scope of its forward operator, where that is known.
    fn forward(&mut self, spans: &[(HostSpan, Opened)]) -> Vec<Option<u32>> {
        /// A forward pass that is run again within a backward pass lies in what that belongs to, and
        /// its own backward pass in that: deeper nesting does not exist.
        const DEPTH: usize = 3;
        let timeline = self.timeline;
        let mut asked: Vec<Launch> = Vec::new();
        for (place, backward) in (0_u32..).zip(&timeline.backward) {
            let forward = backward.forward.get();
            let span = forward.and_then(|at| timeline.operators.get(at));
            asked.extend(span.map(|span| (span.thread, span.start_ns, place)));
        }
        let mut known: Vec<Option<u32>> = vec![None; timeline.backward.len()];
        for _ in 0..DEPTH {
            let placed = self.place(spans, &known, asked.clone(), known.len());
            let mut next = known.clone();
            for (_, _, place) in &asked {
                next[*place as usize] = Some(placed[*place as usize].scope);
            }
            if next == known {
                break;
            }
            known = next;
        }
        known
    }

    /// The innermost scope at each launch.
    fn place(
        &mut self,
        spans: &[(HostSpan, Opened)],
        forward: &[Option<u32>],
        mut launches: Vec<Launch>,
        count: usize,
    ) -> Vec<Placed> {
        launches.sort_unstable();
        let mut of_work = vec![NOWHERE; count];
        let mut open: Vec<(HostSpan, Placed)> = Vec::new();
        let mut next = 0;
        for (thread, at, place) in launches {
            while let Some((span, opened)) = spans.get(next)
                && (span.thread, span.start_ns) <= (thread, at)
            {
                close(&mut open, span.thread, span.start_ns);
                let holder = open.last().map_or(NOWHERE, |(_, placed)| *placed);
                open.push((*span, self.open(holder, span.name, *opened, forward)));
                next += 1;
            }
            close(&mut open, thread, at);
            if let Some(placed) = of_work.get_mut(place as usize) {
                *placed = open.last().map_or(NOWHERE, |(_, placed)| *placed);
            }
        }
        of_work
    }

    /// Where what is launched within a span belongs.
    fn open(
        &mut self,
        holder: Placed,
        name: NameId,
        opened: Opened,
        forward: &[Option<u32>],
    ) -> Placed {
        match opened {
            Opened::Scope(kind) => Placed {
                scope: self.scope(holder.scope, name, kind),
                pass: match kind {
                    NodeKind::Module => holder.pass.map(|_| Pass::Recomputation),
                    _ => holder.pass,
                },
                operation: None,
            },
            Opened::Backward(place) => match forward.get(place as usize).copied().flatten() {
                Some(scope) => Placed {
                    scope,
                    pass: Some(Pass::Backward),
                    operation: None,
                },
                None if holder.pass.is_some() => holder,
                None => Placed {
                    scope: self.named(holder.scope, Pass::Unlinked.name(), NodeKind::Unlinked),
                    pass: Some(Pass::Unlinked),
                    operation: None,
                },
            },
        }
    }

    fn scope(&mut self, holder: u32, name: NameId, kind: NodeKind) -> u32 {
        let plain = if let Some(known) = self.plain.get(&name) {
            *known
        } else {
            let text = without_number(self.timeline.names.text(name));
            let plain = self.plain_of(text);
            self.plain.insert(name, plain);
            plain
        };
        self.under(holder, plain, kind)
    }

    /// The same by a text that is no name of the file.
    pub(super) fn named(&mut self, holder: u32, text: &str, kind: NodeKind) -> u32 {
        let plain = self.plain_of(text.to_owned());
        self.under(holder, plain, kind)
    }

    fn plain_of(&mut self, text: String) -> u32 {
        let next = self.plains.len() as u32;
        let texts = &mut self.texts;
        *self.plains.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            next
        })
    }

    fn under(&mut self, holder: u32, plain: u32, kind: NodeKind) -> u32 {
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
        let name = self.texts.get(plain as usize).cloned();
        self.scopes.push(Scope {
            name: name.unwrap_or_default(),
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
