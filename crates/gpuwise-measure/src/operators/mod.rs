//! Time by module, range and operator, against what the device reaches.
//!
//! A kernel belongs to the operator that launched it, an operator to the innermost module or range that
//! was open on its thread when it launched. Instances of a module are taken together (`Linear_*`), as
//! are calls of an operator on operands of equal shapes.

mod moments;
mod origins;
mod ranges;
mod reach;
mod scopes;
mod shortfall;
mod times;
mod work;

pub use ranges::{RangeUse, ranges};
pub use reach::{Gpus, Product};
pub(crate) use reach::{Reach, device};
pub(crate) use shortfall::{generation, multiple};
pub use times::Times;
pub(crate) use work::{LAUNCH_NS, bytes, elements, product, width};

use crate::figures::{Classifier, Settings};
use gpuwise_domain::profile::{
    figures::{NodeKind, OperatorNode, OperatorTree, Pass, TensorCores},
    timeline::{Index, LaunchShape, NameId, Timeline, Work, WorkClass},
};
use rustc_hash::FxHashMap;
use scopes::{Scope, Scopes};
use std::cmp::Reverse;

/// Share of the best time below which it is said why.
const FALLS_SHORT: f64 = 0.8;

/// What an operator of a scope is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    scope: u32,
    name: Name,
    operands: Index,
    pass: Option<Pass>,
}

/// What an operator is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Operator(NameId),
    /// An operation that a compiler names, by its place in [`Scopes::operations`].
    Operation(u32),
    /// The kernel, where there is neither.
    Kernel(NameId),
}

/// Sums over the kernels of an operator.
#[derive(Debug, Clone, Default)]
struct Sum {
    count: u64,
    kernel_count: u64,
    kernel_ns: i64,
    /// The call that launched last: several kernels of one call are one launch of the operator.
    last: Option<usize>,
    /// Place in the file of the first kernel, which settles ties.
    first: usize,
    longest: Longest,
}

/// The kernel name of an operator that takes most of a single launch.
#[derive(Debug, Clone, Copy, Default)]
struct Longest {
    ns: i64,
    name: Option<NameId>,
    launch: Option<LaunchShape>,
    tensor_cores: TensorCores,
}

/// Measures the operators of one file; `gpus` says what its devices reach.
pub fn of_rank(
    file: &str,
    timeline: &Timeline,
    settings: &Settings<'_>,
    gpus: &Gpus<'_>,
) -> OperatorTree {
    let all = timeline.work.iter().enumerate();
    let kernels: Vec<(usize, &Work)> = all
        .filter(|(_, work)| work.class == WorkClass::Kernel && settings.holds(timeline, work))
        .collect();
    let scopes = Scopes::of(timeline, &kernels);
    let mut sums: FxHashMap<Key, Sum> = FxHashMap::default();
    let (mut kernel_ns, mut unlinked_ns) = (0_i64, 0_i64);
    for ((place, work), placed) in kernels.iter().zip(&scopes.of_work) {
        let duration = work.end_ns.saturating_sub(work.start_ns);
        kernel_ns = kernel_ns.saturating_add(duration);
        let operator = timeline.operator_of(work);
        let name = match (placed.operation, operator) {
            (Some(operation), _) => Name::Operation(operation),
            (None, Some(operator)) => Name::Operator(operator.name),
            (None, None) => {
                unlinked_ns = unlinked_ns.saturating_add(duration);
                Name::Kernel(work.name)
            }
        };
        let key = Key {
            scope: placed.scope,
            name,
            operands: operator.map_or(Index::NONE, |operator| operator.operands),
            pass: placed.pass,
        };
        let sum = sums.entry(key).or_insert_with(|| Sum {
            first: *place,
            ..Sum::default()
        });
        let launch = work.operator.get();
        if launch.is_none() || sum.last != launch {
            sum.count += 1;
        }
        sum.last = launch;
        sum.kernel_count += 1;
        sum.kernel_ns = sum.kernel_ns.saturating_add(duration);
        if duration > sum.longest.ns || sum.longest.name.is_none() {
            sum.longest = longest(timeline, work, duration, settings.names);
        }
    }
    let device = reach::device(timeline, &kernels, gpus);
    let mut tree = OperatorTree {
        file: file.to_owned(),
        rank: timeline.rank.as_ref().map(|rank| rank.number),
        nodes: Vec::new(),
        kernel_ns,
        unlinked_ns,
    };
    let mut under = Under::new(&scopes, sums);
    let operator = |key: &Key, sum: &Sum| {
        let name = match key.name {
            Name::Operator(name) | Name::Kernel(name) => timeline.names.text(name),
            Name::Operation(at) => scopes
                .operations
                .get(at as usize)
                .map_or("", String::as_str),
        };
        OperatorNode {
            parent: None,
            depth: 0,
            kind: match key.name {
                Name::Kernel(_) => NodeKind::Kernel,
                Name::Operator(_) | Name::Operation(_) => NodeKind::Operator,
            },
            name: name.to_owned(),
            pass: key.pass,
            count: sum.count,
            kernel_count: sum.kernel_count,
            kernel_ns: sum.kernel_ns,
            work: key.operands.get().and_then(|at| {
                let operands = timeline.operands.get(at)?;
                Some(work::of(timeline, name, operands, sum, device.as_ref()))
            }),
        }
    };
    under.write(scopes::ROOT, None, 0, &operator, &mut tree.nodes);
    tree
}

