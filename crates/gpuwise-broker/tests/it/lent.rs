//! What sleeping spares lend, and what it earns.

use crate::{
    scaling::{comes, service},
    support::{Desk, HOUR, SECOND, START, asked, preemptible},
};
use gpuwise_account::{
    period::{Interval, Month},
    statement::Line,
};
use gpuwise_broker::Broker;
use gpuwise_domain::placement::{Event, GpuId, Health};
use gpuwise_sched::world::Tenancy;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, PriceDocument, ScalePolicy},
    live::EventDocument,
};

/// A node of eight, on which a service has one that serves and some that sleep; who is asked for next finds no more
/// free GPUs than those that are kept.
fn lender() -> (Desk, u32, u32) {
    let mut site = Desk::new(1);
    site.tenant("vision", None);
    site.tenant("batch", None);
    site.policy.disruptions.lend = true;
    let spares = ScalePolicy {
        min: Some(1),
        max: Some(6),
        rate: Some(10.0),
        start: Some("60s".into()),
        warm_cost: Some(0.1),
        ..ScalePolicy::default()
    };
    let first = service(&mut site, spares);
    for turn in 0..20 {
        comes(&mut site, first, if turn % 4 == 0 { 25.0 } else { 6.0 }, 4);
    }
    let asleep = site.broker.world().reservations().iter();
    let kept: u32 = asleep.map(|one| one.gpus).sum();
    let serve = held(&site, "vision");
    (site, first, kept - serve)
}

/// GPUs that a tenant holds.
fn held(site: &Desk, tenant: &str) -> u32 {
    let soon = Nanoseconds(site.now.0 + 1);
    let open = site.broker.open_of(tenant);
    let all: usize = open
        .map(|lease| site.broker.grants().of(lease.number, soon).len())
        .sum();
    u32::try_from(all).expect("few")
}

fn credits(site: &Desk, tenant: &str) -> Vec<Line> {
    let month = Month::of(Nanoseconds(START));
    let statement = site.broker.statement(site.now, tenant, month);
    let lines = statement.lines.into_iter();
    lines.filter(Line::is_credit).collect()
}

fn earned(site: &Desk) -> i64 {
    let lines = credits(site, "vision");
    lines
        .iter()
        .map(|line| line.charge.expect("a price").micros)
        .sum()
}

#[test]
fn a_spare_earns_half_of_what_its_borrower_pays_as_long_as_it_sleeps() {
    let (mut site, first, asleep) = lender();
    assert!(asleep >= 1, "{asleep}");
    // Free GPUs stand for what is kept: the first guest on them borrows nothing.
    let free = 8 - site.broker.open_of("vision").count();
    assert!(free >= 1, "{free}");
    for _ in 0..free {
        site.request(preemptible(asked("batch", 1, None)))
            .expect("is admitted");
    }
    site.settle();
    site.pass(600);
    assert_eq!(earned(&site), 0, "{:?}", credits(&site, "vision"));
    for _ in 0..asleep {
        site.request(preemptible(asked("batch", 1, None)))
            .expect("is admitted");
    }
    site.settle();
    let lent: Vec<_> = site.broker.lent().collect();
    assert_eq!(lent.len(), asleep as usize);
    assert!(lent.iter().all(|(_, since)| *since == site.now));
    site.pass(3600);
    // An hour of each at 2.50 USD, of which half.
    assert_eq!(earned(&site), -1_250_000 * i64::from(asleep));
    assert!(credits(&site, "batch").is_empty());
    comes(&mut site, first, 60.0, 4);
    assert_eq!(site.broker.lent().count(), 0, "all are back");
    let lines = credits(&site, "vision");
    let lent: u64 = lines
        .iter()
        .filter_map(|line| Some(line.item.as_ref()?.granted_ns))
        .sum();
    // They are woken at the first look, 15 s later.
    assert!(lent >= u64::from(asleep) * 3615 * SECOND, "{lent}");
    let before = earned(&site);
    site.pass(3600);
    assert_eq!(earned(&site), before);
}

#[test]
fn a_gpu_that_is_lost_does_not_stand_for_what_is_kept() {
    let (mut site, _, asleep) = lender();
    let world = site.broker.world();
    let mut gpus = (0..).map(GpuId).zip(world.gpus().iter());
    let free = gpus.find(|(_, state)| state.held == Tenancy::Free);
    let (gpu, _) = free.expect("one that nobody holds");
    let health = Health::Lost { xid: 79 };
    site.happen(vec![BrokerEvent::Fleet {
        event: EventDocument::of(&Event::GpuHealth { gpu, health }),
    }]);
    for _ in 0..8 {
        site.request(preemptible(asked("batch", 1, None)))
            .expect("is admitted");
    }
    site.settle();
    // No GPU is left that could be had: each that sleeps lends its own.
    assert_eq!(site.broker.lent().count(), asleep as usize);
}

#[test]
fn who_borrows_pays_as_before_and_each_gpu_is_granted_lent_or_idle() {
    let (mut site, _, asleep) = lender();
    let from = site.now;
    for _ in 0..8 {
        site.request(preemptible(asked("batch", 1, None)))
            .expect("is admitted");
    }
    site.settle();
    site.pass(7200);
    let month = Month::of(Nanoseconds(START));
    let charged = |site: &Desk, tenant| {
        let statement = site.broker.statement(site.now, tenant, month);
        let sold = statement.lines.into_iter().filter(|line| !line.is_credit());
        sold.map(|line| line.charge.expect("a price").micros)
            .sum::<i64>()
    };
    let serve = i64::from(held(&site, "vision"));
    assert_eq!(charged(&site, "batch"), (8 - serve) * 5_000_000);
    assert_eq!(earned(&site), -i64::from(asleep) * 2_500_000);
    let holding: u64 = site
        .broker
        .grants()
        .so_far(site.now)
        .map(|grant| Interval::new(grant.start.max(from), grant.end).length())
        .sum();
    assert_eq!(
        holding,
        8 * 2 * HOUR,
        "what is lent is granted once, to who has it"
    );
}

#[test]
fn the_share_is_the_prices_and_what_is_lent_goes_on_through_a_log_and_a_month() {
    let (mut site, _, asleep) = lender();
    let price = PriceDocument {
        id: "spot".into(),
        gpu: "H100".into(),
        amount: "1 USD".into(),
        from_ns: START,
        tenant: None,
        class: Some("spot".into()),
        part: None,
        lent_milli: Some(300),
    };
    let set = site.broker.set_price(site.now, price).expect("is set");
    site.happen(set);
    for _ in 0..8 {
        site.request(preemptible(asked("batch", 1, None)))
            .expect("is admitted");
    }
    site.settle();
    let since = site.now;
    site.pass(3600);
    assert_eq!(earned(&site), -300_000 * i64::from(asleep));
    // The month ends meanwhile: what was lent until then is of that month.
    let end = Month::of(Nanoseconds(START)).interval().end;
    site.pass((end.0 - site.now.0) / SECOND + 5 * 86_400);
    let hours = (end.0 - since.0) as f64 / HOUR as f64;
    let whole = -300_000.0 * f64::from(asleep) * hours;
    assert!(
        (earned(&site) as f64 - whole).abs() < 8.0,
        "{} {whole}",
        earned(&site)
    );
    let mut events = site.log.iter();
    let mut again = Broker::begin(events.next().expect("the first")).expect("begins");
    for event in events {
        again.apply(event).expect("applies");
    }
    assert_eq!(again, site.broker);
    let image = again.image().expect("bytes");
    assert_eq!(Broker::of_image(&image).expect("a state"), site.broker);
}
