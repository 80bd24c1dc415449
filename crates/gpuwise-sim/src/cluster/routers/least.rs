//! The one that has the least.

use super::Candidate;
use gpuwise_units::RandomStream;

/// What is counted of what was sent to a replica and is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Requests.
    Requests,
    /// Prompt tokens.
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
