//! Classes on which an ask loses the same, taken together, and the nodes that lead them.
//!
//! A group whose last class is gone gives its place to the next that is new: they are never counted anew for that.

use super::{classes::Head, mix::WIDTHS};
use gpuwise_domain::placement::NodeId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The group of classes on which the ask does not fit.
pub(super) const NOWHERE: u32 = u32::MAX;

/// What is lost by each way in which the ask fits: capacity in millionths of a GPU, places in thousandths.
pub(super) type Losses = [Option<(i32, [i16; WIDTHS])>; 2];

/// Classes of one build of nodes on which an ask loses the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) build: u32,
    /// The least capacity that a way loses.
    pub(super) least: i32,
    /// No node of the group has a lower rank.
    pub(super) rank: u32,
    pub(super) losses: Losses,
}

impl Group {
    /// Whether no class belongs to it now.
    pub(super) const fn is_empty(&self) -> bool {
        self.rank == u32::MAX
    }
}

/// Of each class of a group the node of lowest rank, after its rank; of classes that have changed also nodes that
/// are so no longer.
pub(super) type Leaders = BTreeSet<(u32, NodeId)>;

/// Groups by number.
#[derive(Debug, Default)]
pub(super) struct Groups {
    list: Vec<Group>,
    /// By group.
    leaders: Vec<Leaders>,
    /// Numbers of groups that are no more.
    free: Vec<u32>,
    by_losses: FxHashMap<(u32, Losses), u32>,
    /// Leaders of all groups.
    entries: usize,
    /// The group that was looked through last for leaders that are so no longer.
    swept: usize,
}

impl Groups {
    pub(super) fn all(&self) -> &[Group] {
        &self.list
    }

    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, number: u32) -> Option<&Group> {
        self.list.get(number as usize)
    }

    /// Leaders of all groups, some of whom may be so no longer.
    pub(super) const fn entries(&self) -> usize {
        self.entries
    }

    /// Forgets all; gives what was known.
    pub(super) fn take(&mut self) -> Vec<Group> {
        std::mem::take(self).list
    }

    /// The group of classes of a build on which so much is lost.
    pub(super) fn of(&mut self, build: u32, losses: Losses) -> u32 {
        if let Some(known) = self.by_losses.get(&(build, losses)) {
            return *known;
        }
        let ways = losses.iter().flatten().map(|(loss, _)| *loss);
        let group = Group {
            build,
            least: ways.min().unwrap_or(i32::MAX),
            rank: u32::MAX,
            losses,
        };
        let number = self.free.pop().unwrap_or(self.list.len() as u32);
        match self.list.get_mut(number as usize) {
            Some(place) => *place = group,
            None => {
                self.list.push(group);
                self.leaders.push(Leaders::new());
            }
        }
        self.by_losses.insert((build, losses), number);
        number
    }

    /// The first node of a class leads it; gives the group if its rank is another now.
    pub(super) fn enter(&mut self, number: u32, head: &Head) -> Option<&Group> {
        let at = number as usize;
        let (group, leaders) = (self.list.get_mut(at)?, self.leaders.get_mut(at)?);
        self.entries += usize::from(leaders.insert((head.rank, head.node)));
        let rank = rank_of(leaders);
        let other = group.rank != rank;
        group.rank = rank;
        other.then_some(&*group)
    }

    /// Says who leads all groups.
    pub(super) fn lead(&mut self, firsts: Vec<Vec<(u32, NodeId)>>) {
        self.leaders = firsts
            .into_iter()
            .map(|all| all.into_iter().collect())
            .collect();
        self.leaders.resize(self.list.len(), Leaders::new());
        self.entries = self.leaders.iter().map(Leaders::len).sum();
        for (group, leaders) in self.list.iter_mut().zip(&self.leaders) {
            group.rank = rank_of(leaders);
        }
    }

    /// Those who lead a group, without the first ones that do so no longer. A group that has lost its last is
    /// no more.
    pub(super) fn leaders(&mut self, number: u32, leads: impl Fn(NodeId) -> bool) -> &Leaders {
        static NOBODY: Leaders = Leaders::new();
        let at = number as usize;
        let (Some(group), Some(leaders)) = (self.list.get_mut(at), self.leaders.get_mut(at)) else {
            return &NOBODY;
        };
        let before = leaders.len();
        while let Some(first) = leaders.first().copied().filter(|first| !leads(first.1)) {
            leaders.remove(&first);
        }
        self.entries -= before - leaders.len();
        group.rank = rank_of(leaders);
        if before > 0 && leaders.is_empty() {
            self.by_losses.remove(&(group.build, group.losses));
            self.free.push(number);
        }
        leaders
    }

    /// The next few groups, one after the other over the calls: those that nobody looks at, as they cost too much,
    /// would keep what is gone for ever.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.swept = (self.swept + 1).checked_rem(self.list.len())?;
        Some(self.swept as u32)
    }
}

/// The lowest rank of leaders; of none the highest that there is.
fn rank_of(leaders: &Leaders) -> u32 {
    leaders.first().map_or(u32::MAX, |(rank, _)| *rank)
}
