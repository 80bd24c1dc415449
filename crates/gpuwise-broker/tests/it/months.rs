//! Prices that change, months that are made for good, tenants that change.

use crate::support::{Desk, HOUR, SECOND, START, usd};
use gpuwise_account::{period::Month, statement::Cause};
use gpuwise_broker::{LeaseState, Refusal};
use gpuwise_domain::placement::Queue;
use gpuwise_units::{Currency, Money, Nanoseconds};
use gpuwise_wire::broker::PriceDocument;

const DAY: u64 = 24 * 3600;

fn month(number: u8) -> Month {
    format!("2026-{number}").parse().expect("a month")
}

fn total(desk: &Desk, number: u8) -> i128 {
    let statement = desk.broker.statement(desk.now, "vision", month(number));
    let totals = statement.totals();
    totals.get(&Currency::USD).map_or(0, |total| total.micros)
}

fn price(amount: &str, from: u64) -> PriceDocument {
    PriceDocument {
        id: format!("H100@{from}"),
        gpu: "H100".into(),
        amount: format!("{amount} USD"),
        from_ns: from,
        tenant: None,
        class: None,
        part: None,
        lent_milli: None,
    }
}

impl Desk {
    fn price(&mut self, price: PriceDocument) {
        let set = self.broker.set_price(self.now, price).expect("is a price");
        self.happen(set);
    }

    fn change(&mut self, budget: Option<Money>, suspended: bool) -> Result<(), Refusal> {
        let queues = self.broker.world().queues();
        let queue: Queue = queues
            .iter()
            .find(|queue| queue.name == "vision")
            .expect("is there")
            .clone();
        let set = self
            .broker
            .change_tenant(self.now, queue, budget, suspended)?;
        self.happen(set);
        Ok(())
    }
}

#[test]
fn what_is_held_over_the_end_of_a_month_is_in_both_and_stays_so() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    // From 28 November on, 48 hours of it in November, and on into December.
    desk.pass(28 * DAY);
    desk.ask("vision", 4, None).expect("is admitted");
    desk.settle();
    desk.pass(2 * DAY + 36 * 3600);
    let november = 4 * 48 * 2_500_000;
    assert_eq!(
        (total(&desk, 11), total(&desk, 12)),
        (november, 4 * 36 * 2_500_000)
    );
    assert_eq!(desk.broker.unclosed(), month(11));
    // Three days of grace.
    desk.pass(DAY + 12 * 3600 - 1);
    assert_eq!(desk.broker.unclosed(), month(11));
    desk.pass(1);
    assert_eq!(desk.broker.unclosed(), month(12));
    assert_eq!(total(&desk, 11), november);
    // A price that was wrong all along: November stays, December has what it should have been.
    desk.price(price("3.00", START));
    assert_eq!(total(&desk, 11), november, "it was stated");
    let december = desk.broker.statement(desk.now, "vision", month(12));
    let corrections: i128 = december
        .lines
        .iter()
        .filter(|line| matches!(line.cause, Cause::Reversal(of) | Cause::Restated(of) if of == month(11)))
        .map(|line| i128::from(line.charge.expect("has a price").micros))
        .sum();
    assert_eq!(corrections, 4 * 48 * 500_000);
    assert_eq!(total(&desk, 12), corrections + 4 * 72 * 3_000_000);
}

/// A slip of a finger ended the leases of all that have a budget.
#[test]
fn a_price_and_a_budget_are_in_a_currency_that_there_is() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", Some("1000"));
    let lease = desk.ask("vision", 1, Some(2)).expect("is admitted");
    desk.settle();
    let now = desk.now.0;
    let of = |amount: &str| PriceDocument {
        amount: amount.into(),
        ..price("1", now)
    };
    for (amount, hint) in [
        ("2.50 USF", "the nearest is `USD`"),
        ("5 XYZ", "such as `USD`"),
        ("0.0000004 USD", "0.000001 is the least"),
    ] {
        let refused = desk.broker.set_price(desk.now, of(amount));
        let refused = refused.expect_err(amount).to_string();
        assert!(refused.contains(hint), "{amount}: {refused}");
    }
    assert_eq!(desk.state(lease), LeaseState::Active);
    let unknown = Money {
        micros: 1_000_000_000,
        currency: "USF".parse().expect("three letters"),
    };
    let refused = desk.change(Some(unknown), false).expect_err("is refused");
    assert!(refused.to_string().contains("nearest"), "{refused}");
    // A log of an earlier release may have one: it is followed.
    let set = gpuwise_wire::broker::BrokerEvent::PriceSet {
        price: of("2.50 USF"),
        reserved: Vec::new(),
    };
    desk.happen(vec![set]);
}

