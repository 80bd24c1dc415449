//! An engine as one would first write it: one step after the other, one token after the other.

mod sglang;
mod tensorrt_llm;
mod vllm;

use crate::naive_pool::{NaiveHolding, NaivePool};
use gpuwise_domain::request::Request;
use gpuwise_sim::{
    cost::{StepCost, StepWork},
    engine::{Policy, Settings},
};
use gpuwise_units::RandomStream;
use std::collections::{BTreeMap, VecDeque};

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) number: u64,
    pub(crate) scheduled: u64,
    pub(crate) first_token: u64,
    pub(crate) end: u64,
    pub(crate) cached: u64,
    pub(crate) preemptions: u16,
}

#[derive(Debug, Clone)]
struct Sequence {
    number: u64,
    request: Request,
    arrival: u64,
    holding: NaiveHolding,
    /// Tokens in the cache by the end of the planned steps.
    computed: u64,
    /// Tokens yielded by the end of the planned steps.
    generated: u64,
    /// Tokens that are out.
    out: u64,
    preemptions: u16,
    /// Whether it computes a prompt, or what it lost.
    reading: bool,
    /// Drafts in flight.
    drafted: u64,
    /// Times that it joined.
    joined: u64,
    cached: Option<u64>,
    scheduled: Option<u64>,
    first_token: Option<u64>,
}

impl Sequence {
    fn tokens(&self) -> u64 {
        u64::from(self.request.input) + self.generated
    }
}

/// What a step does for a sequence.
#[derive(Debug, Clone, Copy)]
struct Share {
    number: u64,
    tokens: u64,
    before: u64,
    yields: bool,
    /// Whether it is a decode, not part of a prompt.
    decode: bool,
    /// Whether it verifies drafts, and the place in the batch that it has.
    drafts: Option<u64>,
}

type Batch = Vec<Share>;

/// One rank.
#[derive(Debug)]
struct Rank {
    settings: Settings,
    pool: NaivePool,
    total: u64,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    arrivals: u64,
    done: Vec<Record>,
    now: u64,
    greatest: Greatest,
    sglang: sglang::Memory,
    /// Requests that failed.
    broken: Vec<u64>,
    draws: BTreeMap<u64, RandomStream>,
}

/// The most that was ever in a step.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Greatest {
    pub(crate) tokens: u64,
    pub(crate) sequences: usize,
    pub(crate) preemptions: u64,
}

impl Rank {
    fn new(settings: &Settings) -> Self {
        let cache = settings.cache;
        let total = cache.blocks - u64::from(cache.null_block);
        Self {
            settings: settings.clone(),
            pool: NaivePool::new(
                total as usize,
                cache.block_tokens as usize,
                cache.caching,
                cache.unhashed_first,
            ),
            total,
            waiting: VecDeque::new(),
            running: Vec::new(),
            arrivals: 0,
            done: Vec::new(),
            now: 0,
            greatest: Greatest::default(),
            sglang: sglang::Memory::default(),
            broken: Vec::new(),
            draws: BTreeMap::new(),
        }
    }

    fn submit(&mut self, number: u64, request: Request) {
        self.arrivals += 1;
        self.waiting.push_back(Sequence {
            number,
            request,
            arrival: self.arrivals,
            holding: NaiveHolding::default(),
            computed: 0,
            generated: 0,
            out: 0,
            preemptions: 0,
            reading: true,
            drafted: 0,
            joined: 0,
            cached: None,
            scheduled: None,
            first_token: None,
        });
    }

    fn is_sglang(&self) -> bool {
        matches!(self.settings.policy, Policy::Sglang(_))
    }

    /// Whether all tokens of a sequence are known to be planned.
    fn ends(&self, sequence: &Sequence) -> bool {
        let unknown = self.settings.ends_by_stop || self.is_sglang();
        let late = self.settings.overlap && unknown;
        let wanted = u64::from(sequence.request.output);
        let known = if late {
            sequence.out
        } else {
            sequence.generated
        };
        known >= wanted
    }

