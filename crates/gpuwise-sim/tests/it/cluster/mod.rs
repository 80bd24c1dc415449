//! Clusters of simulated replicas.

mod admission;
mod clients;
mod golden;
mod invariants;
mod lifecycle;
mod moves;
mod oracles;
mod routing;
mod sharing;

use gpuwise_domain::request::{Outcome, Request, RequestRecord};
use gpuwise_sim::{
    cache::PoolSettings,
    cluster::{Observer, Pool, RunStatistics, Sample, Scenario, run},
    cost::Linear,
    engine::{Policy, Role, Settings, VllmRules},
    traffic::{Pacing, Recorded, Source},
};
use gpuwise_units::Nanoseconds;

/// Picoseconds of a millisecond.
pub(super) const MILLISECOND: u64 = 1_000_000_000;
/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;

/// An engine of so many sequences and KV blocks.
pub(super) fn engine(sequences: u32, blocks: u64) -> Settings {
    Settings {
        policy: Policy::Vllm(VllmRules::default()),
        ranks: 1,
        max_sequences: sequences,
        max_batched_tokens: 2_048,
        max_context: 1 << 20,
        cache: PoolSettings {
            blocks,
            block_tokens: 16,
            caching: true,
            null_block: true,
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

/// Every step takes a millisecond.
pub(super) fn plain() -> Linear {
    Linear {
        step: MILLISECOND,
        ..Linear::default()
    }
}

/// Step times somewhat like those of a large model.
pub(super) fn real() -> Linear {
    Linear {
        step: 8 * MILLISECOND,
        sequence: MILLISECOND / 50,
        token: MILLISECOND / 200,
        context: MILLISECOND / 50_000,
    }
}

/// One sequence at a time, a millisecond a token: a server with a queue.
pub(super) fn single() -> Pool<Linear> {
    Pool::new(engine(1, 1 << 20), plain(), 1)
}

/// A request that is due at a time in microseconds.
pub(super) fn request(due: u64, input: u32, output: u32) -> Request {
    Request {
        due: Nanoseconds(due * 1_000),
        input,
        output,
        ..Request::default()
    }
}

/// Requests of a list with a pacing.
#[derive(Debug, Clone)]
pub(super) struct Paced(pub(super) Recorded, pub(super) Pacing);

impl Iterator for Paced {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.0.next()
    }
}

impl Source for Paced {
    fn pacing(&self) -> Pacing {
        self.1
    }
}

/// Keeps all records, and adds up samples.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) records: Vec<RequestRecord>,
    pub(super) samples: u64,
    pub(super) in_flight: u64,
    pub(super) held: u64,
    pub(super) waiting: u64,
    pub(super) running: u64,
}

impl Observer for Kept {
    fn record(&mut self, record: &RequestRecord) {
        self.records.push(*record);
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.samples += 1;
        self.in_flight += sample.in_flight;
        self.held += sample.held;
        for replica in sample.replicas {
            self.waiting += u64::from(replica.load.waiting);
            self.running += u64::from(replica.load.running);
        }
    }
}

/// Runs and checks what must hold in every run; records are in the order of their numbers.
pub(super) fn kept<S: Source>(scenario: &Scenario<Linear>, source: S) -> (Kept, RunStatistics) {
    let mut kept = Kept::default();
    let statistics = match run(scenario, source, &mut kept) {
        Ok(statistics) => statistics,
        Err(error) => panic!("{error}"),
    };
    kept.records.sort_by_key(|record| record.number);
    check(&kept.records, &statistics);
    (kept, statistics)
}

/// Records of requests of a list.
pub(super) fn records(scenario: &Scenario<Linear>, requests: Vec<Request>) -> Vec<RequestRecord> {
    kept(scenario, Recorded::new(requests)).0.records
}

fn check(records: &[RequestRecord], statistics: &RunStatistics) {
    assert_eq!(
        records.len() as u64,
        statistics.requests,
        "every request has a record"
    );
    for (number, record) in (0..).zip(records) {
        assert_eq!(record.number, number, "and only one");
        let mut last = record.due;
        let times = [
            Some(record.sent),
            record.scheduled,
            record.first_token,
            Some(record.end),
        ];
        for time in times.into_iter().flatten() {
            assert!(time >= last, "{record:?}");
            last = time;
        }
        if record.outcome == Outcome::Completed {
            assert!(
                record.first_token.is_some() && record.replica.is_some(),
                "{record:?}"
            );
        }
        assert!(
            record
                .cached
                .is_none_or(|cached| cached < record.input.max(1)),
            "{record:?}"
        );
    }
    for outcome in Outcome::ALL {
        let count = records
            .iter()
            .filter(|record| record.outcome == outcome)
            .count() as u64;
        assert_eq!(statistics.count(outcome), count, "{}", outcome.name());
    }
    // Little's law for the whole: ends are told in whole nanoseconds.
    let apart = statistics.residence.abs_diff(statistics.presence);
    assert!(
        apart <= 2 * u128::from(statistics.requests),
        "{statistics:?}"
    );
}

/// A hash of records that does not depend on the order in which they were told.
pub(super) fn hash(records: &[RequestRecord]) -> u64 {
    let fnv = |hash: u64, value: u64| {
        value.to_le_bytes().iter().fold(hash, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    let optional = |time: Option<Nanoseconds>| time.map_or(u64::MAX, |time| time.0);
    let one = |record: &RequestRecord| {
        [
            record.number,
            record.due.0,
            record.sent.0,
            optional(record.scheduled),
            optional(record.first_token),
            record.end.0,
            u64::from(record.input),
            u64::from(record.output),
            record.cached.map_or(u64::MAX, u64::from),
            u64::from(record.preemptions),
            u64::from(record.retries),
            u64::from(record.tenant),
            u64::from(record.stage),
            record.session.map_or(u64::MAX, u64::from),
            record.replica.map_or(u64::MAX, u64::from),
            record.outcome as u64,
        ]
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, fnv)
    };
    records.iter().map(one).fold(0, u64::wrapping_add)
}
