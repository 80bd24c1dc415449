//! The one that has the least.

use super::Candidate;
use gpuwise_units::RandomStream;

/// What is counted of what was sent to a replica and is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    Requests,
    Tokens,
}

impl Measure {
    fn of(self, candidate: &Candidate) -> u64 {
        match self {
            Self::Requests => u64::from(candidate.requests),
            Self::Tokens => candidate.tokens,
        }
    }
}

/// The one that has the least; of equals the one whose turn it is, counted on from the last pick, so
/// that equal replicas get equal shares.
#[derive(Debug, Clone)]
pub(super) struct Fewest {
    measure: Measure,
    /// The number after the last that was picked.
    next: u16,
}

impl Fewest {
    pub(super) fn new(measure: Measure) -> Self {
        Self { measure, next: 0 }
    }

    pub(super) fn pick(&mut self, candidates: &[Candidate]) -> Option<usize> {
        let from = candidates.partition_point(|candidate| candidate.replica < self.next);
        let (before, after) = candidates.split_at_checked(from)?;
        let place = match (least(after, self.measure), least(before, self.measure)) {
            (Some(late), Some(early)) => {
                let count = |place: usize| candidates.get(place).map(|one| self.measure.of(one));
                if count(early) < count(from + late) {
                    early
                } else {
                    from + late
                }
            }
            (Some(late), None) => from + late,
            (None, early) => early?,
        };
        self.next = candidates.get(place)?.replica.saturating_add(1);
        Some(place)
    }
}

/// The first of those that have the least.
pub(super) fn least(candidates: &[Candidate], measure: Measure) -> Option<usize> {
    let mut best = None;
    for (place, candidate) in candidates.iter().enumerate() {
        let count = measure.of(candidate);
        if candidate.open && best.is_none_or(|(least, _)| count < least) {
            best = Some((count, place));
        }
    }
    best.map(|(_, place)| place)
}

/// Of two different ones that chance picks the one that has less; the first of equals.
pub(super) fn of_two(
    candidates: &[Candidate],
    measure: Measure,
    chance: &mut RandomStream,
) -> Option<usize> {
    let one = super::any(candidates, chance, |_, one| one.open)?;
    let first = &candidates[one];
    let other = super::any(candidates, chance, |place, two| two.open && place != one);
    match other {
        Some(other) if measure.of(&candidates[other]) < measure.of(first) => Some(other),
        _ => Some(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(counts: &[(u32, u64, bool)]) -> Vec<Candidate> {
        let candidate = |(replica, (requests, tokens, open)): (u16, &(u32, u64, bool))| Candidate {
            replica,
            open: *open,
            requests: *requests,
            tokens: *tokens,
            ..Candidate::default()
        };
        (0..).zip(counts).map(candidate).collect()
    }

    #[test]
    fn the_least_is_the_first_open_one_that_has_the_fewest() {
        let some = candidates(&[(3, 10, true), (1, 90, true), (1, 80, true), (0, 0, false)]);
        assert_eq!(least(&some, Measure::Requests), Some(1));
        assert_eq!(least(&some, Measure::Tokens), Some(0));
        assert_eq!(
            least(&candidates(&[(0, 0, false)]), Measure::Requests),
            None
        );
    }

    #[test]
    fn equals_take_turns_and_the_least_is_always_picked() {
        let mut fewest = Fewest::new(Measure::Requests);
        let mut all = candidates(&[(0, 0, true); 4]);
        let mut counts = [0; 4];
        for _ in 0..40 {
            // Each request is over before the next comes, so that all are equal.
            counts[fewest.pick(&all).unwrap_or(9)] += 1;
        }
        assert_eq!(counts, [10; 4]);
        all[2].requests = 3;
        all[1].open = false;
        let picks: Vec<_> = (0..3).filter_map(|_| fewest.pick(&all)).collect();
        assert_eq!(picks, [0, 3, 0]);
        let mut chance = RandomStream::new(5, "counts", 0);
        for _ in 0..1_000 {
            for one in &mut all {
                one.requests = chance.below(4) as u32;
                one.open = chance.below(5) > 0;
            }
            let open = all.iter().filter(|one| one.open);
            let least = open.map(|one| one.requests).min();
            let picked = fewest.pick(&all).and_then(|place| all.get(place));
            assert!(picked.is_none_or(|one| one.open));
            assert_eq!(picked.map(|one| one.requests), least);
        }
        assert_eq!(fewest.pick(&[]), None);
    }

    #[test]
    fn the_worst_of_all_is_never_the_better_of_two() {
        let some = candidates(&[(9, 9, true), (5, 5, true), (7, 7, true), (0, 0, false)]);
        let mut chance = RandomStream::new(2, "two", 0);
        let mut counts = [0; 4];
        for _ in 0..3_000 {
            counts[of_two(&some, Measure::Requests, &mut chance).unwrap_or(3)] += 1;
        }
        assert_eq!((counts[0], counts[3]), (0, 0));
        // Of the three pairs two hold the best one.
        assert!((1_900..2_100).contains(&counts[1]), "{counts:?}");
        let one = candidates(&[(4, 4, false), (9, 9, true)]);
        assert_eq!(of_two(&one, Measure::Requests, &mut chance), Some(1));
    }
}
