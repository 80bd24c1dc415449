//! The endpoints of a pool: who is in it, what each has to do, and who gets a request, by the rules of routing that
//! `gpuwise simulate` runs.

use super::{
    choice::{adapter, candidates, is_full, why},
    exchange::{PickAsk, Refused},
    kv::{Ask, Index, Piece},
    prompt::Prompt,
    under_way::UnderWay,
};
use gpuwise_sim::cluster::routers::{Candidate, Router, Routing, RoutingRequest, as_sent};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::{Notify, mpsc};

/// What an engine says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EngineLoad {
    /// Requests in its batch.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// The share of its KV cache in use, in 0 to 1; `None`: it does not say.
    pub kv_used: Option<f64>,
}

/// How a pool picks.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    pub routing: Routing,
    pub seed: u64,
    /// The header that names a session.
    pub session: String,
    /// Requests that an endpoint may have at once; `None`: as many as come.
    pub most: Option<u32>,
    /// How many endpoints are named beside the first, for a gateway that tries again.
    pub fallbacks: usize,
}

#[derive(Debug)]
pub(super) struct Pool {
    settings: PoolSettings,
    began: Instant,
    state: Mutex<State>,
    /// Whenever somebody may go who could not before.
    changed: Notify,
    held: Option<Cached>,
}

/// What engines say of their caches.
#[derive(Debug)]
struct Cached {
    index: Index,
    /// Where prompts go whose tokens nobody said.
    asks: mpsc::Sender<Ask>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) router: Router,
    /// By number; a number is given anew once who had it is gone.
    pub(super) endpoints: BTreeMap<u16, Endpoint>,
    adapters: BTreeMap<String, u16>,
    /// Whether anybody ever said who is in the pool.
    known: bool,
}

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) address: String,
    /// Which of all that ever had this number.
    pub(super) life: u64,
    pub(super) requests: u32,
    pub(super) tokens: u64,
    pub(super) told: EngineLoad,
    /// It does not answer.
    pub(super) away: bool,
}

/// An endpoint, as figures show it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    pub(super) address: String,
    pub(super) open: bool,
    pub(super) requests: u32,
}

