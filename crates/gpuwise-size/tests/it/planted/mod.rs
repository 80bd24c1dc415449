//! Systems with a planted cause. What is true of them is found by simulators of their own, which
//! share no function with what is judged.

pub(crate) mod cases;
mod server;
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

#[test]
fn planted_cases_cover_every_truth() {
    let offers = offers();
    let cases = cases::cases(DEVELOP, 30, &offers, true);
    for case in &cases {
        println!(
            "{:?} {} {:.1}/s {} x {} ({}): {:.2} of {:.2}",
            case.truth,
            case.model,
            case.rate,
            case.current.instances,
            case.current.instance,
            case.current.gpu,
            case.cheapest,
            case.current.cost()
        );
    }
    let gpus: std::collections::BTreeSet<&str> =
        cases.iter().map(|case| case.current.gpu).collect();
    assert!(gpus.len() >= 4, "{gpus:?}");
}

/// What one provider rents out in one region, of the catalogue.
pub(crate) fn offers() -> Vec<gpuwise_domain::offer::Offer> {
    let mut offers = crate::fixture::catalogue().offers;
    offers.retain(|offer| offer.provider == "aws" && offer.region == "us-east-1");
    offers
}
