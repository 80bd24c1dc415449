//! Replicas on machines that somebody places them on.

use gpuwise_scale::{
    controller::variants::Single,
    fluid::Demand,
    peers::Static,
    step::{Fleet, Form, Lengths, Lost, Machines, Place, Tenant, run_on},
    variant::{Price, Variant},
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

/// Nodes of so many GPUs each; the first is lost at a time, for good.
struct Nodes {
    free: Vec<u32>,
    places: BTreeMap<u64, (usize, u32)>,
    lost_at: Option<Nanoseconds>,
    given: u32,
}

impl Machines for Nodes {
    fn gpus(&self, pool: &str) -> Option<u32> {
        let held = self.places.values().map(|(_, gpus)| gpus).sum::<u32>();
        (pool == "gpu").then(|| self.free.iter().sum::<u32>() + held)
    }

    fn take(&mut self, _: Nanoseconds, _: &str, gpus: u32) -> Option<Place> {
        let node = self.free.iter().position(|free| *free >= gpus)?;
        self.free[node] -= gpus;
        let place = self.places.keys().next_back().map_or(0, |last| last + 1);
        self.places.insert(place, (node, gpus));
        Some(Place(place))
    }

    fn give(&mut self, _: Nanoseconds, place: Place) {
        let (node, gpus) = self.places.remove(&place.0).expect("it was placed");
        self.free[node] += gpus;
        self.given += 1;
    }

    fn lost(&mut self, now: Nanoseconds) -> Vec<Lost> {
        if self.lost_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.lost_at = None;
        let on = self.places.iter().filter(|(_, (node, _))| *node == 0);
        on.map(|(place, _)| Lost {
            place: Place(*place),
            gone: now,
        })
        .collect()
    }

    fn reclaim(
        &mut self,
        _: Nanoseconds,
        _: &str,
        _: f64,
        _: Nanoseconds,
        _: Nanoseconds,
    ) -> Vec<Lost> {
        Vec::new()
    }
}

fn replayed(nodes: &mut Nodes, gpus: u32, wanted: u32) -> gpuwise_scale::step::StepOutcome {
    let variant = Variant {
        name: "one".into(),
        pool: "gpu".into(),
        gpus,
        rate: 5.0,
        service: 4.0,
        prices: vec![Price {
            from: Nanoseconds(0),
            per_hour: 1.0,
        }],
        start: Nanoseconds(60 * SECOND),
        wake: Nanoseconds(5 * SECOND),
        warm_cost: None,
        spot: None,
    };
    let tenant = Tenant {
        name: "service".into(),
        demand: Demand {
            period: 600.0,
            rates: vec![12.0; 6],
        },
        variants: vec![variant],
        controller: Box::new(Single(Box::new(Static(wanted)))),
        wait: 2.0,
        objective: 0.99,
        dispersion: 1.0,
        guaranteed: Vec::new(),
        budget: None,
        engines: None,
    };
    let fleet = Fleet {
        gpus: Vec::new(),
        form: Form::Requests(Lengths::Exponential),
        seed: 1,
    };
    run_on(&fleet, Some(nodes), &mut [tenant], |_| {}).remove(0)
}

#[test]
fn gpus_on_different_machines_are_no_replica() {
    // Two nodes of three GPUs are six, which is one replica of two on each, not three.
    let mut nodes = Nodes {
        free: vec![3, 3],
        places: BTreeMap::new(),
        lost_at: None,
        given: 0,
    };
    let out = replayed(&mut nodes, 2, 3);
    let hours = out.variants[0].serving;
    assert!((hours - 2.0).abs() < 1e-6, "{hours}");
    assert!(out.refused > 0);
}

#[test]
fn a_machine_that_is_lost_takes_all_that_stands_on_it() {
    let mut nodes = Nodes {
        free: vec![4, 4],
        places: BTreeMap::new(),
        lost_at: Some(Nanoseconds(1800 * SECOND)),
        given: 0,
    };
    let out = replayed(&mut nodes, 1, 4);
    // All four stand on the first; they start anew, a minute later.
    assert_eq!((out.interrupted, nodes.given), (4, 4));
    assert!(out.restarted > 5.0 && out.late >= out.restarted, "{out:?}");
    // While none serves, who comes is held.
    assert!((out.held / 12.0 - 60.0).abs() < 15.0, "{}", out.held);
}