    fn plan(&mut self) -> Batch {
        let batch = match self.settings.policy.clone() {
            Policy::Vllm(rules) => self.plan_vllm(&rules),
            Policy::Sglang(rules) => self.plan_sglang(&rules),
            Policy::TensorRtLlm(rules) => self.plan_tensorrt_llm(&rules),
        };
        let tokens = batch.iter().map(|share| share.tokens).sum();
        self.greatest.tokens = self.greatest.tokens.max(tokens);
        self.greatest.sequences = self.greatest.sequences.max(self.running.len());
        batch
    }

    /// Tokens come out.
    fn output(&mut self, batch: &Batch, now: u64) {
        let at_once = matches!(self.settings.policy, Policy::Vllm(_));
        for share in batch.iter().filter(|share| !share.decode && !at_once) {
            if let Some(one) = self
                .running
                .iter_mut()
                .find(|own| own.number == share.number)
                && (share.yields || matches!(self.settings.policy, Policy::Sglang(_)))
            {
                let tokens = share.before + share.tokens;
                assert!(
                    self.pool
                        .extend(&mut one.holding, &one.request, one.number, tokens)
                );
            }
        }
        for share in batch
            .iter()
            .filter(|share| share.yields || share.drafts.is_some())
        {
            let running = self
                .running
                .iter()
                .position(|own| own.number == share.number);
            let waiting = self
                .waiting
                .iter()
                .position(|own| own.number == share.number);
            let sequence = match (running, waiting) {
                (Some(at), _) => &mut self.running[at],
                (None, Some(at)) => &mut self.waiting[at],
                (None, None) => continue,
            };
            match share.drafts {
                Some(joined) => {
                    let yielded = draw(&self.settings, &mut self.draws, share);
                    let rest = u64::from(sequence.request.output) - sequence.out;
                    let yielded = yielded.min(rest);
                    sequence.generated += yielded;
                    sequence.out += yielded;
                    if running.is_some() && joined == sequence.joined {
                        sequence.computed += yielded;
                        sequence.drafted -= share.tokens;
                    }
                }
                None => sequence.out += 1,
            }
            sequence.first_token.get_or_insert(now);
            if sequence.out < u64::from(sequence.request.output) {
                continue;
            }
            if running.is_some() {
                self.sglang.left(u64::from(sequence.request.output) <= 1);
            }
            let ended = match (running, waiting) {
                (Some(at), _) => self.running.remove(at),
                (None, Some(at)) => self.waiting.remove(at).expect("found"),
                (None, None) => continue,
            };
            self.pool
                .release(ended.holding, &ended.request, ended.number, ended.computed);
            self.done.push(Record {
                number: ended.number,
                scheduled: ended.scheduled.expect("it ran"),
                first_token: ended.first_token.expect("it is out"),
                end: now,
                cached: ended.cached.expect("it ran"),
                preemptions: ended.preemptions,
            });
        }
    }
}

/// How many tokens of a share are right.
fn draw(settings: &Settings, draws: &mut BTreeMap<u64, RandomStream>, share: &Share) -> u64 {
    let own = settings.speculation.expect("drafts");
    let stream = draws
        .entry(share.number)
        .or_insert_with(|| RandomStream::new(own.seed, "drafts", share.number));
    let mut yielded = 1;
    while yielded < share.tokens && stream.uniform() < own.acceptance {
        yielded += 1;
    }
    yielded
}

fn work(batch: &Batch) -> StepWork {
    let mut work = StepWork::default();
    for share in batch {
        let context = share.tokens * share.before + share.tokens * (share.tokens + 1) / 2;
        if share.drafts.is_some() {
            // The context is read once for all tokens of a sequence.
            work.decodes += share.tokens as u32;
            work.context += share.before + share.tokens;
        } else if share.decode {
            work.decodes += 1;
            work.context += context;
        } else {
            work.prefill += share.tokens as u32;
            work.prefill_context += context;
            work.finished += u32::from(share.yields);
        }
    }
    work
}

