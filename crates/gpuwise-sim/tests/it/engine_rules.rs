//! The rules of each engine, worked by hand: steps of 100 picoseconds.

use crate::engine_naive::{Witness, serve, settings};
use gpuwise_domain::request::{Outcome, Request};
use gpuwise_sim::{
    cost::Linear,
    engine::{
        Capacity, Done, Policy, Replica, Role, Settings, SettingsError, SglangOrder, SglangRules,
        Sink, Speculation, TensorRtLlmRules, Ticket, VllmRules,
    },
};

const COST: Linear = Linear {
    step: 100,
    sequence: 0,
    token: 0,
    context: 0,
};

fn vllm() -> Settings {
    settings(Policy::Vllm(VllmRules::default()))
}

fn sglang() -> Settings {
    settings(Policy::Sglang(SglangRules {
        chunked_prefill: None,
        mixed_chunk: false,
        order: SglangOrder::Arrival,
        conservativeness: 1.0,
        initial_ratio: 0.7,
        least_ratio: 0.14,
        ratio_steps: 600,
        output_clip: 4096,
        retract_steps: 20,
        ignore_end: false,
    }))
}

fn tensorrt_llm(capacity: Capacity) -> Settings {
    settings(Policy::TensorRtLlm(TensorRtLlmRules {
        capacity,
        chunked_context: false,
    }))
}

/// A cache of four blocks of four tokens.
fn tight(settings: Settings) -> Settings {
    let mut tight = settings;
    tight.cache.blocks = 4;
    tight.cache.block_tokens = 4;
    tight
}

fn request(input: u32, output: u32) -> Request {
    Request {
        input,
        output,
        ..Request::default()
    }
}

/// (scheduled, first token, end, preemptions) of each request.
fn trace(settings: &Settings, arrivals: &[(u64, Request)]) -> Vec<(u64, u64, u64, u16)> {
    let (witness, replica) = serve(settings, COST, arrivals);
    assert_eq!(replica.load(u64::MAX).kv_used, 0);
    let records = witness.records();
    let row =
        |own: &crate::naive::Record| (own.scheduled, own.first_token, own.end, own.preemptions);
    records.iter().map(row).collect()
}

#[test]
fn an_arrival_joins_the_next_step_or_with_overlap_the_one_after() {
    let arrivals = [(0, request(1, 10)), (150, request(1, 1))];
    let check = |overlap, expected| {
        let settings = Settings { overlap, ..vllm() };
        assert_eq!(trace(&settings, &arrivals)[1], expected, "{overlap}");
    };
    check(false, (200, 300, 300, 0));
    // At 200 the step from 200 to 300 is planned already.
    check(true, (200, 400, 400, 0));
    // At the boundary it is still in the plan that is made there.
    let exact = [(0, request(1, 10)), (200, request(1, 1))];
    assert_eq!(trace(&vllm(), &exact)[1], (200, 300, 300, 0));
}

#[test]
fn stop_tokens_are_seen_a_step_late_and_lengths_are_not() {
    // One slot: the second request waits for the first to be seen to end.
    let arrivals = [(0, request(1, 3)), (0, request(1, 1))];
    let check = |overlap, ends_by_stop, expected: (u64, u64)| {
        let settings = Settings {
            overlap,
            ends_by_stop,
            max_sequences: 1,
            ..vllm()
        };
        let rows = trace(&settings, &arrivals);
        assert_eq!((rows[0].2, rows[1].1), expected, "{overlap} {ends_by_stop}");
    };
    check(false, false, (300, 400));
    check(false, true, (300, 400));
    // The end at 300 is known ahead, but its place is free only then: nothing is planned behind it.
    check(true, false, (300, 400));
    // A fourth step is planned and wasted.
    check(true, true, (300, 500));
}

