//! Bills over years, held against sheets that another program computed, and against laws.

use gpuwise_domain::bill::{
    Bill, CostInput, CostKey, Month, ServedUnit, SheetRow, Strategy, UnitShare,
};
use gpuwise_size::bill::{BillError, Question, bill};
use gpuwise_units::{Currency, Fraction, Money};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn fraction(text: &str) -> Fraction {
    Fraction::from_decimal(text).unwrap_or_else(|error| panic!("{error}"))
}

fn input(key: CostKey, low: &str, value: &str, high: &str) -> CostInput {
    CostInput {
        key,
        low: fraction(low),
        value: fraction(value),
        high: fraction(high),
        date: "2026-07".into(),
        source: "the test".into(),
    }
}

/// A worked sheet: its question, and what it comes to.
struct Worked {
    question: Question,
    figures: BTreeMap<String, String>,
    months: BTreeMap<String, Vec<String>>,
}

fn worked(text: &str) -> Worked {
    let mut settings: BTreeMap<String, String> = BTreeMap::new();
    let mut figures = BTreeMap::new();
    let mut months = BTreeMap::new();
    let mut inputs = Vec::new();
    for line in text.lines().skip(1) {
        let [kind, key, value] = line.splitn(3, ',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        match kind {
            "setting" => {
                settings.insert(key.into(), value.into());
            }
            "figure" => {
                figures.insert(key.into(), value.into());
            }
            "months" => {
                let cells = value.split(' ').map(str::to_owned).collect();
                months.insert(key.into(), cells);
            }
            _ => {
                let known = CostKey::ALL.into_iter().find(|known| known.name() == key);
                inputs.push(input(known.expect(key), value, value, value));
            }
        }
    }
    let number = |key: &str| settings[key].parse().expect(key);
    let question = Question {
        subject: "worked".into(),
        currency: settings["currency"].parse().expect("a currency"),
        start: Month {
            year: 2026,
            month: 12,
        },
        horizon: number("horizon"),
        hosts_now: number("hosts_now"),
        sized_with: number("hosts_now"),
        step: number("step"),
        gpus_per_host: fraction(&settings["gpus_per_host"]),
        load_unit: "units/s".into(),
        load: settings["load"].split(' ').map(fraction).collect(),
        load_source: "given".into(),
        units: vec![ServedUnit {
            name: "unit".into(),
            per_load_month: fraction(&settings["per_load_month"]),
            share: UnitShare::All,
        }],
        inputs,
        notes: Vec::new(),
    };
    Worked {
        question,
        figures,
        months,
    }
}

const WORKED: [(&str, &str); 3] = [
    ("steady", include_str!("data/tco/steady.csv")),
    ("growing", include_str!("data/tco/growing.csv")),
    ("shrinking", include_str!("data/tco/shrinking.csv")),
];

fn row<'a>(bill: &'a Bill, key: &str) -> &'a SheetRow {
    let found = bill.sheet.rows.iter().find(|row| row.key == key);
    found.unwrap_or_else(|| panic!("no line {key}"))
}

#[test]
fn worked_sheets_come_to_the_same_cent() {
    for (name, text) in WORKED {
        let sheet = worked(text);
        let bill = bill(&sheet.question).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (key, expected) in &sheet.figures {
            let decimals = expected.split_once('.').map_or(0, |(_, rest)| rest.len()) as u32;
            let ours = row(&bill, key).cells[0].value.decimal(decimals);
            assert_eq!(&ours, expected, "{name}: {key}");
        }
        for (key, expected) in &sheet.months {
            let ours = row(&bill, key);
            let decimals = if ours.decimals == 0 { 0 } else { 2 };
            let shown: Vec<String> = ours
                .cells
                .iter()
                .map(|cell| cell.value.decimal(decimals))
                .collect();
            assert_eq!(&shown, expected, "{name}: {key}");
        }
        assert!(sheet.figures.len() > 15 && sheet.months.len() > 5, "{name}");
    }
}