/// Time of a rank's step while all ranks compute `tokens`.
fn time<C: StepCost>(cost: &mut C, batch: &Batch, tokens: u64) -> u64 {
    let work = work(batch);
    if work.prefill > 0 {
        cost.mixed(&work, tokens).get()
    } else {
        let context = work.context.max(1);
        let piece = cost.decode(work.decodes.max(1), context, tokens);
        piece.at(context).get()
    }
}

/// The rank that a request goes to.
fn choose(ranks: &[Rank]) -> usize {
    let score = |rank: &Rank| {
        let (waiting, running) = (rank.waiting.len() as f64, rank.running.len() as f64);
        let full = (rank.total - rank.pool.free()) as f64 / rank.total as f64;
        waiting + running + 6.0 * waiting * (full - 0.5).max(0.0)
    };
    let mut best = 0;
    for at in 1..ranks.len() {
        if score(&ranks[at]) < score(&ranks[best]) {
            best = at;
        }
    }
    best
}

/// Plans until there is something to compute, or nothing that can be.
fn plan_some(rank: &mut Rank) -> Batch {
    loop {
        let lost = rank.greatest.preemptions + rank.broken.len() as u64;
        let batch = rank.plan();
        if !batch.is_empty() || rank.greatest.preemptions + rank.broken.len() as u64 == lost {
            return batch;
        }
    }
}

/// What the naive engine makes of requests that come at given times.
pub(crate) fn run<C: StepCost>(
    settings: &Settings,
    cost: &mut C,
    arrivals: &[(u64, Request)],
) -> (Vec<Record>, Vec<u64>, Greatest) {
    let mut ranks: Vec<Rank> = (0..settings.ranks).map(|_| Rank::new(settings)).collect();
    let mut coming = (0..).zip(arrivals).peekable();
    let mut now = 0;
    let mut current: Vec<Batch> = vec![Vec::new(); ranks.len()];
    loop {
        while let Some((number, (_, request))) = coming.next_if(|(_, own)| own.0 <= now) {
            let at = choose(&ranks);
            ranks[at].submit(number, request.clone());
        }
        for rank in &mut ranks {
            rank.now = now;
        }
        if current.iter().all(Vec::is_empty) {
            current = ranks.iter_mut().map(plan_some).collect();
        }
        if current.iter().all(Vec::is_empty) {
            let Some((_, (time, _))) = coming.peek() else {
                break;
            };
            now = *time;
            continue;
        }
        let mut next = vec![Vec::new(); ranks.len()];
        if settings.overlap {
            next = ranks.iter_mut().map(Rank::plan).collect();
        }
        // Ranks that have nothing to do compute a token for nothing.
        let tokens = current
            .iter()
            .map(|batch| batch.iter().map(|share| share.tokens).sum::<u64>().max(1))
            .sum();
        now += current
            .iter()
            .map(|batch| time(cost, batch, tokens))
            .max()
            .expect("a rank");
        while let Some((number, (_, request))) = coming.next_if(|(_, own)| own.0 < now) {
            let at = choose(&ranks);
            ranks[at].submit(number, request.clone());
        }
        for (rank, batch) in ranks.iter_mut().zip(&current) {
            rank.output(batch, now);
        }
        current = next;
    }
    let (mut done, mut broken, mut greatest) = (Vec::new(), Vec::new(), Greatest::default());
    for rank in &mut ranks {
        let served = rank.waiting.is_empty() && rank.running.is_empty();
        assert!(served, "all were served");
        assert_eq!(rank.pool.free(), rank.total, "all blocks are free");
        assert_eq!(rank.pool.holders(), 0);
        done.append(&mut rank.done);
        broken.append(&mut rank.broken);
        greatest.preemptions += rank.greatest.preemptions;
        greatest.tokens = greatest.tokens.max(rank.greatest.tokens);
        greatest.sequences = greatest.sequences.max(rank.greatest.sequences);
    }
    done.sort();
    (done, broken, greatest)
}