#[test]
fn long_prompts_are_computed_in_chunks() {
    let check = |budget, threshold, prompts: &[u32], expected: &[u64]| {
        let settings = Settings {
            max_batched_tokens: budget,
            policy: Policy::Vllm(VllmRules {
                long_prefill_threshold: threshold,
                ..VllmRules::default()
            }),
            ..vllm()
        };
        let arrivals: Vec<_> = prompts
            .iter()
            .map(|input| (0, request(*input, 1)))
            .collect();
        let firsts: Vec<u64> = trace(&settings, &arrivals)
            .iter()
            .map(|row| row.1)
            .collect();
        assert_eq!(firsts, expected, "{budget} {threshold} {prompts:?}");
    };
    check(8, 0, &[20], &[300]);
    // The second begins with what the first leaves.
    check(8, 0, &[12, 12], &[200, 300]);
    // Alone, a prompt may take the whole step.
    check(100, 5, &[20], &[100]);
    check(100, 5, &[20, 20], &[400, 400]);
    check(8, 5, &[20, 4], &[400, 200]);
}

#[test]
fn a_big_head_of_the_queue_blocks_the_small_ones_behind_it() {
    // Ten tokens run and grow; of four blocks one is free when the big one comes.
    let arrivals = [
        (0, request(8, 6)),
        (10, request(12, 1)),
        (20, request(1, 1)),
    ];
    let rows = trace(&tight(vllm()), &arrivals);
    assert_eq!(rows[0], (0, 100, 600, 0));
    assert_eq!(rows[1], (600, 700, 700, 0));
    assert_eq!(rows[2].1, 700);
    // Where only the chunk counts, it joins with a chunk, and loses its place when the other grows.
    let settings = Settings {
        max_batched_tokens: 5,
        policy: Policy::Vllm(VllmRules {
            reserve_full_prompt: false,
            ..VllmRules::default()
        }),
        ..tight(vllm())
    };
    assert!(trace(&settings, &arrivals)[1].0 < 600);
}

#[test]
fn the_last_to_join_loses_its_place_and_computes_again() {
    let arrivals = [(0, request(4, 10)), (0, request(4, 10))];
    // Both take a second block in step 2; in step 6 the first needs a third, which the second gives.
    // It has 5 tokens by then, comes back when the first has ended, and yields its other 5.
    let rows = trace(&tight(vllm()), &arrivals);
    assert_eq!(rows, [(0, 100, 1000, 0), (0, 100, 1500, 1)]);
    // By priority it is the less urgent one, though it came first.
    let mut urgent = arrivals.clone();
    urgent[0].1.priority = 1;
    let settings = tight(settings(Policy::Vllm(VllmRules {
        priority: true,
        ..VllmRules::default()
    })));
    let rows = trace(&settings, &urgent);
    assert_eq!((rows[1].2, rows[1].3), (1000, 0));
    assert_eq!(rows[0].3, 1);
    // TensorRT-LLM lets the second in only when the first has ended, or pauses it.
    let rows = trace(&tight(tensorrt_llm(Capacity::GuaranteedNoEvict)), &arrivals);
    assert_eq!(rows, [(0, 100, 1000, 0), (1000, 1100, 2000, 0)]);
    let rows = trace(&tight(tensorrt_llm(Capacity::MaxUtilization)), &arrivals);
    assert_eq!((rows[0].2, rows[0].3, rows[1].3), (1000, 0, 1));
}

#[test]
fn a_watermark_keeps_blocks_free_while_something_runs() {
    let check = |watermark, expected| {
        let settings = tight(settings(Policy::Vllm(VllmRules {
            watermark,
            ..VllmRules::default()
        })));
        let arrivals = [(0, request(3, 2)), (0, request(8, 1))];
        assert_eq!(trace(&settings, &arrivals)[1].0, expected);
    };
    check(0.25, 0);
    check(0.5, 200);
}