#[test]
fn a_price_holds_from_its_moment_on() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    desk.ask("vision", 1, None).expect("is admitted");
    desk.settle();
    desk.price(price("4.00", START + 10 * HOUR));
    desk.price(PriceDocument {
        tenant: Some("vision".into()),
        id: "agreed".into(),
        ..price("1.00", START + 20 * HOUR)
    });
    desk.pass(30 * 3600);
    assert_eq!(
        total(&desk, 11),
        10 * 2_500_000 + 10 * 4_000_000 + 10 * 1_000_000
    );
    // One between others ends where the next begins.
    desk.price(price("8.00", START + 5 * HOUR));
    assert_eq!(
        total(&desk, 11),
        5 * 2_500_000 + 5 * 8_000_000 + 10 * 4_000_000 + 10 * 1_000_000
    );
    let wrong = PriceDocument {
        gpu: "A100".into(),
        ..price("1.00", START)
    };
    let refused = desk.broker.set_price(desk.now, wrong);
    assert!(
        matches!(refused, Err(Refusal::Invalid { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_budget_holds_at_a_price_that_rises_or_the_lease_ends() {
    for (budget, wanted) in [("52.51", LeaseState::Active), ("40", LeaseState::Draining)] {
        let mut desk = Desk::new(1);
        desk.tenant("vision", Some(budget));
        let lease = desk.ask("vision", 1, Some(10)).expect("is admitted");
        desk.settle();
        desk.pass(5 * 3600);
        // Spent until now: 12.50; at 8.00 the rest may cost 40.00.
        desk.price(price("8.00", desk.now.0));
        assert_eq!(desk.state(lease), wanted, "{budget}");
        desk.settle();
        desk.pass(5 * 3600);
        desk.settle();
        let spent = total(&desk, 11);
        assert!(
            spent <= i128::from(usd(budget).micros),
            "{spent} of {budget}"
        );
    }
}

#[test]
fn a_price_that_is_announced_ends_nothing_and_refuses_nothing_that_fits() {
    // 6 hours cost 15.00; from 2027 on they would cost 300.00.
    let mut desk = Desk::new(1);
    desk.tenant("vision", Some("50"));
    let lease = desk.ask("vision", 1, Some(6)).expect("is admitted");
    desk.settle();
    desk.price(price("50.00", START + 61 * DAY * SECOND));
    desk.price(price("9.00", START + 6 * HOUR));
    assert_eq!(desk.state(lease), LeaseState::Active);
    let beside = desk.ask("vision", 1, Some(6)).expect("is admitted");
    desk.settle();
    assert_eq!(desk.state(beside), LeaseState::Active);
    let (_, reserved) = desk.broker.spending(desk.now, "vision").expect("a budget");
    assert!((30_000_000..30_000_010).contains(&reserved), "{reserved}");
    // One that reaches over the moment costs each hour at its own price: 2 at 2.50 and 1 at 9.00.
    desk.pass(4 * 3600);
    desk.settle();
    desk.ask("vision", 1, Some(3))
        .expect("14.00 are left of 50.00");
    let (_, reserved) = desk.broker.spending(desk.now, "vision").expect("a budget");
    assert!((24_000_000..24_000_010).contains(&reserved), "{reserved}");
}

#[test]
fn what_waits_until_a_price_it_cannot_pay_ends_before_it_begins() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", Some("30"));
    desk.tenant("audio", None);
    desk.price(price("8.00", START + 20 * HOUR));
    desk.ask("audio", 8, Some(30)).expect("is admitted");
    desk.settle();
    // 25.00 now; it waits for 30 hours, and would cost 80.00 then.
    let waits = desk.ask("vision", 1, Some(10)).expect("it fits now");
    let fits = desk.ask("audio", 1, Some(1)).expect("nothing bounds it");
    desk.settle();
    desk.pass(30 * 3600);
    desk.settle();
    assert_eq!(desk.state(waits), LeaseState::Ended);
    assert_eq!(desk.state(fits), LeaseState::Active);
    let over = desk
        .broker
        .lease(waits)
        .and_then(|lease| lease.over.as_ref());
    let reason = over.map(|over| over.reason.clone()).unwrap_or_default();
    assert!(reason.contains("too little left"), "{reason}");
    assert_eq!(desk.broker.spending(desk.now, "vision"), Some((0, 0)));
}

#[test]
fn a_budget_knows_what_was_spent_whatever_became_of_it_meanwhile() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let lease = desk.ask("vision", 4, Some(4)).expect("is admitted");
    desk.settle();
    desk.pass(4 * 3600);
    desk.settle();
    assert!(
        desk.broker
            .state(desk.broker.lease(lease).expect("is there"))
            .0
            .is_over()
    );
    let spent = |desk: &Desk| {
        desk.broker
            .spending(desk.now, "vision")
            .map(|(spent, _)| spent)
    };
    // One that is new in the midst of a month has what was spent before it.
    desk.change(Some(usd("100")), false).expect("is given");
    assert_eq!(spent(&desk), Some(40_000_000));
    desk.change(None, false).expect("is taken away");
    desk.change(Some(usd("100")), false)
        .expect("is given again");
    assert_eq!(spent(&desk), Some(40_000_000));
    assert!(matches!(
        desk.ask("vision", 8, Some(4)),
        Err(Refusal::Budget { .. })
    ));
    // A price that was wrong all along.
    desk.price(price("5.00", START));
    assert_eq!(spent(&desk), Some(80_000_000));
    assert_eq!(total(&desk, 11), 80_000_000);
    desk.price(price("1.00", START));
    assert_eq!(spent(&desk), Some(16_000_000));
    assert!(desk.ask("vision", 8, Some(4)).is_ok());
}

#[test]
fn costs_of_two_currencies_are_two_amounts() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    desk.ask("vision", 1, Some(4)).expect("is admitted");
    desk.settle();
    let yen = PriceDocument {
        amount: "300 JPY".into(),
        ..price("1", START + 2 * HOUR)
    };
    desk.price(yen);
    desk.pass(3 * 3600);
    let lease = desk.broker.lease(1).expect("is there");
    let costs = desk.broker.cost_of(desk.now, lease);
    let shown: Vec<String> = costs.into_iter().map(gpuwise_broker::exact).collect();
    assert_eq!(shown, ["300 JPY", "5 USD"]);
    let spent = desk.broker.spent(desk.now, "vision");
    let shown: Vec<String> = spent.into_iter().map(gpuwise_broker::exact).collect();
    assert_eq!(shown, ["300 JPY", "5 USD"]);
}

#[test]
fn a_tenant_changes_its_budget_or_is_suspended() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let lease = desk.ask("vision", 4, Some(10)).expect("is admitted");
    desk.settle();
    desk.pass(3600);
    // 10.00 are spent, and 90.00 may be: a new budget has to hold them.
    let small = desk.change(Some(usd("50")), false);
    assert!(matches!(small, Err(Refusal::Budget { .. })), "{small:?}");
    let spent = desk.change(Some(usd("95")), false);
    assert!(matches!(spent, Err(Refusal::Budget { .. })), "{spent:?}");
    desk.change(Some(usd("105")), false).expect("is enough");
    assert!(matches!(
        desk.ask("vision", 1, Some(3)),
        Err(Refusal::Budget { .. })
    ));
    desk.change(Some(usd("120")), true).expect("is changed");
    assert_eq!(
        desk.ask("vision", 1, Some(1)),
        Err(Refusal::Suspended("vision".into()))
    );
    assert_eq!(desk.state(lease), LeaseState::Active, "what runs goes on");
    let euros = Money::from_decimal("9", "EUR".parse().expect("a currency")).expect("money");
    assert!(matches!(
        desk.change(Some(euros), false),
        Err(Refusal::Invalid { .. })
    ));
    desk.change(None, false).expect("is taken away");
    desk.ask("vision", 4, None).expect("nothing bounds it");
    assert_eq!(desk.broker.spending(desk.now, "vision"), None);
}

#[test]
fn the_statement_of_a_closed_month_needs_nothing_that_goes_on() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    desk.ask("vision", 8, None).expect("is admitted");
    desk.settle();
    let mut closed = 0;
    for _ in 0..100 {
        desk.pass(DAY);
        if desk.broker.unclosed() > month(11) {
            closed += 1;
            assert_eq!(total(&desk, 11), 8 * 30 * 24 * 2_500_000);
        }
    }
    assert!(closed > 60);
    assert_eq!(Month::of(Nanoseconds(START)), month(11));
}
