//! From lines to the answer.

use super::{
    Question,
    lines::{Lines, Totals},
    ranges::{Variant, amount, band},
    sheet::Row,
};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::bill::{
    Amount, Band, Bill, CalendarMonth, CostKey, Costs, Footprint, Month, Sensitivity, Strategy,
    StrategyBill,
};
use gpuwise_units::{Currency, Fraction};

/// Everything that is said of a bill.
pub(super) fn bill(question: &Question, lines: Lines, variants: &[Variant]) -> Bill {
    let currency = question.currency;
    let strategies: Vec<StrategyBill> = lines
        .strategies
        .iter()
        .map(|(strategy, outcome)| StrategyBill {
            strategy: *strategy,
            outcome: match outcome {
                Ok(totals) => Ok(costs(&lines, *strategy, totals, variants, currency)),
                Err(missing) => Err(missing_words(missing)),
            },
        })
        .collect();
    let of_row = |row: Option<Row>, pick: fn(&Lines) -> Option<Row>| {
        row.map(|row| {
            band(lines.book.value(row), variants, |lines| {
                value(lines, pick(lines))
            })
        })
    };
    let money = |band: Option<Band>| band.map(|band| amount(&band, currency));
    let gpu_hour = |lines: &Lines| lines.host.as_ref().and_then(|host| host.gpu_hour);
    // What is at best is no headline where there is a figure that can be had.
    let cheapest = cheapest(&strategies, |strategy| !strategy.is_bound())
        .or_else(|| cheapest(&strategies, |_| true));
    let sensitivities = cheapest.map_or_else(Vec::new, |strategy| {
        sensitivities(&lines, strategy, variants, currency)
    });
    let breaks = (0..lines.base.months).find(|month| {
        lines.book.at(lines.base.needed, *month) > Some(Fraction::whole(question.hosts_now.into()))
    });
    let footprint = of_row(lines.energy, |lines| lines.energy).map(|kwh| Footprint {
        kwh,
        carbon_kg: of_row(lines.carbon, |lines| lines.carbon),
    });
    Bill {
        subject: question.subject.clone(),
        currency,
        start: question.start,
        horizon: question.horizon,
        load_unit: question.load_unit.clone(),
        hosts_now: question.hosts_now.into(),
        gpus_per_host: question.gpus_per_host,
        units: question.units.clone(),
        owned_gpu_hour: money(of_row(gpu_hour(&lines), gpu_hour)),
        break_even: of_row(lines.break_even, |lines| lines.break_even),
        owning_less_renting: difference(&strategies, &lines, variants, currency),
        calendar: calendar(question, &lines),
        breaks: breaks.map(|months| after(question, months)),
        lead: question.months(CostKey::Lead).unwrap_or(0) as u32,
        cheapest,
        sensitivities,
        footprint,
        notes: question.notes.clone(),
        strategies,
        sheet: lines.book.sheet,
    }
}

fn value(lines: &Lines, row: Option<Row>) -> Option<Fraction> {
    row.and_then(|row| lines.book.at(row, 0))
}

fn totals(lines: &Lines, strategy: Strategy) -> Option<&Totals> {
    let found = lines.strategies.iter().find(|(of, _)| *of == strategy)?;
    found.1.as_ref().ok()
}

fn discounted(lines: &Lines, strategy: Strategy) -> Option<Fraction> {
    value(
        lines,
        totals(lines, strategy).map(|totals| totals.discounted),
    )
}

fn costs(
    lines: &Lines,
    strategy: Strategy,
    totals_of: &Totals,
    variants: &[Variant],
    currency: Currency,
) -> Costs {
    let ranged = |row: Row, pick: &dyn Fn(&Totals) -> Option<Row>| {
        let figure = |lines: &Lines| value(lines, totals(lines, strategy).and_then(pick));
        amount(&band(lines.book.value(row), variants, figure), currency)
    };
    Costs {
        total: ranged(totals_of.total, &|totals| Some(totals.total)),
        discounted: ranged(totals_of.discounted, &|totals| Some(totals.discounted)),
        per_unit: totals_of
            .per_unit
            .iter()
            .enumerate()
            .map(|(index, row)| ranged(*row, &|totals| totals.per_unit.get(index).copied()))
            .collect(),
    }
}

