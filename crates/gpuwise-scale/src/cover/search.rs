//! What covers several needs at once at the least cost, of machines of which there are so many.

/// Needs of a problem at most: what is served, what is served now, and what is left when a pool is lost, for six.
pub const NEEDS: usize = 8;

/// A rate for each need; 0 where there is none.
pub type Needs = [f64; NEEDS];

/// What may be taken several times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item {
    /// What one costs, 0 or more.
    pub cost: f64,
    /// As many as there are.
    pub most: u32,
    /// What one covers of each need.
    pub covers: Needs,
    /// The machines that it is taken from, by their place, and how many GPUs of them.
    pub pool: usize,
    pub gpus: u32,
}

/// Items of which those are looked for that cover every need at the least cost.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    pub items: &'a [Item],
    pub needs: Needs,
    /// GPUs of each pool; one that is not listed has as many as are asked for.
    pub gpus: &'a [u32],
    /// Nothing that costs as much is looked for.
    pub below: f64,
    /// How many steps are taken at most; after these the best found until then stands.
    pub steps: u64,
}

/// What rounding leaves of a rate, or of a cost, is nothing.
const NOTHING: f64 = 1e-9;

impl Problem<'_> {
    /// How many of each; `None`: all of them together do not cover it, or not for less, or the steps did not do.
    ///
    /// Exact where the steps suffice: counts are tried from the item on that is cheapest a unit of the first need, and
    /// left once not even the cheapest a unit of what is left, without rounding up, could make it cheaper than the
    /// best that was found.
    pub fn cheapest(&self) -> Option<Vec<u32>> {
        let mut order: Vec<usize> = (0..self.items.len())
            .filter(|at| self.item(*at).is_some_and(Item::is_useful))
            .collect();
        let unit =
            |at: usize, need: usize| self.item(at).map_or(f64::INFINITY, |one| one.unit(need));
        let by = |a: usize, b: usize, need: usize| unit(a, need).total_cmp(&unit(b, need));
        order.sort_by(|a, b| by(*a, *b, 0).then(by(*a, *b, 1)).then(a.cmp(b)));
        let both = |item: &Item| item.unit(0).is_finite() && item.unit(1).is_finite();
        let mut search = Search {
            problem: self,
            units: units(self.items, &order),
            apart: !self.items.iter().any(both),
            order,
            free: self.gpus.to_vec(),
            counts: vec![0; self.items.len()],
            best: None,
            steps: 0,
        };
        search.from(0, self.needs, 0.0);
        search.best.map(|(_, counts)| counts)
    }

    fn item(&self, at: usize) -> Option<&Item> {
        self.items.get(at)
    }
}

impl Item {
    fn is_useful(&self) -> bool {
        self.most > 0 && self.covers.iter().any(|one| *one > 0.0)
    }

    /// What a unit of a need costs by it.
    fn unit(&self, need: usize) -> f64 {
        match self.covers.get(need) {
            Some(covers) if *covers > 0.0 => self.cost / covers,
            _ => f64::INFINITY,
        }
    }
}

/// Of the items from each one on, the least that a unit of each need costs.
fn units(items: &[Item], order: &[usize]) -> Vec<Needs> {
    let mut least = [f64::INFINITY; NEEDS];
    let mut all = vec![least];
    for item in order.iter().rev().filter_map(|at| items.get(*at)) {
        for (need, slot) in least.iter_mut().enumerate() {
            *slot = slot.min(item.unit(need));
        }
        all.push(least);
    }
    all.reverse();
    all
}

struct Search<'a> {
    problem: &'a Problem<'a>,
    order: Vec<usize>,
    units: Vec<Needs>,
    /// Whether nothing covers the first need and the second: then what they cost adds up.
    apart: bool,
    free: Vec<u32>,
    counts: Vec<u32>,
    best: Option<(f64, Vec<u32>)>,
    steps: u64,
}

impl Search<'_> {
    fn is_dearer(&self, cost: f64) -> bool {
        let best = self.best.as_ref();
        cost >= best.map_or(self.problem.below, |(best, _)| *best) - NOTHING
    }

    /// The least that what is left costs by items from one on, and by those needs alone that items are in order of.
    fn least(&self, at: usize, left: &Needs) -> (f64, f64) {
        let Some(units) = self.units.get(at) else {
            return (0.0, 0.0);
        };
        let each = left.iter().zip(units);
        let mut costs = each.map(|(left, unit)| if *left > NOTHING { left * unit } else { 0.0 });
        let first = costs.next().unwrap_or(0.0);
        let second = costs.next().unwrap_or(0.0);
        if self.apart {
            (costs.fold(first + second, f64::max), first + second)
        } else {
            (costs.fold(first.max(second), f64::max), first)
        }
    }

    /// As many of an item as could be of use.
    fn enough(&self, item: &Item, left: &Needs) -> u32 {
        let each = left.iter().zip(&item.covers);
        let counts = each.filter(|(left, covers)| **left > NOTHING && **covers > 0.0);
        let most = counts
            .map(|(left, covers)| (left / covers - NOTHING).ceil() as u32)
            .max()
            .unwrap_or(0);
        let there = match self.free.get(item.pool) {
            Some(free) if item.gpus > 0 => free / item.gpus,
            _ => u32::MAX,
        };
        most.min(item.most).min(there)
    }

    fn take(&mut self, index: usize, item: &Item, count: u32, back: bool) {
        if let Some(slot) = self.counts.get_mut(index) {
            *slot = if back { 0 } else { count };
        }
        if let Some(free) = self.free.get_mut(item.pool) {
            let gpus = count.saturating_mul(item.gpus);
            *free = if back {
                free.saturating_add(gpus)
            } else {
                free.saturating_sub(gpus)
            };
        }
    }

    /// Covers what is left with items from one on.
    fn from(&mut self, at: usize, left: Needs, cost: f64) {
        if left.iter().all(|left| *left <= NOTHING) {
            if !self.is_dearer(cost) {
                self.best = Some((cost, self.counts.clone()));
            }
            return;
        }
        let Some(index) = self.order.get(at).copied() else {
            return;
        };
        let Some(item) = self.problem.item(index).copied() else {
            return;
        };
        for count in (0..=self.enough(&item, &left)).rev() {
            if self.steps >= self.problem.steps {
                return;
            }
            self.steps += 1;
            let mut after = left;
            for (left, covers) in after.iter_mut().zip(&item.covers) {
                *left -= f64::from(count) * covers;
            }
            let cost = cost + f64::from(count) * item.cost;
            let (least, first) = self.least(at + 1, &after);
            // Fewer of this one leave more to cover.
            if least.is_infinite() {
                break;
            }
            if self.is_dearer(cost + least) {
                // Those that follow cover no unit of what they are in order of for less: fewer do not get cheaper.
                let own = usize::from(self.apart && item.covers[0] <= 0.0);
                let lacks = after.get(own).is_some_and(|left| *left > NOTHING);
                if self.is_dearer(cost + first) && lacks {
                    break;
                }
                continue;
            }
            self.take(index, &item, count, false);
            self.from(at + 1, after, cost);
            self.take(index, &item, count, true);
        }
    }
}