impl Pool {
    /// `asks`: engines say what they have cached, and prompts go there whose tokens nobody said.
    pub(super) fn new(settings: PoolSettings, asks: Option<mpsc::Sender<Ask>>) -> Self {
        let router = Router::new(&settings.routing, settings.seed, 0, None);
        Self {
            began: Instant::now(),
            state: Mutex::new(State {
                router,
                endpoints: BTreeMap::new(),
                adapters: BTreeMap::new(),
                known: false,
            }),
            changed: Notify::new(),
            held: asks.map(|asks| Cached {
                index: Index::default(),
                asks,
            }),
            settings,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until somebody may go who could not before.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Somebody may go who could not before.
    pub(super) fn may_have_room(&self) {
        self.changed.notify_one();
    }

    /// What engines say of their caches, where they are followed.
    pub(super) fn index(&self) -> Option<&Index> {
        self.held.as_ref().map(|held| &held.index)
    }

    /// What was sent to an engine is not cached there any more, as far as is known.
    pub(super) fn forget_sent(&self, address: &str) {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut all = state.endpoints.iter();
        if let Some((number, _)) = all.find(|(_, one)| one.address == address) {
            state.router.lost(*number);
        }
    }

    /// Nothing is known of what an engine has cached.
    pub(super) fn forget(&self, address: &str) {
        if let Some(index) = self.index() {
            index.lost(address);
        }
        self.forget_sent(address);
    }

    /// Whether every endpoint of a subset has as much to do as it can. What was sent since they were looked at counts
    /// as waiting where it is `unseen` too.
    pub(super) fn is_full(&self, subset: Option<&[String]>, unseen: bool) -> bool {
        let state = self.state();
        is_full(&state.endpoints, subset, self.settings.most, unseen)
    }

    /// Who is in it now, by host and port.
    pub(super) fn set(&self, addresses: &[String]) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.known = true;
        let gone = |endpoint: &Endpoint| !addresses.contains(&endpoint.address);
        let left: Vec<u16> = state
            .endpoints
            .iter()
            .filter(|(_, endpoint)| gone(endpoint))
            .map(|(number, _)| *number)
            .collect();
        for number in left {
            state.endpoints.remove(&number);
            state.router.lost(number);
        }
        let life = self.began.elapsed().as_nanos() as u64;
        for address in addresses {
            if state.endpoints.values().any(|one| one.address == *address) {
                continue;
            }
            let free = (0..=u16::MAX).find(|number| !state.endpoints.contains_key(number));
            let Some(number) = free else { break };
            state.endpoints.insert(
                number,
                Endpoint {
                    address: address.clone(),
                    life,
                    requests: 0,
                    tokens: 0,
                    told: EngineLoad::default(),
                    away: false,
                },
            );
        }
        drop(guard);
        self.may_have_room();
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        let state = self.state();
        let all = state.endpoints.values();
        all.map(|one| one.address.clone()).collect()
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        let state = self.state();
        let shown = |one: &Endpoint| Shown {
            address: one.address.clone(),
            open: !one.away,
            requests: one.requests,
        };
        state.endpoints.values().map(shown).collect()
    }

    /// Whether it is known who is in it.
    pub(super) fn is_known(&self) -> bool {
        self.state().known
    }

    /// What an engine says of itself; `None`: it does not answer.
    pub(super) fn tell(&self, address: &str, load: Option<EngineLoad>) {
        let mut guard = self.state();
        let state = &mut *guard;
        let all = &mut state.endpoints;
        let Some((number, one)) = all.iter_mut().find(|(_, one)| one.address == address) else {
            return;
        };
        let (number, was_away) = (*number, one.away);
        one.away = load.is_none();
        one.told = load.unwrap_or_default();
        let left = one.away && !was_away;
        if left {
            // What it had cached is gone with it.
            state.router.lost(number);
        }
        drop(guard);
        if let Some(index) = self.index().filter(|_| left) {
            index.lost(address);
        }
        self.may_have_room();
    }

    /// The endpoints for a request, the first first, and what stands for it while it is under way.
    pub(super) fn pick(
        self: &Arc<Self>,
        ask: &PickAsk,
    ) -> Result<(Vec<String>, UnderWay), Refused> {
        let prompt = Prompt::of(ask.body.as_deref().unwrap_or_default());
        let mut guard = self.state();
        let state = &mut *guard;
        let candidates = candidates(&state.endpoints, ask.subset.as_deref(), self.settings.most);
        let adapter = adapter(&mut state.adapters, &prompt.model);
        let session = ask.headers.get(&self.settings.session);
        let request = prompt.request(session.map(String::as_str), adapter);
        let pieces = match &self.held {
            Some(_) => Prompt::pieces(&request),
            None => Vec::new(),
        };
        let all = &state.endpoints;
        let has = |replica: u16, sent: u64| match (self.index(), all.get(&replica)) {
            (Some(index), Some(one)) => index.has(&one.address, &pieces, &prompt.model, sent),
            _ => as_sent(replica, sent),
        };
        let routed = RoutingRequest {
            request: &request,
            time: self.began.elapsed().as_nanos() as u64,
            // No rule of a picker goes by that alone.
            hits: &|_| 0,
            has: &has,
        };
        let first = (candidates.iter().any(|one| one.open))
            .then(|| state.router.pick(&routed, &candidates))
            .flatten()
            .and_then(|place| candidates.get(place));
        let Some(first) = first else {
            return Err(why(&state.endpoints, ask.subset.as_deref()));
        };
        let mut others: Vec<&Candidate> = candidates
            .iter()
            .filter(|one| one.open && one.replica != first.replica)
            .collect();
        others.sort_by_key(|one| (one.requests, one.replica));
        let chosen = std::iter::once(first).chain(others.into_iter().take(self.settings.fallbacks));
        let endpoints = chosen
            .filter_map(|one| state.endpoints.get(&one.replica))
            .map(|one| one.address.clone())
            .collect();
        let tokens = u64::from(request.input);
        let life = match state.endpoints.get_mut(&first.replica) {
            Some(one) => {
                one.requests += 1;
                one.tokens += tokens;
                one.life
            }
            None => 0,
        };
        let address = state
            .endpoints
            .get(&first.replica)
            .map(|one| one.address.clone());
        drop(guard);
        if let (Some(held), Some(address)) = (&self.held, address) {
            held.sent(address, ask, prompt, pieces);
        }
        let under_way = UnderWay {
            pool: Arc::clone(self),
            number: first.replica,
            life,
            tokens,
            adapter,
        };
        Ok((endpoints, under_way))
    }
}

impl Cached {
    /// A prompt goes to an engine.
    fn sent(&self, address: String, ask: &PickAsk, prompt: Prompt, pieces: Vec<Piece>) {
        let is_known = !self.index.sent(&address, &pieces, &prompt.model);
        if is_known || pieces.is_empty() {
            return;
        }
        let bytes = prompt.len();
        if let Some(tokens) = &prompt.tokens {
            self.index.bind(&pieces, bytes, tokens, &prompt.model);
            return;
        }
        // Of more than can be asked about at a time it is not asked.
        let _ = self.asks.try_send(Ask {
            address,
            body: ask.body.clone().unwrap_or_default(),
            model: prompt.model,
            pieces,
            bytes,
        });
    }
}
