//! The engine against the naive one: equal to the picosecond, event for event.

use crate::naive::{self, Record};
use gpuwise_domain::request::{Outcome, Request, Segment};
use gpuwise_sim::{
    cache::PoolSettings,
    cost::{CostSegment, Picoseconds, RequestOverhead, StepCost, StepWork},
    engine::{
        Capacity, Done, Policy, Replica, Role, Settings, SglangOrder, SglangRules, Sink,
        Speculation, StepRun, TensorRtLlmRules, VllmRules,
    },
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

/// A cost with pieces and padded batches, so that runs of steps end for all their reasons.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Jagged {
    pub(crate) pad: u32,
    pub(crate) piece: u64,
    pub(crate) step: u64,
}

impl StepCost for Jagged {
    fn decode(&mut self, sequences: u32, context: u64, replica: u64) -> CostSegment {
        let padded = u64::from(sequences.next_multiple_of(self.pad));
        let part = context / self.piece;
        CostSegment {
            base: (self.step + 7 * padded + 2 * replica).cast_signed() - (part % 5).cast_signed(),
            slope: 1 + part % 3,
            until: (part + 1) * self.piece,
        }
    }

    fn mixed(&mut self, work: &StepWork, replica: u64) -> Picoseconds {
        Picoseconds::at_least_one(
            self.step
                + 11 * u64::from(work.decodes)
                + 3 * work.context
                + 5 * u64::from(work.prefill)
                + work.prefill_context / 2
                + 13 * u64::from(work.finished)
                + 2 * replica,
        )
    }

    fn around(&self, _input: u32) -> RequestOverhead {
        RequestOverhead::default()
    }
}

/// Keeps what it hears, and checks what must always be.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    pub(crate) done: Vec<Done>,
    pub(crate) runs: Vec<StepRun>,
    pub(crate) preempted: u64,
    /// Tokens that came by a step or otherwise.
    pub(crate) gaps: u64,
    pub(crate) firsts: u64,
}

impl Sink for Witness {
    fn first_token(&mut self, _time: u64, _number: u64) {
        self.firsts += 1;
    }

    fn preempted(&mut self, _time: u64, _number: u64) {
        self.preempted += 1;
    }

    fn gaps(&mut self, _time: u64, gap: u64, tokens: u32) {
        assert!(gap > 0);
        self.gaps += u64::from(tokens);
    }

    fn steps(&mut self, run: &StepRun) {
        if let Some(last) = self.runs.last() {
            assert!(last.end() <= run.start, "{last:?} {run:?}");
        }
        self.gaps += u64::from(run.regular) + u64::from(run.decodes) * u64::from(run.steps - 1);
        self.runs.push(*run);
    }

    fn ended(&mut self, done: Done) {
        self.done.push(done);
    }
}

impl Witness {
    pub(crate) fn records(&self) -> Vec<Record> {
        let completed = |done: &&Done| done.outcome == Outcome::Completed;
        let mut records: Vec<Record> = self
            .done
            .iter()
            .filter(completed)
            .map(|done| Record {
                number: done.number,
                scheduled: done.scheduled.expect("it ran"),
                first_token: done.first_token.expect("it yielded"),
                end: done.end,
                cached: u64::from(done.cached),
                preemptions: done.preemptions,
            })
            .collect();
        records.sort();
        records
    }
}

/// What the engine makes of requests that come at given times.
pub(crate) fn serve<C: StepCost>(
    settings: &Settings,
    cost: C,
    arrivals: &[(u64, Request)],
) -> (Witness, Replica<C>) {
    let mut replica = Replica::new(settings.clone(), cost).expect("good settings");
    let mut witness = Witness::default();
    for (number, (time, request)) in (0..).zip(arrivals) {
        replica.advance(*time, &mut witness);
        if let Err(done) = replica.submit(*time, number, request.clone()) {
            witness.done.push(*done);
        }
    }
    replica.advance(u64::MAX, &mut witness);
    (witness, replica)
}

pub(crate) fn settings(policy: Policy) -> Settings {
    Settings {
        policy,
        ranks: 1,
        max_sequences: 8,
        max_batched_tokens: 64,
        max_context: 4096,
        cache: PoolSettings {
            blocks: 1000,
            block_tokens: 16,
            caching: true,
            null_block: false,
            unhashed_first: true,
        },
        overlap: false,
        ends_by_stop: false,
        speculation: None,
        role: Role::Whole,
        max_adapters: None,
        max_queued: None,
        max_queued_tokens: None,
    }
}

