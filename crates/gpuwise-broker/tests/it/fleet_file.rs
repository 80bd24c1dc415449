//! Fleet files beside the fleet: what follows of them, what is refused, and what commands changed.

use crate::support::{Desk, HOUR, asked, preemptible};
use gpuwise_broker::{LeaseState, NodeSeen, Observation};
use gpuwise_domain::placement::{
    Fleet, FleetGpu, GpuId, GpuKind, Health, Home, JobId, KindId, Node, NodeId, Queue, Reservation,
};
use gpuwise_units::{HourlyPrice, Nanoseconds};
use gpuwise_wire::broker::{
    BrokerEvent, ChangeKind, FleetChange, FleetPart, NodeVerb, PriceDocument,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A node of a file: its GPUs of the first kind and of the second, and its cores.
type Said = BTreeMap<u8, (u32, u32, u64)>;

/// A file that names these nodes, its kinds in either order, at a price in dollars.
fn file(said: &Said, turned: bool, price: u32) -> Fleet {
    let mut fleet = Fleet {
        name: "test".into(),
        ..Fleet::default()
    };
    let mut kinds = vec![GpuKind::named("H100"), GpuKind::named("L40S")];
    if let Some(kind) = kinds.first_mut() {
        kind.price = Some(HourlyPrice::usd(&price.to_string()).expect("money"));
    }
    let (mut first, mut second) = (KindId(0), KindId(1));
    if turned {
        kinds.reverse();
        (first, second) = (second, first);
    }
    fleet.kinds = kinds;
    for (name, (some, others, cores)) in said {
        let id = NodeId(fleet.nodes.len() as u32);
        let kinds = (0..*some)
            .map(|_| first)
            .chain((0..*others).map(|_| second));
        let from = fleet.gpus.len() as u32;
        fleet.gpus.extend(
            (0..)
                .zip(kinds)
                .map(|(at, kind)| FleetGpu::new(kind, Home::Node(id), at)),
        );
        fleet.nodes.push(Node {
            name: format!("n{name}"),
            cpu_milli: cores * 1000,
            memory_mib: 1 << 20,
            gpus: (from..fleet.gpus.len() as u32).map(GpuId).collect(),
            ..Node::default()
        });
    }
    fleet
}

/// What the fleet has, as a file would say it.
fn there(desk: &Desk) -> Said {
    let world = desk.broker.world();
    let nodes = world.nodes().iter().filter(|state| !state.left);
    let said = nodes.map(|state| {
        let of = |name: &str| {
            let gpus = state.gpus.iter().filter_map(|id| world.gpu(*id));
            let kind = |kind| world.kind(kind).map_or("", |kind| kind.name.as_str());
            gpus.filter(|gpu| kind(gpu.gpu.kind) == name).count() as u32
        };
        let name = state.node.name.trim_start_matches('n');
        let name = name.parse().expect("a number");
        (name, (of("H100"), of("L40S"), state.node.cpu_milli / 1000))
    });
    said.collect()
}

fn taken(desk: &mut Desk, fleet: &Fleet) -> Vec<FleetChange> {
    let followed = desk.broker.fleet_file(desk.now, fleet);
    desk.happen(followed.events);
    followed.changes
}

fn refused(changes: &[FleetChange]) -> Vec<&FleetChange> {
    changes.iter().filter(|one| one.refused.is_some()).collect()
}

fn said() -> impl Strategy<Value = Said> {
    let node = (0_u32..4, 0_u32..3, prop_oneof![Just(64_u64), Just(96)]);
    proptest::collection::btree_map(0_u8..5, node, 1..5)
}

proptest! {
    /// Whatever stood in the file before and stands there now, and whoever runs: nobody is disturbed, what is not
    /// refused is so, the same file again changes nothing, and once nobody runs the fleet is as the file says.
    #[test]
    fn the_fleet_comes_to_be_as_its_file_says_and_nobody_is_disturbed(
        first in said(),
        second in said(),
        turned: bool,
        prices in (1_u32..4, 1_u32..4),
        leases in proptest::collection::vec(1_u32..3, 0..5),
    ) {
        let mut desk = Desk::on(&file(&first, false, prices.0), Desk::new(1).policy);
        desk.tenant("a", None);
        for gpus in leases {
            // One that can never start is refused.
            let _ = desk.ask("a", gpus, None);
        }
        desk.settle();
        desk.pass(60);
        let places = |desk: &Desk| -> Vec<_> {
            let open = desk.broker.leases().filter(|lease| lease.over.is_none());
            open.map(|lease| (lease.number, desk.state(lease.number), lease.place.clone())).collect()
        };
        let before = places(&desk);
        let now = file(&second, turned, prices.1);
        let changes = taken(&mut desk, &now);
        prop_assert_eq!(&before, &places(&desk));
        let held = refused(&changes);
        for one in &held {
            prop_assert_eq!(one.part, FleetPart::Node);
            let why = one.refused.as_deref().unwrap_or_default();
            prop_assert!(why.contains("L-"), "{}", why);
        }
        let mut wanted = second.clone();
        for one in &held {
            let name: u8 = one.name.trim_start_matches('n').parse().expect("a number");
            wanted.insert(name, first[&name]);
        }
        prop_assert_eq!(there(&desk), wanted);
        let price = desk.broker.price_at(desk.now, "a", "H100", false);
        prop_assert_eq!(price, Some(format!("{} USD", prices.1)));
        // Again: only what was refused is told.
        let again = desk.broker.fleet_file(desk.now, &now);
        prop_assert_eq!(&again.events, &Vec::new());
        prop_assert_eq!(refused(&again.changes), held);
        let open: Vec<u32> = before.iter().map(|(number, ..)| *number).collect();
        for number in open {
            desk.release(number);
        }
        desk.settle();
        let last = taken(&mut desk, &now);
        prop_assert!(refused(&last).is_empty(), "{last:?}");
        prop_assert_eq!(there(&desk), second);
        prop_assert_eq!(desk.broker.fleet_file(desk.now, &now), gpuwise_broker::FleetChanges::default());
    }

    /// A node takes new leases where its executor says that it is up and nobody has cordoned it, in whatever order both
    /// are told; and an image of the state says the same.
    #[test]
    fn a_cordon_and_what_an_executor_says_are_two_things(
        steps in proptest::collection::vec(0_u8..7, 1..30),
    ) {
        let mut desk = Desk::new(2);
        let (mut cordoned, mut seen) = (false, NodeSeen::Up);
        for step in steps {
            let told = match step {
                0 | 1 => Some(NodeSeen::Up),
                2 => Some(NodeSeen::Draining),
                3 => Some(NodeSeen::Silent),
                4 => Some(NodeSeen::Down),
                _ => None,
            };
            if let Some(told) = told {
                let name = "n0".to_owned();
                desk.observe(&Observation::Node { name, seen: told, by: "test".into() });
                // A node that is fenced is back when it is up again; one that is silent may only be slow.
                let stays = matches!((seen, told), (NodeSeen::Down, NodeSeen::Draining | NodeSeen::Silent));
                if !stays {
                    seen = told;
                }
            } else {
                cordoned = step == 5;
                let verb = if cordoned { NodeVerb::Cordon } else { NodeVerb::Uncordon };
                let events = desk.broker.node_told_to("n0", (verb, false), "ann");
                desk.happen(events.expect("is there"));
                if !cordoned && seen == NodeSeen::Down {
                    seen = NodeSeen::Up;
                }
            }
            let node = |broker: &gpuwise_broker::Broker| {
                broker.world().node(NodeId(0)).is_some_and(gpuwise_sched::world::NodeState::takes_work)
            };
            let takes = seen == NodeSeen::Up && !cordoned;
            prop_assert_eq!(node(&desk.broker), takes, "{:?} {}", seen, cordoned);
            let image = desk.broker.image().expect("an image");
            let again = gpuwise_broker::Broker::of_image(&image).expect("reads");
            prop_assert_eq!(&again, &desk.broker);
        }
    }
}

fn node(gpus: u32) -> (u32, u32, u64) {
    (gpus, 0, 64)
}

#[test]
fn what_commands_changed_stays_until_the_file_says_something_else() {
    let first = file(&Said::from([(1, node(2)), (2, node(2))]), false, 2);
    let mut desk = Desk::on(&first, Desk::new(1).policy);
    let left = desk.broker.remove_node("n1").expect("holds nothing");
    desk.happen(left);
    let price = PriceDocument {
        id: "mine".into(),
        gpu: "H100".into(),
        amount: "9 USD".into(),
        from_ns: desk.now.0,
        tenant: None,
        class: None,
        part: None,
        lent_milli: None,
    };
    let set = desk.broker.set_price(desk.now, price).expect("a price");
    desk.happen(set);
    let joined = file(&Said::from([(7, node(4))]), false, 2);
    let joined = desk.broker.add_nodes(desk.now, &joined).expect("joins");
    desk.happen(joined.events);
    assert_eq!(taken(&mut desk, &first), []);
    assert_eq!(there(&desk), Said::from([(2, node(2)), (7, node(4))]));
    let asks = |desk: &Desk| desk.broker.price_at(desk.now, "a", "H100", false);
    assert_eq!(asks(&desk).as_deref(), Some("9 USD"));
    // The file changes: that counts.
    desk.pass(60);
    let second = file(&Said::from([(2, node(3))]), false, 3);
    let changes = taken(&mut desk, &second);
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert_eq!(there(&desk), Said::from([(2, node(3)), (7, node(4))]));
    assert_eq!(asks(&desk).as_deref(), Some("3 USD"));
    // A node that was removed by hand is added by hand, too.
    let again = desk
        .broker
        .add_nodes(desk.now, &file(&Said::from([(1, node(2))]), false, 2));
    desk.happen(again.expect("joins").events);
    assert_eq!(there(&desk).len(), 3);
    let twice = desk
        .broker
        .add_nodes(desk.now, &file(&Said::from([(1, node(2))]), false, 2));
    assert!(twice.expect_err("is there").to_string().contains("n1"));
}

#[test]
fn what_a_file_cannot_change_is_refused_by_name() {
    let base = || file(&Said::from([(1, node(2)), (2, node(2))]), false, 2);
    let check = |change: &dyn Fn(&mut Fleet), part: FleetPart, kind: ChangeKind, hint: &str| {
        let desk = Desk::on(&base(), Desk::new(1).policy);
        let mut told = base();
        change(&mut told);
        let followed = desk.broker.fleet_file(desk.now, &told);
        let one = followed.changes.first().expect("is told");
        assert_eq!((one.part, one.change), (part, kind), "{one:?}");
        let why = one.refused.as_deref().expect("is refused");
        assert!(why.contains(hint), "{why}");
        let filed = |event: &&BrokerEvent| matches!(event, BrokerEvent::FleetFiled { .. });
        assert!(followed.events.iter().all(|one| filed(&one)), "{one:?}");
    };
    let queue = Queue {
        name: "a".into(),
        parent: None,
        quotas: Vec::new(),
        weight_milli: 1000,
        priority: 0,
        reclaims: true,
        budget: None,
        used_milli: 0,
    };
    check(
        &|told| told.queues.push(queue.clone()),
        FleetPart::Tenant,
        ChangeKind::Added,
        "tenant create a",
    );
    check(
        &|told| {
            told.reservations.push(Reservation {
                name: "r".into(),
                queue: gpuwise_domain::placement::QueueId(0),
                node: NodeId(0),
                gpus: 1,
                from: Nanoseconds(0),
                until: Nanoseconds(HOUR),
            });
        },
        FleetPart::Reservation,
        ChangeKind::Added,
        "reservation create r",
    );
    check(
        &|told| told.kinds[0].memory_mib = Some(1),
        FleetPart::Gpu,
        ChangeKind::Changed,
        "another name",
    );
    check(
        &|told| told.kinds[0].price = None,
        FleetPart::Price,
        ChangeKind::Removed,
        "prices set",
    );
    check(
        &|told| told.kinds[0].price = HourlyPrice::usd("-1").ok(),
        FleetPart::Price,
        ChangeKind::Changed,
        "",
    );
    check(
        &|told| told.name = "other".into(),
        FleetPart::Fleet,
        ChangeKind::Changed,
        "name",
    );
}

/// What follows of what has happened, until nothing does.
fn follow(desk: &mut Desk) {
    loop {
        let follows = desk.broker.follow_up(desk.now);
        if follows.is_empty() {
            return;
        }
        desk.happen(follows);
    }
}

#[test]
fn health_and_tenants_are_as_the_file_says_or_as_a_command_made_them() {
    let base = || {
        let mut told = file(&Said::from([(1, node(2))]), false, 2);
        told.queues.push(Queue {
            name: "a".into(),
            parent: None,
            quotas: Vec::new(),
            weight_milli: 1000,
            priority: 0,
            reclaims: true,
            budget: None,
            used_milli: 0,
        });
        told
    };
    let mut desk = Desk::on(&base(), Desk::new(1).policy);
    let takes = |desk: &Desk| {
        desk.broker
            .world()
            .nodes()
            .iter()
            .next()
            .expect("a node")
            .takes_work()
    };
    for (health, open) in [
        (Health::Draining, false),
        (Health::Up, true),
        (Health::Maintenance, false),
        (Health::Up, true),
    ] {
        let mut told = base();
        told.nodes[0].health = health;
        assert!(refused(&taken(&mut desk, &told)).is_empty());
        assert_eq!(takes(&desk), open, "{health:?}");
        assert_eq!(taken(&mut desk, &told), []);
    }
    // A weight that a command set is as the file says, and is no longer told.
    let mut told = base();
    told.queues[0].weight_milli = 3000;
    assert_eq!(refused(&taken(&mut desk, &told)).len(), 1);
    assert_eq!(refused(&taken(&mut desk, &told)).len(), 1);
    let set = desk
        .broker
        .change_tenant(desk.now, told.queues[0].clone(), None, false);
    desk.happen(set.expect("is set"));
    assert_eq!(taken(&mut desk, &told), []);
    // A price that a budget does not cover names the leases that end by it.
    let set = desk.broker.change_tenant(
        desk.now,
        told.queues[0].clone(),
        Some(crate::support::usd("20")),
        false,
    );
    desk.happen(set.expect("is set"));
    let lease = desk.ask("a", 1, Some(8)).expect("is asked");
    desk.settle();
    let dear = || {
        let mut told = file(&Said::from([(1, node(2))]), false, 9);
        told.queues.push(Queue {
            weight_milli: 3000,
            budget: Some(crate::support::usd("20")),
            ..base().queues[0].clone()
        });
        told
    };
    let changes = taken(&mut desk, &dear());
    let detail = changes
        .iter()
        .find_map(|one| one.detail.clone())
        .unwrap_or_default();
    assert!(
        detail.contains("2 USD → 9 USD") && detail.contains(&format!("L-{lease}")),
        "{changes:?}"
    );
}

#[test]
fn a_document_that_contradicts_itself_is_told_so() {
    let base = || file(&Said::from([(1, node(2)), (2, node(2))]), false, 2);
    assert_eq!(base().problem(), None);
    let check = |change: &dyn Fn(&mut Fleet), words: &str| {
        let mut told = base();
        change(&mut told);
        let problem = told.problem().expect("is told");
        assert!(problem.contains(words), "{problem}");
    };
    check(&|told| told.gpus[1].index = 0, "two GPUs 0");
    check(
        &|told| told.nodes[1].name = "n1".into(),
        "n1 is there twice",
    );
    check(&|told| told.nodes[1].name = String::new(), "no name");
    check(
        &|told| told.gpus[2].uid = "n1/0".into(),
        "n1/0 is there twice",
    );
    check(
        &|told| told.gpus[2].kind = KindId(9),
        "of a kind that is not there",
    );
    check(&|told| told.gpus[2].mig_on = true, "cannot be cut");
    check(&|told| told.nodes[0].gpus.push(GpuId(2)), "elsewhere");
    check(&|told| told.nodes[0].gpus.push(GpuId(99)), "not there");
    check(
        &|told| {
            told.nodes[0].gpus.pop();
        },
        "does not name it",
    );
    check(
        &|told| told.nodes[0].domain = Some(gpuwise_domain::placement::DomainId(3)),
        "domain",
    );
    check(
        &|told| told.nodes[0].pools = vec![gpuwise_domain::placement::PoolId(3)],
        "pool",
    );
    check(
        &|told| told.gpus[0].island = Some(gpuwise_domain::placement::IslandId(3)),
        "island",
    );
}

#[test]
fn a_lease_that_comes_to_a_drained_node_later_leaves_it_too() {
    let mut desk = Desk::new(3);
    desk.tenant("a", None);
    let lease = desk
        .request(preemptible(asked("a", 8, None)))
        .expect("is asked");
    desk.settle();
    desk.pass(60);
    let node = |desk: &Desk| {
        desk.broker
            .world()
            .job(JobId(lease))
            .and_then(|job| Some(job.assignments.first()?.node))
    };
    let drain = |desk: &mut Desk, node: NodeId, end: bool| {
        let name = format!("n{}", node.0);
        let told = desk
            .broker
            .node_told_to(&name, (NodeVerb::Drain, end), "ann");
        desk.happen(told.expect("is there"));
        follow(desk);
    };
    let first = node(&desk).expect("has a place");
    drain(&mut desk, first, false);
    // It has its next place before it has left the one before; that is drained now, with those that must end.
    desk.decide();
    let second = node(&desk).expect("has a place");
    assert_ne!(first, second);
    drain(&mut desk, second, true);
    for _ in 0..3 {
        desk.settle();
        follow(&mut desk);
    }
    desk.settle();
    assert_eq!(desk.state(lease), LeaseState::Active);
    let third = node(&desk).expect("has a place");
    assert!(third != first && third != second, "{third:?}");
}

#[test]
fn a_drain_moves_who_may_be_moved_and_ends_the_others_if_it_is_told_to() {
    let mut desk = Desk::new(2);
    desk.tenant("a", None);
    let stays = desk.ask("a", 2, None).expect("is asked");
    let moves = desk.request(preemptible(asked("a", 2, None)));
    let moves = moves.expect("is asked");
    desk.settle();
    let on = |desk: &Desk, number: u32| desk.broker.lease(number).expect("is there").place[0].node;
    assert_eq!((on(&desk, stays), on(&desk, moves)), (NodeId(0), NodeId(0)));
    let drain = |desk: &mut Desk, node: &str, end: bool| {
        let told = desk
            .broker
            .node_told_to(node, (NodeVerb::Drain, end), "ann");
        desk.happen(told.expect("is there"));
        follow(desk);
    };
    desk.pass(60);
    drain(&mut desk, "n0", false);
    desk.settle();
    assert_eq!((on(&desk, stays), on(&desk, moves)), (NodeId(0), NodeId(1)));
    assert_eq!(desk.state(stays), LeaseState::Active);
    let why = desk
        .broker
        .remove_node("n0")
        .expect_err("is held")
        .to_string();
    assert!(why.contains("L-1") && why.contains("drain"), "{why}");
    drain(&mut desk, "n0", true);
    desk.settle();
    assert_eq!(desk.state(stays), LeaseState::Ended);
    assert_eq!(desk.state(moves), LeaseState::Active);
    let left = desk.broker.remove_node("n0").expect("holds nothing");
    desk.happen(left);
    assert_eq!(
        desk.broker
            .world()
            .nodes()
            .iter()
            .filter(|one| !one.left)
            .count(),
        1
    );
}
