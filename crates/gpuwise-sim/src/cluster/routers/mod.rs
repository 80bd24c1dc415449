//! Rules by which a gateway picks the replica of a request. Each is a function of the request, of what
//! the gateway sees of its replicas and of what it remembers; none knows how long an answer will be.

mod cache_aware;
mod kv_aware;
mod least_loaded;
mod memory;
mod round_robin;
mod scored;
mod session;

pub use cache_aware::CacheAware;
pub use kv_aware::KvAware;
pub use least_loaded::Measure;
pub use scored::{Scorer, Weighted};

use gpuwise_domain::request::Request;
use gpuwise_units::RandomStream;

#[derive(Debug, Clone, PartialEq)]
pub enum Routing {
    RoundRobin,
    Random,
    /// The one that has the least; equals take turns (as nginx's `least_conn` has it).
    Least(Measure),
    /// Of two that chance picks, the one that has less.
    TwoChoices(Measure),
    /// All requests of a session to the same, by a hash ring; others to the one that has the fewest
    /// requests.
    Session,
    /// SGLang's gateway: the one that has probably cached most of the prompt, unless load is uneven.
    CacheAware(CacheAware),
    /// One of those that probably cached most of the prompt, whatever their load (the `prefixaware`
    /// of vLLM's production stack).
    PrefixAware,
    /// The cheapest by what it has cached, has yet to compute, and holds (Dynamo).
    KvAware(KvAware),
    /// The highest sum of weighted scores (llm-d); chance picks among equals.
    Scored(Vec<Weighted>),
}

/// What a gateway sees of a replica, as of when it last looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Candidate {
    pub replica: u16,
    /// Whether it takes another request.
    pub open: bool,
    /// Requests sent to it that are not over.
    pub requests: u32,
    /// Prompt tokens of those.
    pub tokens: u64,
    /// Requests that wait in its engine.
    pub waiting: u32,
    /// Sequences in its engine's batch.
    pub running: u32,
    /// Prompt tokens that its engine has yet to compute.
    pub queued_tokens: u64,
    /// KV blocks in use.
    pub kv_used: u64,
    /// KV blocks in all.
    pub kv_blocks: u64,
}

/// A request that wants a replica.
#[derive(Clone, Copy)]
pub struct RoutingRequest<'a> {
    pub request: &'a Request,
    /// Nanoseconds from the start of the run.
    pub time: u64,
    /// How many of its prompt tokens a replica of this number has cached.
    pub hits: &'a dyn Fn(u16) -> u32,
    /// How many it has where so many were sent to it: [`as_sent`] for who is told nothing else.
    pub has: &'a dyn Fn(u16, u64) -> u64,
}

/// A replica has what was sent to it, as far as a gateway knows.
#[must_use]
pub const fn as_sent(_: u16, sent: u64) -> u64 {
    sent
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The counts that engines tell.
    pub load: bool,
    /// Which adapters are in use where.
    pub adapters: bool,
}

#[derive(Debug, Clone)]
pub struct Router(Rule);

#[derive(Debug, Clone)]
enum Rule {
    RoundRobin(round_robin::RoundRobin),
    Random(RandomStream),
    Least(least_loaded::Fewest),
    TwoChoices(Measure, RandomStream),
    Session(session::Ring),
    CacheAware(Box<cache_aware::Rule>),
    PrefixAware(Box<cache_aware::Blind>),
    KvAware(kv_aware::Rule),
    Scored(Box<scored::Rule>),
}

impl Router {
    /// A rule that remembers nothing yet. `adapters`: how many LoRA adapters a batch holds.
    pub fn new(routing: &Routing, seed: u64, pool: u64, adapters: Option<u32>) -> Self {
        let chance = RandomStream::new(seed, "router", pool);
        Self(match routing {
            Routing::RoundRobin => Rule::RoundRobin(round_robin::RoundRobin::default()),
            Routing::Random => Rule::Random(chance),
            Routing::Least(measure) => Rule::Least(least_loaded::Fewest::new(*measure)),
            Routing::TwoChoices(measure) => Rule::TwoChoices(*measure, chance),
            Routing::Session => Rule::Session(session::Ring::default()),
            Routing::CacheAware(settings) => {
                Rule::CacheAware(Box::new(cache_aware::Rule::new(*settings)))
            }
            Routing::PrefixAware => Rule::PrefixAware(Box::new(cache_aware::Blind::new(chance))),
            Routing::KvAware(settings) => Rule::KvAware(kv_aware::Rule::new(*settings, chance)),
            Routing::Scored(scorers) => Rule::Scored(Box::new(scored::Rule::new(
                scorers.clone(),
                chance,
                adapters,
            ))),
        })
    }

    pub fn needs(&self) -> Needs {
        match &self.0 {
            Rule::KvAware(_) => Needs {
                load: true,
                adapters: false,
            },
            Rule::Scored(rule) => rule.needs(),
            _ => Needs::default(),
        }
    }

    /// The place of the replica to send a request to, among `candidates` in the order of their
    /// numbers; none if none is open.
    pub fn pick(&mut self, ask: &RoutingRequest<'_>, candidates: &[Candidate]) -> Option<usize> {
        match &mut self.0 {
            Rule::RoundRobin(rule) => rule.pick(candidates),
            Rule::Random(chance) => any(candidates, chance, |_, one| one.open),
            Rule::Least(rule) => rule.pick(candidates),
            Rule::TwoChoices(measure, chance) => least_loaded::of_two(candidates, *measure, chance),
            Rule::Session(ring) => ring.pick(ask, candidates),
            Rule::CacheAware(rule) => rule.pick(ask, candidates),
            Rule::PrefixAware(rule) => rule.pick(ask, candidates),
            Rule::KvAware(rule) => rule.pick(ask, candidates),
            Rule::Scored(rule) => rule.pick(ask, candidates),
        }
    }

    /// A request with this adapter, which was sent to a replica, is over.
    pub fn ended(&mut self, replica: u16, adapter: u16) {
        if let Rule::Scored(rule) = &mut self.0 {
            rule.ended(replica, adapter);
        }
    }

    pub fn lost(&mut self, replica: u16) {
        match &mut self.0 {
            Rule::CacheAware(rule) => rule.lost(replica),
            Rule::PrefixAware(rule) => rule.lost(replica),
            Rule::Scored(rule) => rule.lost(replica),
            _ => {}
        }
    }
}

/// The place of any one of which `counts` is true, by chance.
fn any(
    candidates: &[Candidate],
    chance: &mut RandomStream,
    counts: impl Fn(usize, &Candidate) -> bool,
) -> Option<usize> {
    let good = || {
        candidates
            .iter()
            .enumerate()
            .filter(|(place, one)| counts(*place, one))
    };
    let nth = match good().count() {
        0 => return None,
        1 => 0,
        many => chance.below(many as u64) as usize,
    };
    good().nth(nth).map(|(place, _)| place)
}
