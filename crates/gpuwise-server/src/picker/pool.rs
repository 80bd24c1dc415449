//! The endpoints of a pool: who is in it, what each has to do, and who gets a request, by the rules of routing that
//! `gpuwise simulate` runs.

use super::{
    exchange::{PickAsk, Refused},
    prompt::Prompt,
};
use gpuwise_sim::cluster::routers::{Candidate, Router, Routing, RoutingRequest};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Models and adapters that are told apart, at most: names come from who asks.
const ADAPTERS: usize = 1024;

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
}

#[derive(Debug)]
struct State {
    router: Router,
    /// By number; a number is given anew once who had it is gone.
    endpoints: BTreeMap<u16, Endpoint>,
    adapters: BTreeMap<String, u16>,
    /// Whether anybody ever said who is in the pool.
    known: bool,
}

#[derive(Debug)]
struct Endpoint {
    address: String,
    /// Which of all that ever had this number.
    life: u64,
    requests: u32,
    tokens: u64,
    told: EngineLoad,
    /// It does not answer.
    away: bool,
}

/// An endpoint, as figures show it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    pub(super) address: String,
    pub(super) open: bool,
    pub(super) requests: u32,
}

/// A request that is under way at an endpoint, for as long as this is there.
#[derive(Debug)]
pub(super) struct UnderWay {
    pool: Arc<Pool>,
    number: u16,
    life: u64,
    tokens: u64,
    adapter: u16,
}

impl Pool {
    pub(super) fn new(settings: PoolSettings) -> Self {
        let router = Router::new(&settings.routing, settings.seed, 0, None);
        Self {
            began: Instant::now(),
            state: Mutex::new(State {
                router,
                endpoints: BTreeMap::new(),
                adapters: BTreeMap::new(),
                known: false,
            }),
            settings,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        if one.away && !was_away {
            // What it had cached is gone with it.
            state.router.lost(number);
        }
    }

    /// The endpoints for a request, the first first, and what stands for it while it is under way.
    pub(super) fn pick(
        self: &Arc<Self>,
        ask: &PickAsk,
    ) -> Result<(Vec<String>, UnderWay), Refused> {
        let prompt = Prompt::of(ask.body.as_deref().unwrap_or_default());
        let mut guard = self.state();
        let state = &mut *guard;
        let candidates = candidates(&state.endpoints, ask, self.settings.most);
        let adapter = adapter(&mut state.adapters, &prompt.model);
        let session = ask.headers.get(&self.settings.session);
        let request = prompt.request(session.map(String::as_str), adapter);
        let routed = RoutingRequest {
            request: &request,
            time: self.began.elapsed().as_nanos() as u64,
            // Engines do not say what they have cached.
            hits: &|_| 0,
        };
        let first = (candidates.iter().any(|one| one.open))
            .then(|| state.router.pick(&routed, &candidates))
            .flatten()
            .and_then(|place| candidates.get(place));
        let Some(first) = first else {
            return Err(why(&state.endpoints, ask));
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

fn candidates(
    endpoints: &BTreeMap<u16, Endpoint>,
    ask: &PickAsk,
    most: Option<u32>,
) -> Vec<Candidate> {
    /// The share of a KV cache in use is all that engines say of it.
    const BLOCKS: u64 = 10_000;
    let allowed = |address: &String| {
        ask.subset
            .as_ref()
            .is_none_or(|only| only.contains(address))
    };
    let candidate = |(number, one): (&u16, &Endpoint)| Candidate {
        replica: *number,
        open: !one.away && allowed(&one.address) && most.is_none_or(|most| one.requests < most),
        requests: one.requests,
        tokens: one.tokens,
        waiting: one.told.waiting,
        running: one.told.running,
        queued_tokens: 0,
        kv_used: (one.told.kv_used.unwrap_or(0.0).clamp(0.0, 1.0) * BLOCKS as f64) as u64,
        kv_blocks: BLOCKS,
    };
    endpoints.iter().map(candidate).collect()
}

/// The number of a model or adapter; those beyond the last that is told apart share one.
fn adapter(known: &mut BTreeMap<String, u16>, model: &str) -> u16 {
    if let Some(number) = known.get(model) {
        return *number;
    }
    let number = known.len().min(ADAPTERS) as u16;
    if known.len() < ADAPTERS {
        known.insert(model.to_owned(), number);
    }
    number
}

fn why(endpoints: &BTreeMap<u16, Endpoint>, ask: &PickAsk) -> Refused {
    let allowed: Vec<&Endpoint> = endpoints
        .values()
        .filter(|one| {
            let only = ask.subset.as_ref();
            only.is_none_or(|only| only.contains(&one.address))
        })
        .collect();
    if allowed.iter().any(|one| !one.away) {
        let many = allowed.len();
        return Refused {
            status: 429,
            code: "busy".into(),
            detail: format!("all {many} endpoints have as many requests as they may"),
        };
    }
    let detail = match (&ask.subset, endpoints.len()) {
        (_, 0) => "there is no endpoint in the pool".to_owned(),
        (Some(only), many) if allowed.is_empty() => format!(
            "none of the {} endpoints that the gateway allows is among the {many} of the pool",
            only.len()
        ),
        _ => format!("none of {} endpoints answers", allowed.len()),
    };
    Refused {
        status: 503,
        code: "no-endpoint".into(),
        detail,
    }
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
    }
}
