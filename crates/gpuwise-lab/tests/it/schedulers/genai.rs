//! A serving day on fewer GPUs: small days by hand, and the trace where it is there.

use gpuwise_domain::placement::{ServingDay, ServingHolder, ServingRequest};
use gpuwise_lab::schedulers::genai::{Assumptions, Day, DayRun, GenaiError, Sharing};
use gpuwise_read::fleet::{GenaiTexts, read_genai_day};
use gpuwise_units::Nanoseconds;

const SECOND: u64 = 1_000_000_000;

fn request(step_s: u32, load: u64, base: Option<u64>, run: u64) -> ServingRequest {
    ServingRequest {
        step_s,
        queue: Nanoseconds(0),
        load: Nanoseconds(load * SECOND),
        base: base.map(|base| Nanoseconds(base * SECOND)),
        run: Nanoseconds(run * SECOND),
    }
}

fn day(holders: Vec<(u32, Vec<ServingRequest>)>) -> ServingDay {
    let holders = holders.into_iter().zip(0..);
    ServingDay {
        holders: holders
            .map(|((mib, requests), number)| ServingHolder {
                number,
                requests,
                memory: vec![(0, mib)],
            })
            .collect(),
        popularity: vec![5, 3, 1],
    }
}

fn run(day: &ServingDay, sharing: Sharing, gpus: u32) -> DayRun {
    let assumptions = Assumptions::default();
    let day = Day::new(day, &assumptions, 42).unwrap();
    day.run(sharing, gpus).unwrap()
}

#[test]
fn two_who_compute_at_once_take_turns() {
    let day = day(vec![
        (20_000, vec![request(0, 0, None, 100)]),
        (20_000, vec![request(0, 0, None, 100)]),
    ]);
    let alone = run(&day, Sharing::Dedicated, 2);
    assert_eq!((alone.gpus, alone.wait_mean_s), (2, 0.0));
    let shared = run(&day, Sharing::Fixed, 1);
    // However far apart they come within a step, both are through after the work of both.
    assert_eq!(shared.gpus, 1);
    assert!((shared.span_s - 200.0).abs() < 1e-6, "{}", shared.span_s);
    assert!((shared.wait_mean_s - shared.wait_p99_s).abs() < 1e-6);
    assert!((shared.busy_percent - 100.0).abs() < 1e-6);
    assert!(!shared.same_wait);
    let apart = run(&day, Sharing::Park, 2);
    assert!(apart.wait_mean_s.abs() < 1e-9);
}

#[test]
fn who_was_reclaimed_waits_for_what_was_taken() {
    // 30 GiB twice do not fit one GPU: whoever comes takes the other's place.
    let alternating = |first: u32| {
        vec![
            request(first, 1, None, 10),
            request(first + 1000, 1, None, 10),
        ]
    };
    let mut warm = request(3000, 5, Some(4), 10);
    warm.queue = Nanoseconds(SECOND);
    let mut first = alternating(0);
    first.extend([warm, request(4000, 40, Some(36), 10)]);
    let day = day(vec![(30_000, first), (30_000, alternating(500))]);
    let parked = run(&day, Sharing::Park, 1);
    // Near loads: 4 s. Five arrivals without a change of base model: the first of each, the two after
    // that; the requests that change it load it anyway.
    assert_eq!((parked.reclaims, parked.reloads), (4, 4));
    let load = 1 + 1 + 1 + 1 + 6 + 40;
    let waited = parked.wait_mean_s * 6.0;
    assert!((waited - f64::from(load + 4 * 4)).abs() < 1e-6, "{waited}");
    let cold = run(&day, Sharing::Reclaim, 1);
    let waited = cold.wait_mean_s * 6.0;
    assert!((waited - f64::from(load + 4 * 36)).abs() < 1e-6, "{waited}");
    assert_eq!(run(&day, Sharing::Park, 1), parked);
}

#[test]
fn a_base_model_that_its_host_keeps_is_near() {
    // Both change to the one model that there is, 36 s from far.
    let asks = |at| {
        vec![
            request(at, 40, Some(36), 10),
            request(at + 2000, 40, Some(36), 10),
        ]
    };
    let near = vec![request(9000, 4, Some(4), 10)];
    let mut day = day(vec![
        (10_000, asks(0)),
        (10_000, asks(1000)),
        (10_000, near),
    ]);
    day.popularity = vec![1];
    let kept = run(&day, Sharing::KeepWarm, 1);
    assert_eq!(kept.warm_hits, 3);
    let waited = kept.wait_mean_s * 5.0;
    assert!(
        (waited - f64::from(40 * 4 + 4 - 3 * 32)).abs() < 1e-6,
        "{waited}"
    );
}

#[test]
fn days_that_cannot_be_replayed() {
    let assumptions = Assumptions::default();
    for (day, words) in [
        (ServingDay::default(), "nothing can be replayed"),
        (
            day(vec![(50_000, vec![request(0, 1, None, 1)])]),
            "more than the 49140 MiB",
        ),
    ] {
        let error = Day::new(&day, &assumptions, 1).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let whole = day(vec![(1_000, vec![request(0, 1, None, 1)])]);
    let whole = Day::new(&whole, &assumptions, 1).unwrap();
    assert_eq!(whole.run(Sharing::Slices, 1), Err(GenaiError::NoBoard));
}

fn text(name: &str) -> Option<String> {
    let path = gpuwise_needs::data(&format!("fleet/alibaba_v2026_genai/{name}"))?;
    let bytes = std::fs::read(path).expect(name);
    let plain = gpuwise_read::traffic::decompress(&bytes, 1 << 28).ok()?;
    String::from_utf8(plain.into_owned()).ok()
}

#[test]
fn the_day_of_the_trace_is_carried_by_two_fifths_of_its_gpus() {
    let names = [
        "queue_wait_ms",
        "pipeline_load_ms",
        "basemodel_load_ms",
        "pipeline_inference_ms",
        "gpu_mem_mib_5min",
        "requests",
    ];
    let texts: Vec<Option<String>> = names.iter().map(|n| text(&format!("{n}.csv.gz"))).collect();
    let [
        Some(queue),
        Some(load),
        Some(base),
        Some(run),
        Some(memory),
        Some(requests),
    ] = texts.as_slice()
    else {
        return;
    };
    let day = read_genai_day(&GenaiTexts {
        queue: (names[0], queue),
        load: (names[1], load),
        base: (names[2], base),
        run: (names[3], run),
        memory: (names[4], memory),
        requests: (names[5], requests),
    })
    .unwrap();
    let assumptions = Assumptions::default();
    let day = Day::new(&day, &assumptions, 42).unwrap();
    let was = day.dedicated();
    assert_eq!((was.gpus, was.served), (114, 32_750));
    let on = |sharing| day.run(sharing, 45).unwrap();
    let (parked, warm) = (on(Sharing::Park), on(Sharing::KeepWarm));
    assert!(warm.same_wait, "{warm:?}");
    assert_eq!((warm.served, warm.pending), (was.served, 0));
    // Without models kept warm, sharing and reclaim cost something.
    assert!(parked.wait_mean_s > was.wait_mean_s && parked.wait_mean_s < was.wait_mean_s * 1.16);
}
