//! One period of a thousand services, each of which has been watched for a day.

use divan::{Bencher, bench};
use gpuwise_scale::controller::{Controller, Gpuwise, Observed, Rules};
use gpuwise_units::{Nanoseconds, RandomStream};

fn main() {
    divan::main();
}

const SERVICES: u64 = 1000;
const PERIODS_A_DAY: u64 = 5760;
const PERIOD: u64 = 15_000_000_000;

fn seen(period: u64, arrived: f64) -> Observed {
    Observed {
        now: Nanoseconds(period * PERIOD),
        arrived: Some(arrived),
        ready: 20,
        warm: 3,
        ..Observed::default()
    }
}

#[bench]
fn a_period_of_a_thousand_services(bencher: Bencher<'_, '_>) {
    let mut stream = RandomStream::new(1, "arrivals", 0);
    let mut controllers: Vec<Gpuwise> = (0..SERVICES)
        .map(|_| {
            Gpuwise::new(Rules {
                rate: 5.0,
                warm_cost: Some(0.1),
                ..Rules::default()
            })
        })
        .collect();
    for period in 1..=PERIODS_A_DAY {
        for one in &mut controllers {
            one.decide(&seen(period, 1200.0 + 600.0 * stream.uniform()));
        }
    }
    let mut period = PERIODS_A_DAY;
    bencher.bench_local(|| {
        period += 1;
        let decided = controllers.iter_mut();
        decided
            .map(|one| one.decide(&seen(period, 1500.0)).wanted.replicas)
            .max()
    });
}