#[test]
fn sglang_computes_prompts_before_decodes_and_stalls_them() {
    let arrivals = [
        (0, request(1, 5)),
        (150, request(1, 2)),
        (350, request(1, 1)),
    ];
    let (witness, _) = serve(&sglang(), COST, &arrivals);
    let ends: Vec<u64> = witness.records().iter().map(|own| own.end).collect();
    // Steps: prompt, decode, prompt (the first waits), decode, prompt, decode, decode.
    assert_eq!(ends, [700, 400, 500]);
    assert!(
        witness
            .runs
            .iter()
            .all(|run| run.prefill == 0 || run.decodes == 0)
    );
    // With mixed chunks nobody waits.
    let Policy::Sglang(rules) = sglang().policy else {
        unreachable!()
    };
    let mixed = settings(Policy::Sglang(SglangRules {
        mixed_chunk: true,
        ..rules
    }));
    let ends: Vec<u64> = trace(&mixed, &arrivals).iter().map(|row| row.2).collect();
    assert_eq!(ends, [500, 400, 500]);
}

#[test]
fn sglang_admits_by_a_guess_of_the_output() {
    // 16 tokens, 2 of them taken; 0.7 of the first's remaining 8 stay free: 8.4 are left.
    let check = |output, waits| {
        let mut settings = sglang();
        settings.cache.blocks = 16;
        settings.cache.block_tokens = 1;
        let arrivals = [(0, request(2, 9)), (50, request(2, output))];
        assert_eq!(trace(&settings, &arrivals)[1].0 > 100, waits, "{output}");
    };
    check(9, true);
    check(7, true);
    check(6, false);
}

#[test]
fn what_can_never_be_served_is_refused_and_so_is_what_comes_to_a_full_queue() {
    let check = |settings: &Settings, asked: Request, expected: Option<Outcome>| {
        let mut replica = Replica::new(settings.clone(), COST).expect("good settings");
        replica.submit(0, 0, request(2, 2)).expect("it fits");
        let got = replica.submit(0, 1, asked).err().map(|done| done.outcome);
        assert_eq!(got, expected);
    };
    let impossible = Some(Outcome::Impossible);
    check(&vllm(), request(4000, 97), impossible);
    check(&vllm(), request(4000, 96), None);
    // The last token is never in the cache.
    check(&tight(vllm()), request(8, 9), None);
    check(&tight(vllm()), request(8, 10), impossible);
    check(&tight(sglang()), request(8, 8), impossible);
    check(
        &tight(tensorrt_llm(Capacity::GuaranteedNoEvict)),
        request(8, 9),
        impossible,
    );
    check(
        &tensorrt_llm(Capacity::GuaranteedNoEvict),
        request(65, 1),
        impossible,
    );
    let queue = Settings {
        max_queued: Some(1),
        ..vllm()
    };
    check(&queue, request(1, 1), Some(Outcome::Rejected));
    let tokens = Settings {
        max_queued_tokens: Some(10),
        ..vllm()
    };
    check(&tokens, request(9, 1), Some(Outcome::Rejected));
    check(&tokens, request(8, 1), None);
}

#[test]
fn settings_that_no_engine_could_run_with_are_errors() {
    let check = |settings: Settings| Replica::new(settings, COST).expect_err("an error");
    let zero = Settings {
        max_sequences: 0,
        ..vllm()
    };
    assert!(matches!(check(zero), SettingsError::Zero { .. }));
    let share = settings(Policy::Vllm(VllmRules {
        watermark: 1.5,
        ..VllmRules::default()
    }));
    assert!(matches!(check(share), SettingsError::Share { .. }));
    let budget = Settings {
        max_sequences: 65,
        ..tensorrt_llm(Capacity::MaxUtilization)
    };
    assert!(matches!(check(budget), SettingsError::Budget { .. }));
    let drafts = Settings {
        speculation: Some(Speculation {
            drafts: 1,
            acceptance: 0.5,
            seed: 0,
        }),
        ..sglang()
    };
    assert!(matches!(check(drafts), SettingsError::Speculation));
}

