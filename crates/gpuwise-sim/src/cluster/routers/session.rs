//! Sessions stay where they are: a hash ring.

use super::{Candidate, Measure, RoutingRequest, least_loaded::least, memory::mix};

/// Points of each replica on the ring: with 160 the shares of replicas differ by some 8 %.
const POINTS: u64 = 160;

/// Points of replicas in the order of their hashes. A replica that comes or goes moves only the
/// sessions of its own points.
#[derive(Debug, Clone, Default)]
pub(super) struct Ring {
    points: Vec<(u64, u16)>,
    replicas: Vec<u16>,
}

impl Ring {
    pub(super) fn pick(
        &mut self,
        ask: &RoutingRequest<'_>,
        candidates: &[Candidate],
    ) -> Option<usize> {
        let Some(session) = ask.request.session else {
            return least(candidates, Measure::Requests);
        };
        self.place(candidates);
        let hash = mix(u64::from(session), 1);
        let from = self.points.partition_point(|(point, _)| *point < hash);
        let (after, before) = (self.points.get(from..)?, self.points.get(..from)?);
        after.iter().chain(before).find_map(|(_, replica)| {
            let place = candidates
                .binary_search_by_key(replica, |candidate| candidate.replica)
                .ok()?;
            candidates.get(place)?.open.then_some(place)
        })
    }

    /// Makes the ring anew when the replicas are others.
    fn place(&mut self, candidates: &[Candidate]) {
        let numbers = candidates.iter().map(|candidate| candidate.replica);
        if self.replicas.iter().copied().eq(numbers.clone()) {
            return;
        }
        self.replicas = numbers.collect();
        self.points.clear();
        for replica in &self.replicas {
            let points =
                (0..POINTS).map(|point| (mix(u64::from(*replica) << 32 | point, 2), *replica));
            self.points.extend(points);
        }
        self.points.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::{super::as_sent, *};
    use gpuwise_domain::request::Request;

    fn picks(ring: &mut Ring, candidates: &[Candidate]) -> Vec<u16> {
        (0..10_000)
            .map(|session| {
                let request = Request {
                    session: Some(session),
                    ..Request::default()
                };
                let ask = RoutingRequest {
                    request: &request,
                    time: 0,
                    hits: &|_| 0,
                    has: &as_sent,
                };
                ring.pick(&ask, candidates)
                    .map_or(u16::MAX, |place| candidates[place].replica)
            })
            .collect()
    }

    #[test]
    fn a_replica_that_goes_moves_only_its_own_sessions() {
        let candidate = |replica| Candidate {
            replica,
            open: true,
            ..Candidate::default()
        };
        let all: Vec<_> = (0..8).map(candidate).collect();
        let mut ring = Ring::default();
        let before = picks(&mut ring, &all);
        assert_eq!(before, picks(&mut ring, &all));
        for replica in 0..8 {
            let share = before.iter().filter(|pick| **pick == replica).count();
            assert!((800..1_700).contains(&share), "{replica}: {share}");
        }
        let fewer: Vec<_> = all.iter().copied().filter(|one| one.replica != 3).collect();
        let mut closed = all.clone();
        closed[3].open = false;
        let without = picks(&mut ring, &fewer);
        assert_eq!(
            without,
            picks(&mut ring, &closed),
            "a closed one is passed over"
        );
        for (old, new) in before.iter().zip(&without) {
            assert!(old == new || *old == 3);
        }
    }

    #[test]
    fn requests_of_no_session_go_to_the_least_loaded() {
        let candidate = |replica, requests| Candidate {
            replica,
            requests,
            open: true,
            ..Candidate::default()
        };
        let request = Request::default();
        let ask = RoutingRequest {
            request: &request,
            time: 0,
            hits: &|_| 0,
            has: &as_sent,
        };
        assert_eq!(
            Ring::default().pick(&ask, &[candidate(0, 4), candidate(1, 2)]),
            Some(1)
        );
    }
}
