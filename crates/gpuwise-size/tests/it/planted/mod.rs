//! Systems with a planted cause. What is true of them is found by simulators of their own, which
//! share no function with what is judged.

mod stations;
pub(crate) mod systems;

use gpuwise_domain::balance::Part;

/// The draws hold what they claim, so that a judge cannot pass on empty ground.
#[test]
fn planted_systems_cover_every_part() {
    let systems = systems::systems(DEVELOP, 20);
    for part in Part::ALL {
        let starved = systems.iter().filter(|planted| planted.cause == Some(part));
        println!("{}: {}", part.name(), starved.count());
    }
    let causes: std::collections::BTreeSet<Part> =
        systems.iter().filter_map(|planted| planted.cause).collect();
    assert!(causes.len() >= 7, "{causes:?}");
    assert_eq!(
        systems
            .iter()
            .filter(|planted| planted.cause.is_none())
            .count(),
        20
    );
    for planted in &systems {
        println!(
            "{:?} {:.2} {}",
            planted.cause, planted.slower, planted.work.name
        );
    }
}

/// The seed of the systems that the balance was developed on.
pub(crate) const DEVELOP: u64 = 1;