#[test]
fn what_a_client_gives_up_leaves_at_the_next_turn() {
    for overlap in [false, true] {
        let settings = Settings {
            overlap,
            max_sequences: 1,
            ..vllm()
        };
        let mut replica = Replica::new(settings, COST).expect("good settings");
        let mut witness = Witness::default();
        let first = replica.submit(0, 0, request(10, 1000)).expect("it fits");
        let second = replica.submit(0, 1, request(10, 1000)).expect("it fits");
        let third = replica.submit(0, 2, request(10, 2)).expect("it fits");
        replica.advance(5050, &mut witness);
        let done = replica.cancel(5050, first).expect("it runs");
        assert_eq!(
            (done.outcome, done.end, done.generated),
            (Outcome::TimedOut, 5050, 50)
        );
        assert_eq!(replica.cancel(5050, first), None);
        let done = replica.cancel(5060, second).expect("it waits");
        assert_eq!((done.scheduled, done.generated), (None, 0));
        replica.advance(u64::MAX, &mut witness);
        // The third takes the place at the turn after the step that is planned.
        let record = &witness.records()[0];
        assert_eq!((record.number, record.scheduled), (2, 5100));
        assert_eq!(record.end, 5300 + 100 * u64::from(overlap));
        assert_eq!(replica.cancel(9000, third), None);
        let load = replica.load(u64::MAX);
        assert_eq!((load.kv_used, load.running, load.waiting), (0, 0, 0));
        assert_eq!(load.outstanding_tokens, 0);
    }
}

#[test]
fn an_engine_that_dies_fails_its_requests_and_forgets_its_cache() {
    let mut replica = Replica::new(
        Settings {
            max_sequences: 1,
            ..vllm()
        },
        COST,
    )
    .expect("good");
    let mut witness = Witness::default();
    for number in 0..3 {
        replica.submit(0, number, request(40, 20)).expect("it fits");
    }
    replica.advance(550, &mut witness);
    replica.fail(560, &mut witness);
    assert_eq!(witness.done.len(), 3);
    assert!(
        witness
            .done
            .iter()
            .all(|done| done.outcome == Outcome::Failed && done.end == 560)
    );
    assert_eq!(replica.load(560).kv_used, 0);
    assert_eq!(replica.next_event(&mut witness), None);
    replica.submit(1000, 9, request(40, 2)).expect("it fits");
    replica.advance(u64::MAX, &mut witness);
    assert_eq!(witness.done[3].end, 1200);
}

#[test]
fn only_so_many_adapters_are_in_a_batch_and_others_are_set_aside() {
    let with = |adapter, output| Request {
        adapter,
        ..request(1, output)
    };
    let settings = Settings {
        max_adapters: Some(1),
        ..vllm()
    };
    let arrivals = [
        (0, with(1, 3)),
        (0, with(2, 1)),
        (0, with(0, 1)),
        (0, with(1, 1)),
    ];
    let scheduled: Vec<u64> = trace(&settings, &arrivals)
        .iter()
        .map(|row| row.0)
        .collect();
    assert_eq!(scheduled, [0, 300, 0, 0]);
}

#[test]
fn drafts_that_are_right_come_together() {
    let check = |drafts, acceptance, expected| {
        let settings = Settings {
            speculation: Some(Speculation {
                drafts,
                acceptance,
                seed: 3,
            }),
            ..vllm()
        };
        assert_eq!(trace(&settings, &[(0, request(5, 9))])[0].2, expected);
    };
    check(3, 0.0, 900);
    // One, then four, then four.
    check(3, 1.0, 300);
    check(7, 1.0, 200);
    // Half of single drafts: 1 + 1.5 a step.
    let settings = Settings {
        speculation: Some(Speculation {
            drafts: 1,
            acceptance: 0.5,
            seed: 3,
        }),
        ..vllm()
    };
    let end = trace(&settings, &[(0, request(5, 3001))])[0].2 as f64;
    assert!((end / 100.0 - 2001.0).abs() < 60.0, "{end}");
}

#[test]
fn ranks_in_lock_wait_for_the_slowest_and_idle_ones_compute_for_nothing() {
    let cost = Linear { token: 10, ..COST };
    let settings = Settings { ranks: 2, ..vllm() };
    // The second request goes to the idle rank; its long prompt slows the first one's step.
    let arrivals = [(0, request(1, 5)), (150, request(50, 1))];
    let (witness, replica) = serve(&settings, cost, &arrivals);
    let records = witness.records();
    assert_eq!((records[1].scheduled, records[1].first_token), (210, 810));
    assert_eq!(records[0].end, 1010);
    // Rank 1 idles in the steps before and after.
    assert_eq!(replica.statistics().dummy_steps, 4);
}

