//! Who waits: by priority, and among those of one priority in turns of whom they are from (start-time fair queueing,
//! all requests alike).

use std::{cmp::Reverse, collections::BTreeMap};

/// Place in the line: the most important first, then the earliest turn, then who came first.
type Place = (Reverse<i64>, u64, u64);

#[derive(Debug)]
pub(super) struct Line<T> {
    most: usize,
    entries: BTreeMap<Place, Entry<T>>,
    arrivals: u64,
    bands: BTreeMap<i64, Band>,
}

#[derive(Debug)]
struct Entry<T> {
    flow: String,
    /// The turn that it was when it came.
    from: u64,
    what: T,
}

/// Of those of one priority, for as long as any of them waits.
#[derive(Debug, Default)]
struct Band {
    waiting: usize,
    /// The turn of who left the line last.
    turn: u64,
    /// The last turn of each flow that came.
    flows: BTreeMap<String, u64>,
}

impl<T> Line<T> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            entries: BTreeMap::new(),
            arrivals: 0,
            bands: BTreeMap::new(),
        }
    }

    /// Takes one more. Where the line is full whoever matters least has to go, and is given back: of the least
    /// priority, the last; a newcomer before those of its own priority.
    pub(super) fn push(&mut self, priority: i64, flow: &str, what: T) -> Option<T> {
        let mut left = None;
        if self.entries.len() >= self.most {
            match self.entries.last_key_value() {
                Some((place, _)) if place.0.0 < priority => {
                    let place = *place;
                    left = self.leave(&[place]).pop();
                }
                _ => return Some(what),
            }
        }
        let band = self.bands.entry(priority).or_default();
        band.waiting += 1;
        let last = band.flows.get(flow).copied().unwrap_or(0);
        let from = band.turn;
        let turn = last.max(from) + 1;
        band.flows.insert(flow.to_owned(), turn);
        self.arrivals += 1;
        let flow = flow.to_owned();
        let place = (Reverse(priority), turn, self.arrivals);
        self.entries.insert(place, Entry { flow, from, what });
        left
    }

    /// The first that may go.
    pub(super) fn take(&mut self, mut may: impl FnMut(&T) -> bool) -> Option<T> {
        let found = self.entries.iter().find(|(_, entry)| may(&entry.what));
        let place = *found?.0;
        if let Some(band) = self.bands.get_mut(&place.0.0) {
            band.turn = band.turn.max(place.1);
        }
        self.remove(place)
    }

    /// Those of whom it is not true leave.
    pub(super) fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        let gone = self.entries.iter().filter(|(_, entry)| !stays(&entry.what));
        let gone: Vec<Place> = gone.map(|(place, _)| *place).collect();
        self.leave(&gone);
    }

    /// These leave without having had their turns: those of their flows that wait behind them are where they would be
    /// without them.
    fn leave(&mut self, gone: &[Place]) -> Vec<T> {
        let mut flows: BTreeMap<(i64, String), u64> = BTreeMap::new();
        let mut left = Vec::new();
        for place in gone {
            let Some(entry) = self.entries.remove(place) else {
                continue;
            };
            let (priority, turn) = (place.0.0, place.1);
            if let Some(band) = self.bands.get_mut(&priority) {
                band.waiting -= 1;
            }
            let before = turn.saturating_sub(1);
            let first = flows.entry((priority, entry.flow)).or_insert(before);
            *first = before.min(*first);
            left.push(entry.what);
        }
        for ((priority, flow), before) in flows {
            self.turns_again(priority, &flow, before);
        }
        self.bands.retain(|_, band| band.waiting > 0);
        left
    }

    /// Turns of a flow after one that was, made anew in the order in which they came.
    fn turns_again(&mut self, priority: i64, flow: &str, before: u64) {
        let band = (Reverse(priority), 0, 0)..=(Reverse(priority), u64::MAX, u64::MAX);
        let later = self.entries.range(band);
        let later = later.filter(|(place, entry)| place.1 > before && entry.flow == flow);
        let later: Vec<Place> = later.map(|(place, _)| *place).collect();
        let mut last = before;
        for place in later {
            let Some(entry) = self.entries.remove(&place) else {
                continue;
            };
            last = last.max(entry.from) + 1;
            self.entries.insert((place.0, last, place.2), entry);
        }
        if let Some(band) = self.bands.get_mut(&priority) {
            if last > band.turn {
                band.flows.insert(flow.to_owned(), last);
            } else {
                band.flows.remove(flow);
            }
        }
    }

    fn remove(&mut self, place: Place) -> Option<T> {
        let entry = self.entries.remove(&place)?;
        let priority = place.0.0;
        if let Some(band) = self.bands.get_mut(&priority) {
            band.waiting -= 1;
            // A flow whose last turn has been is as one that never came.
            if band.flows.get(&entry.flow) == Some(&place.1) && place.1 <= band.turn {
                band.flows.remove(&entry.flow);
            }
            if band.waiting == 0 {
                self.bands.remove(&priority);
            }
        }
        Some(entry.what)
    }

    /// Whether anybody waits who goes before a newcomer of this priority.
    pub(super) fn is_before(&self, priority: i64) -> bool {
        let first = self.entries.first_key_value();
        first.is_some_and(|(place, _)| place.0.0 >= priority)
    }

    /// How many wait, by priority.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (i64, usize)> {
        self.bands
            .iter()
            .map(|(priority, band)| (*priority, band.waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_units::RandomStream;

    fn all<T>(line: &mut Line<T>) -> Vec<T> {
        std::iter::from_fn(|| line.take(|_| true)).collect()
    }

    #[test]
    fn priority_goes_first_then_flows_take_turns() {
        let mut line = Line::new(9);
        for (priority, flow, what) in [
            (0, "a", "a1"),
            (0, "a", "a2"),
            (0, "a", "a3"),
            (0, "b", "b1"),
            (-1, "c", "low"),
            (5, "a", "high"),
        ] {
            assert_eq!(line.push(priority, flow, what), None);
        }
        assert!(line.is_before(5) && !line.is_before(6));
        assert_eq!(all(&mut line), ["high", "a1", "b1", "a2", "a3", "low"]);
        assert_eq!(line.waiting().count(), 0);
    }

    #[test]
    fn a_full_line_loses_who_matters_least_and_came_last() {
        let mut line = Line::new(3);
        for (priority, what, left) in [
            (0, "a", None),
            (-5, "b", None),
            (-5, "c", None),
            (-5, "d", Some("d")),
            (0, "e", Some("c")),
            (9, "f", Some("b")),
            (0, "g", Some("g")),
        ] {
            assert_eq!(line.push(priority, "x", what), left);
        }
        assert_eq!(all(&mut line), ["f", "a", "e"]);
    }

    /// Nobody of less priority goes before one of more, nobody is lost or doubled, and of flows of one priority that
    /// all have somebody waiting none is more than one turn ahead.
    #[test]
    fn of_random_lines_the_same_is_true() {
        let mut chance = RandomStream::new(7, "lines", 0);
        for _ in 0..200 {
            let mut line = Line::new(1000);
            let many = 1 + chance.below(60);
            for number in 0..many {
                let priority = chance.below(3).cast_signed() - 1;
                let flow = chance.below(3);
                line.push(priority, &flow.to_string(), (priority, flow, number));
            }
            let gone = all(&mut line);
            assert_eq!(gone.len() as u64, many);
            assert!(gone.windows(2).all(|two| two[0].0 >= two[1].0), "{gone:?}");
            for priority in [-1, 0, 1] {
                let band: Vec<u64> = gone
                    .iter()
                    .filter(|one| one.0 == priority)
                    .map(|one| one.1)
                    .collect();
                for upto in 0..band.len() {
                    let (past, rest) = band.split_at(upto);
                    let served = |flow: &u64| past.iter().filter(|one| *one == flow).count();
                    let open: Vec<usize> = (0..3)
                        .filter(|flow| rest.contains(flow))
                        .map(|flow| served(&flow))
                        .collect();
                    let ahead = open.iter().max().unwrap_or(&0) - open.iter().min().unwrap_or(&0);
                    assert!(ahead <= 1, "{band:?} at {upto}");
                }
            }
        }
    }

    /// Whoever leaves before its turn, because it gave up or for one that matters more, leaves the others where they
    /// would be without it.
    #[test]
    fn who_leaves_delays_nobody() {
        let mut chance = RandomStream::new(11, "leavers", 0);
        for _ in 0..300 {
            let (mut with, mut without) = (Line::new(1000), Line::new(1000));
            let (mut seen, mut plain) = (Vec::new(), Vec::new());
            let mut number = 0;
            for _ in 0..=chance.below(5) {
                let first = number;
                let mut leaves = Vec::new();
                for _ in 0..chance.below(12) {
                    let priority = chance.below(2).cast_signed();
                    let flow = chance.below(3).to_string();
                    with.push(priority, &flow, number);
                    if chance.below(3) == 0 {
                        leaves.push(number);
                    } else {
                        without.push(priority, &flow, number);
                    }
                    number += 1;
                }
                with.retain(|one| *one < first || !leaves.contains(one));
                for _ in 0..chance.below(8) {
                    seen.extend(with.take(|_| true));
                    plain.extend(without.take(|_| true));
                }
            }
            seen.extend(all(&mut with));
            plain.extend(all(&mut without));
            assert_eq!(seen, plain);
            assert!(with.bands.is_empty() && with.entries.is_empty());
        }
    }
}