fn requests() -> impl Strategy<Value = Vec<(u64, Request)>> {
    let shared = prop_oneof![
        3 => Just(None),
        2 => (0..3_u64, 1..60_u32).prop_map(|(content, own)| Some((content, own))),
    ];
    let one = (
        prop_oneof![2 => 0..3_u64, 2 => 0..40_u64, 1 => 0..400_u64],
        prop_oneof![3 => 1..30_u32, 2 => 1..90_u32, 1 => 1..250_u32],
        prop_oneof![2 => 1..4_u32, 3 => 1..40_u32, 1 => 1..200_u32],
        shared,
        (0..3_i16, 0..4_u16, prop::bool::weighted(0.2)),
    );
    prop::collection::vec(one, 1..30).prop_map(|all| {
        let mut time = 0;
        let mut requests = Vec::new();
        for (gap, input, output, shared, (priority, adapter, answer)) in all {
            time += gap * 50;
            let prefix = shared.map(|(content, own)| {
                let lengths = [16, 40, 90];
                (lengths[content as usize], content, own)
            });
            requests.push((
                time,
                Request {
                    due: Nanoseconds(0),
                    input: prefix.map_or(input, |(length, _, own)| length + own),
                    output,
                    prefix: prefix
                        .map(|(tokens, content, _)| Box::from([Segment { content, tokens }])),
                    answer: answer.then_some(7),
                    priority,
                    adapter,
                    ..Request::default()
                },
            ));
        }
        requests
    })
}

fn vllm() -> impl Strategy<Value = Policy> {
    let rules = (
        prop::bool::weighted(0.8),
        prop_oneof![2 => Just(0_u32), 1 => 1..50_u32],
        prop::bool::weighted(0.4),
        any::<bool>(),
        prop_oneof![2 => Just(0.0), 1 => Just(0.1)],
    );
    rules.prop_map(
        |(chunked_prefill, long_prefill_threshold, priority, reserve_full_prompt, watermark)| {
            Policy::Vllm(VllmRules {
                chunked_prefill,
                long_prefill_threshold,
                priority,
                reserve_full_prompt,
                watermark,
            })
        },
    )
}

fn sglang() -> impl Strategy<Value = Policy> {
    let rules = (
        prop_oneof![Just(None), (16..80_u32).prop_map(Some)],
        prop::bool::weighted(0.3),
        prop_oneof![
            Just(SglangOrder::Arrival),
            (0..12_u32).prop_map(|until| SglangOrder::LongestPrefix { until })
        ],
        prop_oneof![Just(1.0), Just(0.3), Just(1.6)],
        1..60_u32,
        prop_oneof![Just(4096_u32), 1..30_u32],
        prop::bool::weighted(0.2),
    );
    rules.prop_map(
        |(chunk, mixed_chunk, order, conservativeness, ratio_steps, clip, ignore_end)| {
            Policy::Sglang(SglangRules {
                chunked_prefill: chunk,
                mixed_chunk,
                order,
                conservativeness,
                initial_ratio: 0.7,
                least_ratio: 0.14,
                ratio_steps,
                output_clip: clip,
                retract_steps: 20,
                ignore_end,
            })
        },
    )
}

fn tensorrt_llm() -> impl Strategy<Value = Policy> {
    (any::<bool>(), any::<bool>()).prop_map(|(guaranteed, chunked_context)| {
        let capacity = if guaranteed {
            Capacity::GuaranteedNoEvict
        } else {
            Capacity::MaxUtilization
        };
        Policy::TensorRtLlm(TensorRtLlmRules {
            capacity,
            chunked_context,
        })
    })
}

fn scenario(policy: impl Strategy<Value = Policy>) -> impl Strategy<Value = Settings> {
    let cache = (
        prop_oneof![3 => 60..300_u64, 1 => 450..2000_u64],
        prop_oneof![Just(1_u32), Just(4), Just(16)],
        any::<bool>(),
        any::<bool>(),
    );
    (
        policy,
        prop_oneof![1..4_u32, 1..20_u32, Just(100)],
        prop_oneof![2 => 1..12_u32, 3 => 8..100_u32, 1 => Just(1000)],
        cache,
        (any::<bool>(), any::<bool>()),
        prop::option::weighted(0.2, 1..3_u32),
    )
        .prop_map(
            |(policy, sequences, tokens, cache, (overlap, stop), adapters)| {
                let (all, block_tokens, caching, first) = cache;
                let adapters = adapters.filter(|_| matches!(policy, Policy::Vllm(_)));
                let tensorrt = matches!(policy, Policy::TensorRtLlm(_));
                let tokens = if tensorrt {
                    tokens.max(sequences)
                } else {
                    tokens
                };
                Settings {
                    max_sequences: sequences,
                    max_batched_tokens: tokens,
                    cache: PoolSettings {
                        blocks: all / u64::from(block_tokens),
                        block_tokens,
                        caching,
                        null_block: false,
                        unhashed_first: first,
                    },
                    overlap,
                    ends_by_stop: stop,
                    max_adapters: adapters,
                    ..settings(policy)
                }
            },
        )
}

