//! Requests that are under way at the endpoints of a pool.

use super::pool::{Pool, State};
use std::sync::Arc;

/// A request that is under way at an endpoint, for as long as this is there.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) pool: Arc<Pool>,
    pub(super) number: u16,
    pub(super) life: u64,
    pub(super) tokens: u64,
    pub(super) adapter: u16,
}

impl UnderWay {
    /// Another than the first that was named has it.
    pub(super) fn served(&mut self, address: &str) {
        let pool = Arc::clone(&self.pool);
        let mut state = pool.state();
        let all = &state.endpoints;
        let Some(other) = all.iter().find(|(_, one)| one.address == address) else {
            return;
        };
        let (number, life) = (*other.0, other.1.life);
        if (number, life) == (self.number, self.life) {
            return;
        }
        self.leave(&mut state);
        (self.number, self.life) = (number, life);
        if let Some(one) = state.endpoints.get_mut(&number) {
            one.requests += 1;
            one.tokens += self.tokens;
        }
    }

    fn leave(&self, state: &mut State) {
        let one = state.endpoints.get_mut(&self.number);
        if let Some(one) = one.filter(|one| one.life == self.life) {
            one.requests = one.requests.saturating_sub(1);
            one.tokens = one.tokens.saturating_sub(self.tokens);
            state.router.ended(self.number, self.adapter);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let pool = Arc::clone(&self.pool);
        self.leave(&mut pool.state());
        pool.may_have_room();
    }
}