/// Hears of blocks.
#[derive(Default)]
struct Blocks {
    taken: Vec<(u64, Ticket, u64)>,
    done: Vec<Done>,
}

impl Sink for Blocks {
    fn blocks_taken(&mut self, time: u64, ticket: Ticket, number: u64) {
        self.taken.push((time, ticket, number));
    }

    fn ended(&mut self, done: Done) {
        self.done.push(done);
    }
}

#[test]
fn a_prefill_engine_holds_blocks_until_they_are_pulled() {
    let settings = Settings {
        role: Role::Prefill,
        ..tight(vllm())
    };
    let mut replica = Replica::new(settings, COST).expect("good settings");
    let mut recorder = Blocks::default();
    replica
        .submit(0, 0, request(12, 50))
        .expect("one token is yielded here");
    replica
        .submit(0, 1, request(12, 50))
        .expect("one token is yielded here");
    replica.advance(5000, &mut recorder);
    assert_eq!(recorder.done.len(), 1);
    assert_eq!((recorder.done[0].end, recorder.done[0].generated), (100, 1));
    assert_eq!(
        (replica.load(5000).kv_used, replica.load(5000).waiting),
        (3, 1)
    );
    replica.release_remote(5000, recorder.done[0].ticket);
    replica.release_remote(5000, recorder.done[0].ticket);
    replica.advance(6000, &mut recorder);
    assert_eq!(recorder.done[1].end, 5100);
    replica.release_remote(6000, recorder.done[1].ticket);
    assert_eq!(replica.load(6000).kv_used, 0);
}

#[test]
fn a_decode_engine_takes_blocks_waits_for_the_cache_and_computes_the_last_token() {
    for overlap in [false, true] {
        let settings = Settings {
            role: Role::Decode,
            overlap,
            ..tight(vllm())
        };
        let mut replica = Replica::new(settings, COST).expect("good settings");
        let mut recorder = Blocks::default();
        replica.submit_remote(0, 7, request(8, 3)).expect("it fits");
        replica.submit_remote(0, 8, request(8, 3)).expect("it fits");
        replica.advance(1000, &mut recorder);
        // Two blocks each; none runs.
        assert_eq!(recorder.taken.len(), 2);
        assert_eq!((recorder.taken[0].0, recorder.taken[0].2), (0, 7));
        let load = replica.load(1000);
        assert_eq!((load.kv_used, load.running, load.waiting), (4, 0, 0));
        assert!(replica.cancel(1000, recorder.taken[1].1).is_some());
        assert_eq!(replica.load(1000).kv_used, 2);
        replica.remote_arrived(1000, recorder.taken[0].1);
        replica.advance(9000, &mut recorder);
        assert_eq!(recorder.done.len(), 1);
        let done = &recorder.done[0];
        assert_eq!((done.first_token, done.end), (Some(1100), 1300));
        let statistics = replica.statistics();
        assert_eq!((statistics.prompt_tokens, statistics.output_tokens), (1, 3));
        let load = replica.load(9000);
        assert_eq!((load.kv_used, load.outstanding_tokens), (0, 0));
    }
}

#[test]
fn a_wait_for_answers_is_told_with_the_load() {
    let mut replica = Replica::new(
        Settings {
            max_sequences: 1,
            ..vllm()
        },
        COST,
    )
    .expect("good");
    let mut witness = Witness::default();
    replica.submit(0, 0, request(16, 100)).expect("it fits");
    replica.submit(0, 1, request(30, 5)).expect("it fits");
    replica.advance(1050, &mut witness);
    let load = replica.load(1050);
    assert_eq!((load.running, load.waiting, load.queued_tokens), (1, 1, 30));
    // Ten of a hundred tokens are out; the second waits with 35.
    assert_eq!(load.outstanding_tokens, 90 + 35);
    // 16 tokens of prompt and 10 of output are in the cache, or will be when the step ends.
    assert_eq!(load.kv_used, 2);
}
