//! What is asked of a rank and changes nothing.

use super::{
    rank::Rank,
    sequence::NONE,
    settings::{Capacity, Policy, Role},
};
use gpuwise_domain::request::Request;

impl Rank {
    /// Whether a request that came may be in the next plan, where the others could not.
    pub(super) fn may_join(&mut self, slot: u32) -> bool {
        if self.settings.max_adapters.is_some() {
            return true;
        }
        if let Policy::Sglang(_) = self.settings.policy {
            return !self.sglang.closed();
        }
        self.table.running() < self.settings.max_sequences
            && self.waiting.head(&self.table) == Some(slot)
    }

    /// Whether it has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.table.running() == 0 && self.waiting.count() == 0 && self.loaded.is_empty()
    }

    /// Whether a request can be in no step, even alone.
    pub(super) fn never_joins(&self, request: &Request) -> bool {
        let (input, wanted) = (u64::from(request.input), u64::from(self.wanted(request)));
        let budget = u64::from(self.settings.max_batched_tokens);
        let cache = &self.settings.cache;
        match &self.settings.policy {
            Policy::Vllm(rules) => !rules.chunked_prefill && self.most_tokens(request) > budget,
            Policy::Sglang(rules) => {
                input + wanted >= self.pool.total() * u64::from(cache.block_tokens)
                    || rules
                        .chunked_prefill
                        .is_some_and(|chunk| chunk < cache.block_tokens)
            }
            Policy::TensorRtLlm(rules) => {
                let most = match rules.capacity {
                    Capacity::GuaranteedNoEvict => input,
                    Capacity::MaxUtilization => input + wanted,
                };
                let chunks = rules.chunked_context && budget >= u64::from(cache.block_tokens);
                self.pool.blocks_for(input + wanted) > self.pool.total()
                    || (most > budget && !chunks)
            }
        }
    }

    /// Tokens that it has still to compute and to yield for all requests.
    pub(super) fn owed(&self) -> u64 {
        self.owed
    }

    /// Prompt tokens that are not computed.
    pub(super) fn unread(&self) -> u64 {
        let running: u64 = self
            .prefills
            .iter()
            .map(|slot| self.table.get(*slot).unread())
            .sum();
        self.waiting.tokens() + running
    }

    /// The running sequence that loses its place first, in the order of joining.
    pub(super) fn latest(&self) -> Option<u32> {
        Some(self.table.last()).filter(|slot| *slot != NONE)
    }

    /// Most tokens that a request ever has in the cache.
    pub(super) fn most_tokens(&self, request: &Request) -> u64 {
        u64::from(request.input) + u64::from(self.wanted(request)) - u64::from(!self.late_ends())
    }

    /// Tokens that a request is to yield here.
    pub(super) fn wanted(&self, request: &Request) -> u32 {
        if self.settings.role == Role::Prefill {
            1
        } else {
            request.output
        }
    }

    /// Whether the adapter of a waiting request has a place in the batch.
    pub(super) fn adapter_fits(&self, slot: u32) -> bool {
        let Some(most) = self.settings.max_adapters else {
            return true;
        };
        let adapter = usize::from(self.table.get(slot).request.adapter);
        let there = self.adapters.get(adapter).is_some_and(|count| *count > 0);
        let others = self
            .adapters
            .iter()
            .skip(1)
            .filter(|count| **count > 0)
            .count();
        adapter == 0 || there || others < most as usize
    }
}