fn cost() -> impl Strategy<Value = Jagged> {
    (1..8_u32, 1..3000_u64, prop_oneof![Just(50), 1..500_u64]).prop_map(|(pad, piece, step)| {
        Jagged {
            pad,
            piece,
            step: step + 10,
        }
    })
}

/// Both engines on the same requests; those that can never be served are left out.
fn compare(
    settings: &Settings,
    cost: Jagged,
    requests: &[(u64, Request)],
) -> Result<(), TestCaseError> {
    let arrivals: Vec<(u64, Request)> = {
        let (witness, _) = serve(settings, cost, requests);
        let impossible: Vec<u64> = witness
            .done
            .iter()
            .filter(|done| done.outcome == Outcome::Impossible)
            .map(|done| done.number)
            .collect();
        let possible = (0..)
            .zip(requests)
            .filter(|(number, _)| !impossible.contains(number));
        possible.map(|(_, own)| own.clone()).collect()
    };
    let (witness, replica) = serve(settings, cost, &arrivals);
    let (records, broken, greatest) = naive::run(settings, &mut cost.clone(), &arrivals);
    prop_assert_eq!(witness.records(), records);
    let failed = witness
        .done
        .iter()
        .filter(|done| done.outcome == Outcome::Failed);
    prop_assert_eq!(
        failed.map(|done| done.number).collect::<Vec<_>>(),
        broken.clone()
    );
    prop_assert_eq!(witness.preempted, greatest.preemptions);
    check(settings, &witness, &replica, &arrivals)
}

/// What must be after every run.
fn check(
    settings: &Settings,
    witness: &Witness,
    replica: &Replica<Jagged>,
    arrivals: &[(u64, Request)],
) -> Result<(), TestCaseError> {
    let load = replica.load(u64::MAX);
    prop_assert_eq!((load.waiting, load.running, load.kv_used), (0, 0, 0));
    prop_assert_eq!(load.outstanding_tokens, 0);
    prop_assert_eq!(witness.done.len(), arrivals.len());
    let mut tokens = 0;
    let mut failed = false;
    for done in &witness.done {
        let (time, request) = &arrivals[done.number as usize];
        prop_assert_eq!(done.submitted, *time);
        prop_assert!(done.scheduled >= Some(*time));
        prop_assert!(done.scheduled <= done.first_token && done.first_token <= Some(done.end));
        prop_assert_eq!(&done.request, request);
        if done.outcome == Outcome::Failed {
            failed = true;
            continue;
        }
        prop_assert_eq!(done.generated, request.output);
        tokens += u64::from(request.output);
    }
    if !failed {
        let statistics = replica.statistics();
        prop_assert_eq!(statistics.output_tokens, tokens);
        prop_assert_eq!(witness.firsts, arrivals.len() as u64);
        if settings.speculation.is_none() {
            prop_assert_eq!(witness.gaps + witness.firsts, tokens);
        }
    }
    for run in &witness.runs {
        prop_assert!(run.running <= settings.max_sequences * settings.ranks);
        prop_assert!(
            run.decodes + run.prefill <= settings.max_batched_tokens * settings.ranks
                || !matches!(settings.policy, Policy::Vllm(_))
        );
    }
    // It never idles while work waits.
    let mut last = 0;
    for run in &witness.runs {
        if run.start > last {
            let waits = witness
                .done
                .iter()
                .any(|done| done.submitted < run.start && done.end > run.start);
            prop_assert!(!waits, "idle from {} to {}", last, run.start);
        }
        last = run.end();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn vllm_is_equal_to_the_naive_engine(
        settings in scenario(vllm()),
        cost in cost(),
        requests in requests(),
    ) {
        compare(&settings, cost, &requests)?;
    }

    #[test]
    fn sglang_is_equal_to_the_naive_engine(
        settings in scenario(sglang()),
        cost in cost(),
        requests in requests(),
    ) {
        compare(&settings, cost, &requests)?;
    }

    #[test]
    fn tensorrt_llm_is_equal_to_the_naive_engine(
        settings in scenario(tensorrt_llm()),
        cost in cost(),
        requests in requests(),
    ) {
        compare(&settings, cost, &requests)?;
    }

    #[test]
    fn ranks_in_lock_are_equal_to_naive_ones(
        settings in scenario(prop_oneof![vllm(), sglang()]),
        ranks in 2..5_u32,
        cost in cost(),
        requests in requests(),
    ) {
        let settings = Settings { ranks, ..settings };
        compare(&settings, cost, &requests)?;
    }

    #[test]
    fn drafts_are_verified_as_by_the_naive_engine(
        settings in scenario(vllm()),
        (drafts, acceptance, seed) in (0..5_u32, prop_oneof![Just(0.0), Just(0.6), Just(1.0)], 0..9_u64),
        cost in cost(),
        requests in requests(),
    ) {
        let speculation = Some(Speculation { drafts, acceptance, seed });
        let settings = Settings { speculation, ..settings };
        compare(&settings, cost, &requests)?;
    }
}
