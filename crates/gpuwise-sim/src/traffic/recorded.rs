//! Requests that are at hand: a trace.

use super::Source;
use gpuwise_domain::request::Request;
use std::{collections::BTreeSet, sync::Arc};

/// Requests of a list in order. A clone begins where the original is and shares the list.
#[derive(Debug, Clone)]
pub struct Recorded {
    requests: Arc<[Request]>,
    next: usize,
}

impl Recorded {
    /// Takes requests and puts them in the order in which they are due, those due at once as they are.
    pub fn new(mut requests: Vec<Request>) -> Self {
        if !requests.is_sorted_by_key(|request| request.due) {
            requests.sort_by_key(|request| request.due);
        }
        let mut later = BTreeSet::new();
        for request in requests.iter_mut().rev() {
            request.closes = request.session.is_some_and(|session| later.insert(session));
        }
        Self {
            requests: requests.into(),
            next: 0,
        }
    }

    /// All of them, those already given included.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Pairs of their lengths, to draw from.
    pub fn lengths(&self) -> Arc<[(u32, u32)]> {
        self.requests
            .iter()
            .map(|request| (request.input, request.output))
            .collect()
    }
}

impl Iterator for Recorded {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let request = self.requests.get(self.next)?.clone();
        self.next += 1;
        Some(request)
    }
}

impl Source for Recorded {
    fn remaining(&self) -> Option<u64> {
        Some((self.requests.len() - self.next) as u64)
    }
}
