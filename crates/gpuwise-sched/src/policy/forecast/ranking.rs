//! What an ask costs on each class of nodes, kept from one look to the next.
//!
//! Classes on which the ask loses the same cost the same whatever the prices are, and of them the one with the node of
//! lowest rank is taken. So they are kept together: a look weighs each group once, which are some hundreds or
//! thousands however many nodes there are, and when something has changed only classes that changed are looked at.

use super::{
    classes::{Class, Classes, Head},
    fit_options::{self, FitOptions},
    groups::{Group, Groups, Losses, NOWHERE},
    look::Look,
    standing::Standing,
};
use gpuwise_domain::placement::NodeId;

/// Entries and groups that may be left over from classes that are gone, beside as many as there are classes.
const SPARE: usize = 1024;
/// Groups that are looked through at each look for what is gone.
const SWEPT: usize = 4;

/// The classes of nodes, by what an ask loses on them.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    groups: Groups,
    /// By class: its generation and its group.
    known: Vec<(u32, u32)>,
    /// Nodes that have room.
    candidates: u32,
    /// How far it has followed what became of classes; `None`: leaders are not kept.
    until: Option<u64>,
    /// How much had become of classes at the last look.
    seen: u64,
    standing: Standing,
    /// The group that was best last: looked at first, it mostly leaves little that is better.
    last: u32,
}

impl Ranking {
    /// Brings it up to the classes, as far as it knows of all of them.
    pub(super) fn follow(&mut self, look: &mut Look<'_>) {
        let classes = look.classes;
        self.known.resize(classes.heads.len(), (0, NOWHERE));
        let most = classes.heads.len();
        let Some(until) = self.until.take() else {
            if self.groups.len() > 2 * most + SPARE {
                *self = Self::default();
                self.known.resize(most, (0, NOWHERE));
            }
            return;
        };
        let Some(changes) = classes.changes_since(until) else {
            return;
        };
        if many(changes.len(), most) || self.groups.entries() > 2 * most + SPARE {
            return;
        }
        for change in changes {
            let at = change.class as usize;
            let Some(head) = classes.heads.get(at) else {
                continue;
            };
            let present = head.generation == change.generation && head.members > 0;
            let group = match self.known.get(at) {
                Some((generation, group)) if *generation == change.generation => *group,
                _ if present => self.look_up(look, at, head),
                // One that has opened since and is gone again was never counted, nor need it be.
                _ => continue,
            };
            if group == NOWHERE {
                continue;
            }
            self.candidates = if change.came {
                self.candidates + 1
            } else {
                self.candidates.saturating_sub(1)
            };
            if present && let Some(other) = self.groups.enter(group, head) {
                self.standing.note(look, other, group);
            }
        }
        self.sweep(look);
        self.until = Some(classes.changes());
    }

    /// Looks through a few groups for what is gone.
    fn sweep(&mut self, look: &Look<'_>) {
        let (classes, known) = (look.classes, &self.known);
        for _ in 0..SWEPT {
            let Some(number) = self.groups.next() else {
                return;
            };
            let rank = |groups: &Groups| groups.get(number).map(|group| group.rank);
            let before = rank(&self.groups);
            self.groups
                .leaders(number, |id| led(classes, known, number, id).is_some());
            if let Some(group) = self.groups.get(number)
                && Some(group.rank) != before
            {
                self.standing.note(look, group, number);
            }
        }
    }

    /// Looks at all classes, unless it knows them.
    fn complete(&mut self, look: &mut Look<'_>) {
        if self.until.is_some() {
            return;
        }
        let classes = look.classes;
        let before = self.groups.take();
        self.candidates = 0;
        self.standing.forget();
        let mut firsts: Vec<Vec<(u32, NodeId)>> = Vec::new();
        for (head, at) in classes.heads.iter().zip(0_usize..) {
            if head.members == 0 {
                continue;
            }
            let group = match self.known.get(at).copied() {
                Some((generation, group)) if generation == head.generation => {
                    match before.get(group as usize) {
                        Some(old) => self.groups.of(old.build, old.losses),
                        None => NOWHERE,
                    }
                }
                _ => self.look_up(look, at, head),
            };
            if let Some(known) = self.known.get_mut(at) {
                *known = (head.generation, group);
            }
            if group == NOWHERE {
                continue;
            }
            self.candidates += head.members;
            firsts.resize(self.groups.len(), Vec::new());
            if let Some(first) = firsts.get_mut(group as usize) {
                first.push((head.rank, head.node));
            }
        }
        self.groups.lead(firsts);
        // What is known of classes that are gone names groups that were.
        for (known, head) in self.known.iter_mut().zip(&classes.heads) {
            if known.0 != head.generation || head.members == 0 {
                *known = (0, NOWHERE);
            }
        }
        self.until = Some(classes.changes());
    }

    /// The group of a class that is new.
    #[inline(never)]
    fn look_up(&mut self, look: &mut Look<'_>, at: usize, head: &Head) -> u32 {
        let Some(class) = look.classes.list.get(at) else {
            return NOWHERE;
        };
        let ways = fit_options::ways(
            look.world,
            look.ask,
            look.kinds,
            (class, head.node),
            look.mix,
            look.values,
        );
        let group = match losses_of(&ways) {
            [None, None] => NOWHERE,
            losses => self.groups.of(head.build, losses),
        };
        if let Some(known) = self.known.get_mut(at) {
            *known = (head.generation, group);
        }
        group
    }

