//! Replicas on machines of the kernel: fragments are no room, and what stands on a lost machine is lost with it.

use gpuwise_domain::scale::{ScaleLoss, ScaleLossOf, ScaleLossWhen, ScaleMachines};
use gpuwise_scale::step::{Lost, Machines as _, Place};
use gpuwise_sim::fleet::{KernelMachines, NoMachines};
use gpuwise_units::Nanoseconds;

const SECOND: u64 = 1_000_000_000;

const fn at(seconds: u64) -> Nanoseconds {
    Nanoseconds(seconds * SECOND)
}

fn group(pool: &str, nodes: u32, gpus: u32, rack: Option<u32>) -> ScaleMachines {
    ScaleMachines {
        pool: pool.into(),
        nodes,
        gpus,
        rack,
    }
}

fn loss(of: ScaleLossOf, pool: Option<&str>, seconds: u64) -> ScaleLoss {
    ScaleLoss {
        of,
        pool: pool.map(str::to_owned),
        when: ScaleLossWhen::At(at(seconds)),
        notice: at(30),
        outage: at(600),
    }
}

#[test]
fn a_replica_stands_on_one_node_of_its_pool() {
    let groups = [group("a", 2, 3, None), group("b", 1, 8, None)];
    let mut machines = KernelMachines::new(&groups, &[], 1).unwrap();
    assert_eq!(
        ["a", "b", "c"].map(|pool| machines.gpus(pool)),
        [Some(6), Some(8), None]
    );
    let first = machines.take(at(1), "a", 2).unwrap();
    assert!(machines.take(at(1), "a", 2).is_some());
    // A GPU is left on each of two nodes: no room for two, room for one.
    assert_eq!(machines.take(at(2), "a", 2), None);
    assert!(machines.take(at(2), "a", 1).is_some());
    machines.give(at(3), first);
    assert!(machines.take(at(3), "a", 2).is_some());
    assert_eq!(machines.take(at(4), "c", 1), None);
}

/// How many of those that stand on machines are lost when something is.
fn lost(groups: &[ScaleMachines], losses: &[ScaleLoss], replicas: &[(&str, u32)]) -> usize {
    let mut machines = KernelMachines::new(groups, losses, 1).unwrap();
    for (pool, count) in replicas {
        for _ in 0..*count {
            machines.take(at(0), pool, 1).unwrap();
        }
    }
    assert!(machines.lost(at(99)).is_empty());
    let gone: Vec<Lost> = machines.lost(at(100));
    assert!(gone.iter().all(|one| one.gone == at(130)));
    assert!(machines.lost(at(105)).is_empty());
    gone.len()
}

#[test]
fn nodes_racks_and_pools_are_lost_together() {
    let groups = [group("a", 4, 2, Some(2)), group("b", 2, 2, Some(1))];
    let full: &[(&str, u32)] = &[("a", 8), ("b", 4)];
    // Each node, rack or pool for itself, and all of them at that time.
    for of in [ScaleLossOf::Node, ScaleLossOf::Rack, ScaleLossOf::Pool] {
        assert_eq!(lost(&groups, &[loss(of, None, 100)], full), 12);
        assert_eq!(lost(&groups, &[loss(of, Some("b"), 100)], full), 4);
    }
    // By chance they are apart: a rack takes its own four, a node its own two.
    for (of, each) in [
        (ScaleLossOf::Node, 2),
        (ScaleLossOf::Rack, 4),
        (ScaleLossOf::Pool, 8),
    ] {
        let often = ScaleLoss {
            when: ScaleLossWhen::ADay(2.0),
            ..loss(of, Some("a"), 0)
        };
        let mut machines = KernelMachines::new(&groups, &[often], 7).unwrap();
        let places: Vec<Place> = (0..8)
            .filter_map(|_| machines.take(at(0), "a", 1))
            .collect();
        assert_eq!(places.len(), 8);
        let first = (0..864_000)
            .step_by(5)
            .map(|second| machines.lost(at(second)));
        let first = first.map(|lost| lost.len()).find(|count| *count > 0);
        assert_eq!(first, Some(each), "{of:?}");
    }
}

#[test]
fn what_is_lost_is_back_after_its_outage() {
    let groups = [group("a", 2, 4, None)];
    let losses = [loss(ScaleLossOf::Pool, None, 100)];
    let mut machines = KernelMachines::new(&groups, &losses, 1).unwrap();
    let place = machines.take(at(0), "a", 4).unwrap();
    assert_eq!(machines.lost(at(100)).len(), 1);
    assert_eq!(
        (machines.gpus("a"), machines.take(at(110), "a", 1)),
        (Some(0), None)
    );
    machines.give(at(130), place);
    assert!(machines.lost(at(725)).is_empty());
    assert_eq!(machines.take(at(725), "a", 1), None);
    assert!(machines.lost(at(730)).is_empty());
    assert_eq!(machines.gpus("a"), Some(8));
    assert!(machines.take(at(730), "a", 4).is_some());
}

#[test]
fn a_share_of_a_pool_is_taken_by_whole_machines() {
    let mut machines = KernelMachines::new(&[group("spot", 4, 2, None)], &[], 1).unwrap();
    for _ in 0..8 {
        machines.take(at(0), "spot", 1).unwrap();
    }
    let lost = machines.reclaim(at(10), "spot", 0.5, at(40), at(640));
    assert_eq!((lost.len(), machines.gpus("spot")), (4, Some(4)));
}

#[test]
fn losses_of_what_is_not_there_are_refused() {
    let groups = [group("a", 1, 1, None)];
    let refused = |loss| KernelMachines::new(&groups, &[loss], 1).err();
    assert_eq!(
        refused(loss(ScaleLossOf::Node, Some("b"), 1)),
        Some(NoMachines::NoPool("b".into()))
    );
    assert_eq!(
        refused(loss(ScaleLossOf::Rack, None, 1)),
        Some(NoMachines::NoRack("a".into()))
    );
}
