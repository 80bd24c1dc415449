//! Which replica gets a request: the one that has its prefix in its cache, unless that has too much to do.
//!
//! Replicas are ranked by a hash of the request's beginning and their address (rendezvous hashing), and the
//! first one is taken whose load is within a quarter above the mean: consistent hashing with bounded loads
//! (Mirrokni, Thorup, Zadimoghaddam 2018).

use crate::endpoints::Replica;
use gpuwise_wire::broker::CompletionAsk;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Bytes of a request's beginning that count: what requests share is what stands first.
const PREFIX: usize = 1024;

/// A hash of the beginning of what is asked.
pub(super) fn prefix(ask: &CompletionAsk) -> u64 {
    let text = match (&ask.messages, &ask.prompt) {
        (Some(messages), _) => messages.to_string(),
        (None, Some(prompt)) => prompt.to_string(),
        (None, None) => String::new(),
    };
    let bytes = text.as_bytes();
    hash(&[&bytes[..bytes.len().min(PREFIX)]])
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    let bytes = digest.finalize();
    bytes
        .iter()
        .take(8)
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The replica for a request; `None`: there is none.
pub(super) fn pick<'a>(
    replicas: &[(u32, &'a Arc<Replica>)],
    prefix: u64,
) -> Option<(u32, &'a Arc<Replica>)> {
    if let [one] = replicas {
        return Some(*one);
    }
    let loads: u64 = replicas.iter().map(|(_, one)| u64::from(one.load())).sum();
    let count = replicas.len() as u64;
    // With this request, a quarter above the mean, rounded up.
    let bound = ((loads + 1) * 5).div_ceil(count.max(1) * 4);
    let within = replicas
        .iter()
        .filter(|(_, one)| u64::from(one.load()) < bound);
    let rank = |one: &Replica| hash(&[&prefix.to_be_bytes(), one.address.as_bytes()]);
    within.max_by_key(|(_, one)| rank(one)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::Endpoints;

    fn replicas(count: usize) -> Vec<Arc<Replica>> {
        let endpoints = Endpoints::default();
        endpoints.set(1, (0..count).map(|at| format!("10.0.0.{at}:80")).collect());
        endpoints.of(1)
    }

    #[test]
    fn the_same_beginning_goes_to_the_same_replica_until_that_has_too_much() {
        let all = replicas(4);
        let open: Vec<_> = all.iter().map(|one| (1, one)).collect();
        let first = pick(&open, 7).expect("one").1;
        assert!(Arc::ptr_eq(first, pick(&open, 7).expect("one").1));
        let held: Vec<_> = (0..3).map(|_| first.enter()).collect();
        assert!(!Arc::ptr_eq(first, pick(&open, 7).expect("one").1));
        drop(held);
        assert!(Arc::ptr_eq(first, pick(&open, 7).expect("one").1));
    }

    #[test]
    fn loads_stay_within_a_quarter_of_the_mean() {
        let all = replicas(5);
        let open: Vec<_> = all.iter().map(|one| (1, one)).collect();
        let mut held = Vec::new();
        for request in 0..1000 {
            // One beginning for all: the worst that there is.
            let (_, one) = pick(&open, 3).expect("one");
            held.push(one.enter());
            let bound = f64::from(request + 1) / 5.0 * 1.25 + 1.0;
            assert!(f64::from(one.load()) <= bound, "{request}");
        }
    }
}