    /// Weighs what may be taken of the whole fleet but for some nodes, which are sorted; how many others have room.
    pub(super) fn anywhere(&mut self, look: &mut Look<'_>, without: &[NodeId]) -> u32 {
        let closed = without.iter().filter(|id| self.fits(look, **id)).count() as u32;
        let (since, all) = (
            look.classes.changes_since(self.seen),
            look.classes.heads.len(),
        );
        if self.until.is_none() && since.is_none_or(|changes| many(changes.len(), all)) {
            self.class_by_class(look, without);
        } else {
            self.complete(look);
            if self.standing.is_ready(look, self.groups.all()) {
                self.in_order(look, without);
            } else {
                self.one_by_one(look, without);
            }
        }
        self.seen = look.classes.changes();
        self.candidates.saturating_sub(closed)
    }

    /// The node of lowest rank of a group that may be taken, after its rank. Leaders before it that are so no longer
    /// are dropped.
    fn first_of(
        &mut self,
        number: u32,
        look: &Look<'_>,
        without: &[NodeId],
    ) -> Option<(u32, NodeId)> {
        let (classes, known) = (look.classes, &self.known);
        let led = |id: NodeId| led(classes, known, number, id);
        let leaders = self.groups.leaders(number, |id| led(id).is_some());
        if without.is_empty() {
            return leaders.first().copied();
        }
        let open = |(_, id): &&(u32, NodeId)| without.binary_search(id).is_err();
        let mut best: Option<(u32, NodeId)> = None;
        for leader in leaders {
            if best.is_some_and(|best| best < *leader) {
                break;
            }
            let found = led(leader.1).and_then(|class| class.members.iter().find(open));
            best = best.into_iter().chain(found.copied()).min();
        }
        best
    }

    /// Where much changes between two looks, following that costs more than a look at all classes.
    fn class_by_class(&mut self, look: &mut Look<'_>, without: &[NodeId]) {
        let classes = look.classes;
        self.candidates = 0;
        for (at, head) in classes
            .heads
            .iter()
            .enumerate()
            .filter(|(_, head)| head.members > 0)
        {
            let group = match self.known.get(at) {
                Some((generation, group)) if *generation == head.generation => *group,
                _ => self.look_up(look, at, head),
            };
            let Some(group) = self.groups.get(group) else {
                continue;
            };
            self.candidates += head.members;
            let Some(grains) = look.could_beat(group, head.rank) else {
                continue;
            };
            let first = if without.is_empty() {
                Some((head.rank, head.node))
            } else {
                let open = |(_, id): &&(u32, NodeId)| without.binary_search(id).is_err();
                let class = classes.list.get(at);
                class
                    .and_then(|class| class.members.iter().find(open))
                    .copied()
            };
            if let Some((rank, node)) = first {
                look.offer(grains, rank, node);
            }
        }
    }

    fn one_by_one(&mut self, look: &mut Look<'_>, without: &[NodeId]) {
        let before = self.last;
        let all = (0..self.groups.len() as u32).filter(|at| *at != before);
        for at in std::iter::once(before).chain(all) {
            if let Some(group) = self.groups.get(at)
                && let Some(grains) = look.could_beat(group, group.rank)
                && let Some((rank, node)) = self.first_of(at, look, without)
                && look.offer(grains, rank, node)
            {
                self.last = at;
            }
        }
    }

    fn in_order(&mut self, look: &mut Look<'_>, without: &[NodeId]) {
        let mut seen = Vec::new();
        while let Some((grains, rank, number)) = self.standing.pop(look) {
            // Its number may be another group's by now.
            let is_it = |group: &Group| group.rank == rank && look.grains_of(group) == grains;
            if !self.groups.get(number).is_some_and(is_it) {
                continue;
            }
            if let Some((rank, node)) = self.first_of(number, look, without) {
                look.offer(grains, rank, node);
            }
            let group = self.groups.get(number).filter(|group| !group.is_empty());
            seen.extend(group.map(|group| (grains, group.rank, number)));
        }
        for entry in seen {
            self.standing.push(entry);
        }
    }

    /// Weighs what may be taken of a node; `false`: the ask does not fit.
    pub(super) fn on_node(&mut self, look: &mut Look<'_>, id: NodeId) -> bool {
        let Some((group, rank)) = self.group_of(look, id) else {
            return false;
        };
        let Some(group) = self.groups.get(group) else {
            return false;
        };
        if let Some(grains) = look.could_beat(group, rank) {
            look.offer(grains, rank, id);
        }
        true
    }

    fn fits(&mut self, look: &mut Look<'_>, id: NodeId) -> bool {
        self.group_of(look, id).is_some()
    }

    /// The group of a node and its rank; `None`: the ask does not fit.
    fn group_of(&mut self, look: &mut Look<'_>, id: NodeId) -> Option<(u32, u32)> {
        let (at, rank) = look.classes.of(id)?;
        let head = look.classes.heads.get(at)?;
        let group = match self.known.get(at) {
            Some((generation, group)) if *generation == head.generation => *group,
            _ => self.look_up(look, at, head),
        };
        (group != NOWHERE).then_some((group, rank))
    }
}

/// The class that a node leads, if it is of this group.
fn led<'c>(
    classes: &'c Classes,
    known: &[(u32, u32)],
    number: u32,
    id: NodeId,
) -> Option<&'c Class> {
    let (at, _) = classes.of(id)?;
    let head = classes.heads.get(at)?;
    let same = known.get(at) == Some(&(head.generation, number));
    classes.list.get(at).filter(|_| same && head.node == id)
}

/// Whether so many changes are more than are followed, of so many classes.
const fn many(changes: usize, classes: usize) -> bool {
    changes > classes / 4 + 64
}

fn losses_of(ways: &FitOptions) -> Losses {
    ways.map(|way| way.map(|way| (way.loss, way.places)))
}