fn steady() -> Question {
    worked(WORKED[0].1).question
}

fn set(question: &mut Question, key: CostKey, low: &str, value: &str, high: &str) {
    question.inputs.retain(|known| known.key != key);
    question.inputs.push(input(key, low, value, high));
}

fn discounted(bill: &Bill, strategy: Strategy) -> Option<Money> {
    let found = bill.strategies.iter().find(|of| of.strategy == strategy)?;
    Some(found.outcome.as_ref().ok()?.discounted.value)
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let check = |change: &dyn Fn(&mut Question), expected: &str| {
        let mut question = steady();
        change(&mut question);
        let said = bill(&question)
            .map(|_| ())
            .map_err(|error| error.to_string());
        let said = said.expect_err(expected);
        assert!(said.contains(expected), "{said:?} has no {expected:?}");
    };
    check(&|q| q.horizon = 0, "a horizon of 0 months");
    check(&|q| q.horizon = 121, "a horizon of 121 months");
    check(&|q| q.hosts_now = 0, "no hosts");
    check(&|q| q.load = vec![Fraction::ONE; 7], "given for 7 months");
    check(&|q| q.load = vec![fraction("-1")], "negative");
    check(&|q| q.load = vec![Fraction::ZERO], "first month has none");
    let put = |key: CostKey, value: &'static str| {
        move |q: &mut Question| set(q, key, value, value, value)
    };
    check(&put(CostKey::Growth, "-0.02"), "growth is negative");
    check(&put(CostKey::Growth, "-1"), "a fall by all there is");
    check(&put(CostKey::Growth, "-3"), "a fall by all there is");
    check(&put(CostKey::Duty, "0"), "nothing would be served");
    check(&put(CostKey::Duty, "1.01"), "above 1");
    check(&put(CostKey::Pue, "0.9"), "below 1");
    check(&put(CostKey::Capital, "-1"), "negative");
    check(&put(CostKey::Life, "0"), "is 0");
    check(&put(CostKey::Life, "2.55"), "whole number of months");
    check(&put(CostKey::Growth, "1000"), "too large");
    check(
        &|q| set(q, CostKey::Pue, "1.4", "1.3", "1.5"),
        "between its lower and its upper end",
    );
}

#[test]
fn what_is_missing_leaves_the_others() {
    let mut question = steady();
    question
        .inputs
        .retain(|input| input.key != CostKey::Capital && input.key != CostKey::Spot);
    let bill = bill(&question).expect("a bill");
    for known in &bill.strategies {
        let expected = match known.strategy {
            Strategy::Spot => Some("--set spot="),
            strategy if strategy.buys() => Some("--set capital="),
            _ => None,
        };
        match (&known.outcome, expected) {
            (Ok(_), None) => {}
            (Err(why), Some(part)) => assert!(why.contains(part), "{why}"),
            (outcome, _) => panic!("{:?}: {outcome:?}", known.strategy),
        }
    }
    assert!(bill.break_even.is_none() && bill.owned_gpu_hour.is_none());
    assert!(bill.owning_less_renting.is_none());
}

#[test]
fn a_range_holds_its_figure_and_the_widest_input_comes_first() {
    let mut question = steady();
    set(
        &mut question,
        CostKey::Capital,
        "200000",
        "310000",
        "400000",
    );
    set(&mut question, CostKey::Energy, "0.08", "0.0824", "0.09");
    question
        .inputs
        .retain(|input| input.key != CostKey::Reserved && input.key != CostKey::Spot);
    let bill = bill(&question).expect("a bill");
    assert_eq!(bill.cheapest.map(Strategy::buys), Some(true));
    let keys: Vec<CostKey> = bill.sensitivities.iter().map(|s| s.input.key).collect();
    assert_eq!(keys, [CostKey::Capital, CostKey::Energy]);
    for known in bill
        .strategies
        .iter()
        .filter_map(|s| s.outcome.as_ref().ok())
    {
        let amount = known.discounted;
        assert!(amount.low <= amount.value && amount.value <= amount.high);
    }
    let band = bill.break_even.expect("a break-even");
    assert!(band.low < band.value && band.value < band.high);
}

