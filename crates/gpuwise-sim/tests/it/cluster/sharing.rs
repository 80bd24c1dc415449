//! Engines that share a GPU. A token takes a millisecond where nobody else is busy.

use super::{Kept, request, single};
use gpuwise_domain::request::Request;
use gpuwise_sim::{
    cluster::{CoLocated, Observer, Pool, Scenario, ScenarioError, Sharing, run},
    cost::Linear,
    engine::StepRun,
    traffic::Recorded,
};

fn shared(sharing: Sharing) -> Scenario<Linear> {
    let pool = |tenant| Pool {
        name: format!("model {tenant}"),
        tenants: vec![tenant],
        ..single()
    };
    let mut scenario = Scenario::new(pool(0), 1);
    scenario.pools.push(pool(1));
    scenario.together = Some(CoLocated {
        pools: vec![0, 1],
        sharing,
    });
    scenario
}

#[derive(Default)]
struct Busy(Kept, Vec<(u16, u64)>);

impl Observer for Busy {
    fn record(&mut self, record: &gpuwise_domain::request::RequestRecord) {
        self.0.record(record);
    }

    fn steps(&mut self, replica: u16, run: &StepRun) {
        self.1.push((replica, run.end() / 1_000_000_000));
    }
}

fn ends(sharing: Sharing) -> Vec<(u64, u64)> {
    let mut busy = Busy::default();
    let requests = vec![
        request(0, 1, 100),
        Request {
            tenant: 1,
            ..request(50_000, 1, 20)
        },
    ];
    assert!(run(&shared(sharing), Recorded::new(requests), &mut busy).is_ok());
    busy.0.records.sort_by_key(|record| record.number);
    let milliseconds = |time: u64| time / 1_000_000;
    for (record, replica) in busy.0.records.iter().zip(0..) {
        let last = busy
            .1
            .iter()
            .filter(|(other, _)| *other == replica)
            .map(|(_, end)| *end)
            .max();
        let end = milliseconds(record.end.0);
        assert!(
            last.is_some_and(|last| last.abs_diff(end) <= 1),
            "steps end with the request: {last:?}, {end}"
        );
    }
    busy.0
        .records
        .iter()
        .map(|record| {
            (
                milliseconds(record.first_token.map_or(0, |time| time.0)),
                milliseconds(record.end.0),
            )
        })
        .collect()
}

#[test]
fn who_shares_is_slower_while_others_are_busy() {
    for (sharing, expected, why) in [
        (Sharing::Slices, [(1, 100), (51, 70)], "slices are apart"),
        // From 50 ms on each has half of the time: 20 ms of work take 40, the rest of the other is 30.
        (Sharing::TimeSlices, [(1, 120), (52, 90)], "turns"),
        (
            Sharing::Mps {
                interference: Some(1.0),
            },
            [(1, 100), (51, 70)],
            "no interference",
        ),
        // 20 ms of work take 30, in which the other gets 20 done.
        (
            Sharing::Mps {
                interference: Some(1.5),
            },
            [(1, 110), (51, 80)],
            "interference",
        ),
    ] {
        assert_eq!(ends(sharing), expected, "{why}");
    }
}

#[test]
fn interference_is_not_guessed() {
    let error = shared(Sharing::Mps { interference: None }).check();
    assert_eq!(error, Err(ScenarioError::Interference));
    let error = shared(Sharing::Mps {
        interference: Some(0.5),
    })
    .check();
    assert_eq!(error, Err(ScenarioError::Factor { factor: 0.5 }));
    let mut scenario = shared(Sharing::Slices);
    scenario.together = Some(CoLocated {
        pools: vec![0, 0],
        sharing: Sharing::Slices,
    });
    assert_eq!(scenario.check(), Err(ScenarioError::CoLocated));
}