fn longest(timeline: &Timeline, work: &Work, ns: i64, names: &Classifier) -> Longest {
    Longest {
        ns,
        name: Some(work.name),
        launch: crate::figures::launch_of(timeline.detail_of(work)).copied(),
        tensor_cores: names.kernel(timeline.names.text(work.name)).tensor_cores,
    }
}

/// What lies directly under each scope.
struct Under<'s> {
    scopes: &'s [Scope],
    inner: Vec<Vec<u32>>,
    operators: Vec<Vec<(Key, Sum)>>,
    /// Of each scope with all in it: time, kernels, launches.
    totals: Vec<(i64, u64, u64)>,
}

impl<'s> Under<'s> {
    fn new(scopes: &'s Scopes, sums: FxHashMap<Key, Sum>) -> Self {
        let count = scopes.scopes.len();
        let mut under = Self {
            scopes: &scopes.scopes,
            inner: vec![Vec::new(); count],
            operators: vec![Vec::new(); count],
            totals: vec![(0, 0, 0); count],
        };
        for (key, sum) in sums {
            let place = key.scope as usize;
            if let Some(total) = under.totals.get_mut(place) {
                total.0 = total.0.saturating_add(sum.kernel_ns);
                total.1 += sum.kernel_count;
                total.2 += sum.count;
            }
            if let Some(list) = under.operators.get_mut(place) {
                list.push((key, sum));
            }
        }
        // Scopes follow those that hold them.
        for place in (1..count).rev() {
            let parent = scopes.scopes.get(place).map_or(0, |scope| scope.parent) as usize;
            let (ns, kernels, launches) = under.totals.get(place).copied().unwrap_or_default();
            if let Some(total) = under.totals.get_mut(parent) {
                total.0 = total.0.saturating_add(ns);
                total.1 += kernels;
                total.2 += launches;
            }
            if let Some(list) = under.inner.get_mut(parent) {
                list.push(place as u32);
            }
        }
        under
    }

    fn write(
        &mut self,
        scope: u32,
        parent: Option<u32>,
        depth: u16,
        operator: &dyn Fn(&Key, &Sum) -> OperatorNode,
        nodes: &mut Vec<OperatorNode>,
    ) {
        let place = scope as usize;
        let inner = self.inner.get_mut(place).map(std::mem::take);
        let operators = self.operators.get_mut(place).map(std::mem::take);
        let (mut inner, mut operators) = (inner.unwrap_or_default(), operators.unwrap_or_default());
        operators.sort_by_key(|(_, sum)| (Reverse(sum.kernel_ns), sum.first));
        let time = |scope: &u32| self.totals.get(*scope as usize).map_or(0, |total| total.0);
        inner.retain(|scope| time(scope) > 0);
        inner.sort_by_key(|scope| (Reverse(time(scope)), *scope));
        let mut inner = inner.into_iter().peekable();
        let mut operators = operators.into_iter().peekable();
        loop {
            let scope_ns = inner.peek().map(|scope| self.totals[*scope as usize].0);
            let own_ns = operators.peek().map(|(_, sum)| sum.kernel_ns);
            if own_ns.is_none() && scope_ns.is_none() {
                return;
            }
            if own_ns >= scope_ns {
                if let Some((key, sum)) = operators.next() {
                    nodes.push(OperatorNode {
                        parent,
                        depth,
                        ..operator(&key, &sum)
                    });
                }
            } else if let Some(next) = inner.next() {
                let (kernel_ns, kernel_count, count) = self.totals[next as usize];
                let known = &self.scopes[next as usize];
                let at = nodes.len() as u32;
                nodes.push(OperatorNode {
                    parent,
                    depth,
                    kind: known.kind,
                    name: known.name.clone(),
                    pass: None,
                    count,
                    kernel_count,
                    kernel_ns,
                    work: None,
                });
                self.write(next, Some(at), depth.saturating_add(1), operator, nodes);
            }
        }
    }
}