#[test]
fn orders_come_in_time_for_the_load() {
    let mut question = worked(WORKED[1].1).question;
    set(&mut question, CostKey::Lead, "0", "0", "0");
    let told = bill(&question).expect("a bill");
    assert!(told.calendar.iter().all(|month| month.short == 0));
    // With a lead time the first months are short, and the calendar says from when on.
    set(&mut question, CostKey::Lead, "9", "9", "9");
    let late = bill(&question).expect("a bill");
    let short: Vec<usize> = (0..late.calendar.len())
        .filter(|m| late.calendar[*m].short > 0)
        .collect();
    let first = late.breaks.expect("it breaks").since(late.start) as usize;
    assert_eq!(short.first(), Some(&first));
    assert!(short.iter().all(|month| *month < 9), "{short:?}");
}

#[test]
fn currency_stays_what_it_was() {
    let sheet = worked(WORKED[2].1);
    let bill = bill(&sheet.question).expect("a bill");
    let euro: Currency = "EUR".parse().expect("a currency");
    assert_eq!(
        discounted(&bill, Strategy::Owned).map(|money| money.currency),
        Some(euro)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What costs more makes the total larger; renting every hour is never cheaper than renting those
    /// that are used; a base that is owned where it pays is never dearer than following the load by
    /// more than what rounding down to whole hosts leaves.
    #[test]
    fn laws(capital in 1_000_i64..600_000, energy in 1_i64..400, duty in 50_i64..1000, growth in 0_i64..80) {
        let mut question = steady();
        question.horizon = 24;
        question.inputs.retain(|input| input.low == input.high);
        let thousandths = |n: i64| Fraction::new(n.into(), 1000).expect("a share");
        for (key, value) in [
            (CostKey::Capital, Fraction::whole(capital)),
            (CostKey::Energy, thousandths(energy)),
            (CostKey::Duty, thousandths(duty)),
            (CostKey::Growth, thousandths(growth)),
        ] {
            for input in question.inputs.iter_mut().filter(|input| input.key == key) {
                (input.low, input.value, input.high) = (value, value, value);
            }
        }
        let told = bill(&question).expect("a bill");
        prop_assert!(discounted(&told, Strategy::Following) <= discounted(&told, Strategy::OnDemand));
        prop_assert!(discounted(&told, Strategy::Owned) <= discounted(&told, Strategy::OwnedAtOnce));
        for input in question.inputs.iter_mut().filter(|input| input.key == CostKey::Capital) {
            let more = Fraction::whole(capital + 1000);
            (input.low, input.value, input.high) = (more, more, more);
        }
        let dearer = bill(&question).expect("a bill");
        prop_assert!(discounted(&dearer, Strategy::Owned) > discounted(&told, Strategy::Owned));
        prop_assert_eq!(discounted(&dearer, Strategy::OnDemand), discounted(&told, Strategy::OnDemand));
    }

    #[test]
    fn no_question_panics(load in -5_i64..5_000_000, capital in -10_i64..i64::MAX / 1000, life in 0_i64..200, horizon in 0_u32..140) {
        let mut question = steady();
        question.horizon = horizon;
        question.load = vec![Fraction::whole(load)];
        for (key, value) in [(CostKey::Capital, capital), (CostKey::Life, life)] {
            let value = Fraction::whole(value);
            for input in question.inputs.iter_mut().filter(|input| input.key == key) {
                (input.low, input.value, input.high) = (value, value, value);
            }
        }
        let refused = matches!(
            bill(&question),
            Ok(_) | Err(BillError::Horizon { .. } | BillError::Load | BillError::Input { .. } | BillError::TooLarge { .. })
        );
        prop_assert!(refused);
    }
}
