//! The balance, held against systems that were run item by item.

use crate::{fixture::text, planted};
use gpuwise_domain::balance::{HostSystem, HostWork, Part};
use gpuwise_read::catalogue::read_balance;
use gpuwise_size::balance::{BalanceConstants, balance};
use gpuwise_units::{Bytes, BytesPerSecond};
use std::collections::BTreeSet;

/// Systems of the half on which nothing was chosen.
const JUDGED: u64 = 2026;

/// Starved systems whose cause is named first, healthy ones of which nothing is named, and the
/// errors of how much slower the starved ones are, as shares, rising.
fn judged(seed: u64) -> (usize, usize, Vec<f64>) {
    let constants = balance_constants();
    let (mut named, mut quiet, mut errors) = (0, 0, Vec::new());
    let mut causes = BTreeSet::new();
    for planted in planted::systems::systems(seed, 20) {
        let found = balance(planted.work.clone(), planted.host.clone(), &constants);
        let cause = found.cause().map(|part| part.part);
        let right = cause == planted.cause;
        causes.extend(planted.cause);
        match planted.cause {
            Some(_) => named += usize::from(right),
            None => quiet += usize::from(right),
        }
        if !right {
            println!("{}: {:?}, said {cause:?}", planted.work.name, planted.cause);
            for part in &found.parts {
                println!(
                    "  {:?} needs {:.3e}, has {:?}: {:.2}",
                    part.part, part.needed.value, part.has, part.slower
                );
            }
        }
        if let Some(part) = found
            .cause()
            .filter(|part| right && part.slower.is_finite())
        {
            errors.push((part.slower / planted.slower - 1.0).abs());
        }
    }
    assert_eq!(causes.len(), Part::ALL.len(), "{causes:?}");
    errors.sort_by(f64::total_cmp);
    (named, quiet, errors)
}

/// What work asks of hosts.
pub(crate) fn balance_constants() -> BalanceConstants {
    let rows = read_balance("balance.toml", &text("balance.toml")).expect("constants");
    BalanceConstants::new(&rows).expect("every constant")
}

#[test]
fn what_starves_planted_systems_is_named_first_and_healthy_ones_are_left_alone() {
    for (half, seed) in [("develop", planted::DEVELOP), ("judged", JUDGED)] {
        let (named, quiet, errors) = judged(seed);
        let median = errors[errors.len() / 2];
        println!(
            "{half}: cause named first {named} of 20, healthy left alone {quiet} of 20, how much slower within {median:.2} in the median"
        );
        assert!(named >= 19 && quiet == 20, "{half}: {named}, {quiet}");
        assert!(median <= 0.10, "{half}: {errors:.2?}");
    }
}

#[test]
fn what_a_host_does_not_say_holds_nothing_up() {
    let work = HostWork {
        seconds: 1.0,
        gpus: 8,
        processes: 8,
        stored: Bytes::from_f64(40e9),
        sent: Bytes::from_f64(400e9),
        held: Bytes::from_f64(4000e9),
        ..HostWork::default()
    };
    let found = balance(work, HostSystem::default(), &balance_constants());
    assert!(found.cause().is_none());
    assert_eq!(found.unknown().count(), found.parts.len());
    assert!(found.parts.iter().all(|part| part.needed.value > 0.0));
}

#[test]
fn more_of_a_part_never_makes_work_longer() {
    let constants = balance_constants();
    let systems = planted::systems::systems(7, 8);
    for planted in &systems {
        let slower =
            |host: &HostSystem| balance(planted.work.clone(), host.clone(), &constants).slower;
        let more = |rate: Option<BytesPerSecond>| rate.map(|rate| rate * 3.0);
        let host = &planted.host;
        let before = slower(host);
        for larger in [
            HostSystem {
                cores: host.cores.map(|cores| cores * 3.0),
                ..host.clone()
            },
            HostSystem {
                memory: host.memory.map(|held| Bytes::new(held.count() * 3)),
                ..host.clone()
            },
            HostSystem {
                pcie: more(host.pcie),
                ..host.clone()
            },
            HostSystem {
                network: more(host.network),
                ..host.clone()
            },
            HostSystem {
                storage_read: more(host.storage_read),
                ..host.clone()
            },
            HostSystem {
                storage_write: more(host.storage_write),
                ..host.clone()
            },
        ] {
            assert!(slower(&larger) <= before * 1.000_001, "{larger:?}");
        }
    }
}
