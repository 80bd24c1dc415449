//! Budgets hold before money is spent.

use crate::support::{at, price, usd};
use gpuwise_account::{
    budget::{Budget, Budgets, Crossed, Expected, Refusal},
    period::{Every, Interval},
    prices::{Asked, PriceBook},
    usage::{Granted, Sharing},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::{Money, Nanoseconds};
use proptest::prelude::*;

fn monthly(amount: &str) -> Budgets {
    let mut budgets = Budgets::default();
    budgets.set(Budget {
        id: "vision-monthly".into(),
        tenant: "vision".into(),
        amount: usd(amount),
        every: Every::Month,
        soft_milli: Some(800),
        hard: true,
    });
    budgets
}

fn on(day: u64, amount: &str) -> Expected {
    Expected {
        interval: Interval::new(at(day, 0), at(day, 3600)),
        amount: usd(amount),
    }
}

#[test]
fn a_budget_for_ten_holds_ten_of_a_hundred() {
    let mut budgets = monthly("100.00");
    let taken = (0..100).filter(|n| {
        budgets
            .reserve(&format!("L-{n}"), "vision", &[on(3, "10.00")])
            .is_ok()
    });
    assert_eq!(taken.count(), 10);
    // One gives back what it does not need: there is room for one more, of that size.
    budgets.settle("L-4", "vision", &[on(3, "2.50")]);
    budgets.release("L-4");
    assert!(
        budgets
            .reserve("L-200", "vision", &[on(4, "7.500001")])
            .is_err()
    );
    assert!(budgets.reserve("L-201", "vision", &[on(4, "7.50")]).is_ok());
    let standing = budgets.standing("vision-monthly", at(5, 0)).unwrap();
    assert_eq!(
        (standing.spent, standing.reserved, standing.left),
        (usd("2.50"), usd("97.50"), usd("0"))
    );
}

#[test]
fn a_refusal_says_by_how_much() {
    let mut budgets = monthly("100.00");
    budgets.reserve("L-1", "vision", &[on(3, "60.00")]).unwrap();
    let refusal = budgets
        .reserve("L-2", "vision", &[on(4, "55.00")])
        .unwrap_err();
    let Refusal::Exceeded {
        left,
        needed,
        short,
        ..
    } = &refusal
    else {
        panic!("{refusal}");
    };
    assert_eq!((*left, *needed, *short), (usd("40"), usd("55"), usd("15")));
    // Nothing is half done: the same fits once it asks for less, in December, or without a budget.
    assert!(budgets.reserve("L-2", "vision", &[on(4, "40.00")]).is_ok());
    assert!(budgets.reserve("L-3", "vision", &[on(31, "55.00")]).is_ok());
    assert!(budgets.reserve("L-4", "speech", &[on(4, "900.00")]).is_ok());
    let again = budgets.reserve("L-3", "vision", &[on(31, "1.00")]);
    assert_eq!(again, Err(Refusal::Twice("L-3".into())));
}

#[test]
fn what_reaches_into_the_next_month_is_divided_by_time() {
    let mut budgets = monthly("100.00");
    let over = Expected {
        interval: Interval::new(at(30, 0), at(33, 0)),
        amount: usd("100.00"),
    };
    budgets.reserve("L-1", "vision", &[over]).unwrap();
    let reserved = |day| {
        budgets
            .standing("vision-monthly", at(day, 0))
            .unwrap()
            .reserved
    };
    assert_eq!(
        (reserved(30), reserved(31)),
        (usd("33.333333"), usd("66.666667"))
    );
}

#[test]
fn lines_are_told_once_when_they_are_crossed() {
    let mut budgets = monthly("100.00");
    let crossed = |warnings: Vec<gpuwise_account::budget::Warning>| -> Vec<Crossed> {
        warnings.iter().map(|warning| warning.crossed).collect()
    };
    assert_eq!(
        crossed(budgets.reserve("L-1", "vision", &[on(3, "79.99")]).unwrap()),
        []
    );
    assert_eq!(
        crossed(budgets.reserve("L-2", "vision", &[on(3, "0.01")]).unwrap()),
        [Crossed::Soft]
    );
    assert_eq!(
        crossed(budgets.settle("L-1", "vision", &[on(3, "79.99")])),
        []
    );
    // It cost more than was reserved: that counts, and is told.
    assert_eq!(
        crossed(budgets.settle("L-2", "vision", &[on(3, "20.02")])),
        [Crossed::Hard]
    );
    assert_eq!(
        budgets.standing("vision-monthly", at(3, 0)).unwrap().left,
        usd("-0.01")
    );
}

#[test]
fn other_currencies_are_refused_where_there_is_a_budget() {
    let mut budgets = monthly("100.00");
    let yen = Expected {
        amount: Money {
            micros: 1,
            currency: "JPY".parse().unwrap(),
        },
        ..on(3, "1")
    };
    let refusal = budgets.reserve("L-1", "vision", &[yen]).unwrap_err();
    assert!(matches!(refusal, Refusal::OtherCurrency { .. }));
}

#[test]
fn a_quote_is_the_worst_case() {
    let mut old = price("old", "2.00");
    old.valid.end = at(30, 1800);
    let mut new = price("new", "7.00");
    new.valid.start = at(30, 1800);
    new.granularity_ns = 3_600_000_000_000;
    let book = PriceBook::new(vec![old, new]).unwrap();
    let granted = Granted::Fraction {
        compute_milli: 333,
        memory_mib: 1,
        of_mib: 2,
    };
    let asked = Asked {
        tenant: "vision",
        kind: "H100",
        granted: &granted,
        isolation: Sharing::Mps,
        class: Terms::Spot,
    };
    // From the 30th on for 25 hours and a second, which are charged as 26.
    let end = Nanoseconds(at(31, 3601).0);
    let quoted = book.quote(&asked, Interval::new(at(30, 0), end)).unwrap();
    let amounts: Vec<_> = quoted.iter().map(|expected| expected.amount).collect();
    assert_eq!(amounts, [usd("0.333"), usd("54.7785"), usd("4.662")]);
    let before = Interval::new(Nanoseconds(0), at(1, 0));
    assert!(book.quote(&asked, before).is_ok());
    let none = PriceBook::default().quote(&asked, before);
    assert!(none.is_err());
    assert!(PriceBook::default().priced(&asked, before).is_empty());
}

#[derive(Debug, Clone)]
enum Step {
    Reserve(u8, u64),
    Settle(u8, u64),
    Release(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_u8..12, 0_u64..40_000_000).prop_map(|(id, micros)| Step::Reserve(id, micros)),
        (0_u8..12, 0_u64..40_000_000).prop_map(|(id, micros)| Step::Settle(id, micros)),
        (0_u8..12).prop_map(Step::Release),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// A plain list of what is held says the same as the sums.
    #[test]
    fn nothing_is_admitted_beyond_the_budget(steps in steps()) {
        let mut budgets = monthly("100.00");
        let (mut held, mut spent) = ([None::<u64>; 12], 0_u64);
        let of = |micros: u64| Expected {
            interval: Interval::new(at(3, 0), at(3, 60)),
            amount: Money { micros: micros.cast_signed(), currency: usd("1").currency },
        };
        for step in steps {
            match step {
                Step::Reserve(id, micros) => {
                    let outstanding: u64 = held.iter().flatten().sum();
                    let fits = spent + outstanding + micros <= 100_000_000;
                    let free = held[usize::from(id)].is_none();
                    let done = budgets.reserve(&id.to_string(), "vision", &[of(micros)]);
                    prop_assert_eq!(done.is_ok(), fits && free);
                    if done.is_ok() {
                        held[usize::from(id)] = Some(micros);
                    }
                }
                Step::Settle(id, micros) => {
                    budgets.settle(&id.to_string(), "vision", &[of(micros)]);
                    spent += micros;
                    if let Some(left) = &mut held[usize::from(id)] {
                        *left = left.saturating_sub(micros);
                    }
                }
                Step::Release(id) => {
                    budgets.release(&id.to_string());
                    held[usize::from(id)] = None;
                }
            }
            let standing = budgets.standing("vision-monthly", at(3, 0)).unwrap();
            let outstanding: u64 = held.iter().flatten().sum();
            prop_assert_eq!(standing.reserved.micros, outstanding.cast_signed());
            prop_assert_eq!(standing.spent.micros, spent.cast_signed());
        }
    }
}