/// What has to be given for a strategy to have a price.
fn missing_words(missing: &[CostKey]) -> String {
    let names: Vec<&str> = missing.iter().map(|key| key.what()).collect();
    let set: Vec<String> = missing
        .iter()
        .map(|key| format!("{}=…", key.name()))
        .collect();
    format!("not known: {}; --set {}", names.join(", "), set.join(" "))
}

/// The strategy of the lowest discounted total among those that are asked for.
fn cheapest(strategies: &[StrategyBill], asked: impl Fn(Strategy) -> bool) -> Option<Strategy> {
    strategies
        .iter()
        .filter(|bill| asked(bill.strategy))
        .filter_map(|bill| {
            let costs = bill.outcome.as_ref().ok()?;
            Some((costs.discounted.value.micros, bill.strategy))
        })
        .min()
        .map(|(_, strategy)| strategy)
}

/// The cheapest way to buy less the cheapest way to rent. What both share cancels out in its range.
fn difference(
    strategies: &[StrategyBill],
    lines: &Lines,
    variants: &[Variant],
    currency: Currency,
) -> Option<Amount> {
    let buy = cheapest(strategies, |strategy| {
        matches!(strategy, Strategy::Owned | Strategy::OwnedAtOnce)
    })?;
    // Following the load is a bound that no service reaches; spot is not there when it is needed.
    let rent = cheapest(strategies, |strategy| {
        matches!(strategy, Strategy::OnDemand | Strategy::Reserved)
    })?;
    let figure = |lines: &Lines| discounted(lines, buy)?.minus(discounted(lines, rent)?);
    let value = figure(lines)?;
    Some(amount(&band(value, variants, figure), currency))
}

/// Assumptions by how far apart their ends put the total.
fn sensitivities(
    lines: &Lines,
    strategy: Strategy,
    variants: &[Variant],
    currency: Currency,
) -> Vec<Sensitivity> {
    let base = discounted(lines, strategy);
    let mut out: Vec<Sensitivity> = variants
        .iter()
        .filter_map(|variant| {
            let at = |lines: &Lines| discounted(lines, strategy).or(base)?.to_money(currency);
            Some(Sensitivity {
                input: variant.input.clone(),
                at_low: at(&variant.low)?,
                at_high: at(&variant.high)?,
            })
        })
        .filter(|moved| moved.at_low != moved.at_high)
        .collect();
    let width = |moved: &Sensitivity| moved.at_low.micros.abs_diff(moved.at_high.micros);
    out.sort_by_key(|moved| (core::cmp::Reverse(width(moved)), moved.input.key));
    out
}

fn calendar(question: &Question, lines: &Lines) -> Vec<CalendarMonth> {
    let Some(purchases) = &lines.purchases else {
        return Vec::new();
    };
    let whole = |row: Row, month: usize| {
        let value = lines.book.at(row, month);
        value.and_then(Fraction::as_whole).unwrap_or(0)
    };
    (0..lines.base.months)
        .map(|month| CalendarMonth {
            month: after(question, month),
            load: lines
                .book
                .at(lines.base.load, month)
                .unwrap_or(Fraction::ZERO),
            needed: whole(lines.base.needed, month),
            owned: whole(purchases.owned, month),
            arriving: whole(purchases.arriving, month),
            replaced: whole(purchases.replaced, month),
            short: whole(purchases.short, month),
            base: lines.owned_base.map(|row| whole(row, month)),
        })
        .collect()
}

fn after(question: &Question, months: usize) -> Month {
    question
        .start
        .after(i64::try_from(months).unwrap_or(i64::MAX))
}
