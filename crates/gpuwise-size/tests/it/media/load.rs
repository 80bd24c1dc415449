//! Waiting times against a simulation, arrival by arrival.

use gpuwise_size::media::Fleet;
use gpuwise_units::RandomStream;

type Time<'a> = &'a dyn Fn(f64) -> f64;

/// Latencies of requests, sorted, of replicas that take what waits up to a batch.
fn simulated(fleet: Fleet, seconds: &dyn Fn(f64) -> f64, requests: usize) -> Vec<f64> {
    let mut chance = RandomStream::new(7, "arrivals", 0);
    let mut now = 0.0;
    let arrivals: Vec<f64> = (0..requests)
        .map(|_| {
            now -= (1.0 - chance.uniform()).ln() / fleet.rate;
            now
        })
        .collect();
    let mut free = vec![0.0f64; fleet.replicas as usize];
    let mut latencies = Vec::new();
    let mut next = 0;
    while next < arrivals.len() {
        let replica = (0..free.len())
            .min_by(|a, b| free[*a].total_cmp(&free[*b]))
            .expect("replicas");
        let start = free[replica].max(arrivals[next]);
        let waiting = arrivals[next..]
            .iter()
            .take(fleet.most as usize)
            .take_while(|arrival| **arrival <= start)
            .count()
            .max(1);
        let end = start + seconds(waiting as f64);
        latencies.extend(arrivals[next..next + waiting].iter().map(|at| end - at));
        free[replica] = end;
        next += waiting;
    }
    // The first tenth warms up.
    latencies.drain(..requests / 10);
    latencies.sort_by(f64::total_cmp);
    latencies
}

#[test]
fn latencies_are_those_of_a_simulated_queue() {
    let image = |batch: f64| 3.8 * batch;
    let text = |batch: f64| 0.002 + 0.0008 * batch;
    let sub = |batch: f64| 0.4 + 0.2 * batch;
    // Replicas, batch, rate, and the time of a batch.
    let cases: [(u32, u32, f64, Time<'_>); 10] = [
        (9, 1, 2.0, &image),
        (1, 1, 0.13, &image),
        (12, 1, 2.0, &image),
        (1, 64, 300.0, &text),
        (1, 64, 900.0, &text),
        (2, 32, 1700.0, &text),
        (1, 8, 2.0, &sub),
        (1, 8, 3.3, &sub),
        (4, 8, 8.0, &sub),
        (6, 4, 13.0, &sub),
    ];
    for (replicas, most, rate, seconds) in cases {
        let fleet = Fleet {
            replicas,
            most,
            rate,
        };
        let served = fleet.serve(seconds).expect("borne");
        let latencies = simulated(fleet, seconds, 40_000);
        let mean = latencies.iter().sum::<f64>() / latencies.len() as f64;
        let near = |name: &str, told: f64, seen: f64, within: f64| {
            let error = told / seen - 1.0;
            assert!(
                error.abs() < within,
                "{name} of {fleet:?}: told {told:.4}, simulated {seen:.4} ({:+.0} %)",
                error * 100.0
            );
        };
        near("mean", served.mean_latency(seconds), mean, 0.20);
        for fraction in [0.5, 0.95, 0.99] {
            let seen = latencies[(latencies.len() as f64 * fraction) as usize];
            near(
                &format!("p{}", fraction * 100.0),
                served.latency(fraction, seconds),
                seen,
                0.25,
            );
        }
    }
}

#[test]
fn what_is_too_much_is_not_borne() {
    let seconds = |batch: f64| 0.5 * batch;
    for (replicas, rate) in [(1, 2.0), (1, 5.0), (3, 6.0), (0, 0.1)] {
        let fleet = Fleet {
            replicas,
            most: 4,
            rate,
        };
        assert_eq!(fleet.serve(&seconds), None, "{fleet:?}");
    }
}
