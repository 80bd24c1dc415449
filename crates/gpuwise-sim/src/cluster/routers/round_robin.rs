//! One after the other.

use super::Candidate;

#[derive(Debug, Clone, Default)]
pub(super) struct RoundRobin {
    /// The number after the last that had a turn.
    next: u16,
}

impl RoundRobin {
    pub(super) fn pick(&mut self, candidates: &[Candidate]) -> Option<usize> {
        let from = candidates.partition_point(|candidate| candidate.replica < self.next);
        let place = (from..candidates.len())
            .chain(0..from)
            .find(|place| candidates[*place].open)?;
        self.next = candidates[place].replica.saturating_add(1);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round_and_pass_over_the_closed() {
        let candidate = |replica, open| Candidate {
            replica,
            open,
            ..Candidate::default()
        };
        let all = [candidate(0, true), candidate(2, true), candidate(5, true)];
        let some = [candidate(0, false), candidate(2, true), candidate(5, false)];
        let mut turn = RoundRobin::default();
        let picks: Vec<_> = (0..4).map(|_| turn.pick(&all)).collect();
        assert_eq!(picks, [Some(0), Some(1), Some(2), Some(0)]);
        assert_eq!(turn.pick(&some), Some(1));
        assert_eq!(turn.pick(&some), Some(1));
        assert_eq!(turn.pick(&all), Some(2));
        assert_eq!(turn.pick(&[candidate(0, false)]), None);
        assert_eq!(turn.pick(&[]), None);
    }
}
