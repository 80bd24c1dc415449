//! Prices that change, months that are made for good, tenants that change.

use crate::support::{Desk, HOUR, START, usd};
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
    // A price that is to come counts for whoever may wait until then.
    let mut desk = Desk::new(1);
    desk.tenant("vision", Some("30"));
    desk.price(price("8.00", START + 20 * HOUR));
    assert!(matches!(
        desk.ask("vision", 1, Some(10)),
        Err(Refusal::Budget { .. })
    ));
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
    desk.change(Some(usd("95")), false).expect("is enough");
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
