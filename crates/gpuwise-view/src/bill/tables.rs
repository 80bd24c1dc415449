//! Tables of a bill.

use super::words::{cents, input_value, money, ranged};
use crate::{
    figures::percent,
    table::{Cell, Column, Table},
};
use gpuwise_domain::bill::{Amount, Bill, CalendarMonth, CostKey, SheetRow, Strategy};
use gpuwise_units::{Fraction, significant};

/// Every strategy with what it comes to, cheapest first, unknown ones last.
pub fn strategies(bill: &Bill) -> Table {
    let code = bill.currency.code();
    let mut columns = vec![
        Column::left("strategy", "strategy").wrap(14),
        Column::right("total", "total").unit(code),
        Column::right("discounted", "discounted (80 %)").unit(code),
    ];
    for unit in &bill.units {
        let key = format!("per_{}", unit.name.replace([' ', '⁶'], "_"));
        columns.push(
            Column::right(key, format!("per {}", unit.name))
                .unit(code)
                .wrap(9),
        );
    }
    columns.push(Column::left("why", "").wrap(20));
    for key in [
        "key",
        "discounted_low",
        "discounted_high",
        "total_low",
        "total_high",
    ] {
        columns.push(Column::raw(key));
    }
    let mut rows: Vec<_> = bill.strategies.iter().collect();
    rows.sort_by_key(|row| {
        let known = row.outcome.as_ref().ok();
        (
            known.is_none(),
            known.map(|costs| costs.discounted.value.micros),
            row.strategy,
        )
    });
    let mut table = Table::new(columns);
    for row in rows {
        let amount = |amount: Amount| Cell::new(money(amount.value), cents(amount.value));
        let mut cells = vec![Cell::text(row.strategy.name())];
        match &row.outcome {
            Ok(costs) => {
                cells.push(amount(costs.total));
                let shown = ranged(&costs.discounted);
                cells.push(Cell::new(shown, cents(costs.discounted.value)));
                let units = costs.per_unit.iter();
                cells.extend(units.map(|unit| Cell::new(money(unit.value), cents(unit.value))));
                cells.push(Cell::text(note(row.strategy)));
                cells.push(Cell::text(row.strategy.key()));
                let ends = [
                    costs.discounted.low,
                    costs.discounted.high,
                    costs.total.low,
                    costs.total.high,
                ];
                cells.extend(ends.map(|end| Cell::text(cents(end))));
            }
            Err(why) => {
                cells.extend([Cell::missing(), Cell::missing()]);
                cells.extend(bill.units.iter().map(|_| Cell::missing()));
                cells.extend([Cell::text(why), Cell::text(row.strategy.key())]);
            }
        }
        table.push(cells);
    }
    table.footnote(
        "Ranges are 80 %. Discounted to the first month; the residual value of hosts is taken off.",
    );
    if let Some(duty) = duty(bill).filter(|_| !bill.units.is_empty()) {
        let share = percent(duty.as_f64());
        table.footnote(if duty == Fraction::ONE {
            format!("Prices of what is served: at {share} of the peak load in the mean, all hours (--duty).")
        } else {
            format!(
                "Prices of what is served: at {share} of the peak load in the mean (--duty). `plan` prices tokens at the full load of all hours, --duty 100%: then a host serves {} times as much.",
                significant(1.0 / duty.as_f64(), 3)
            )
        });
    }
    table
}

/// The mean load over the peak that what is served is counted at.
pub(super) fn duty(bill: &Bill) -> Option<Fraction> {
    let named = |row: &&SheetRow| row.key == CostKey::Duty.name();
    let row = bill.sheet.rows.iter().find(named)?;
    Some(row.cells.first()?.value)
}

/// What to know of a strategy whose price is known.
pub(super) const fn note(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Following => "at best: hosts start and stop instantly",
        Strategy::Hybrid => "at best: rented hosts start and stop instantly",
        Strategy::Spot => "may be taken away",
        Strategy::Reserved => "for the whole horizon",
        _ => "",
    }
}

/// The purchase calendar: every month, or only those in which something happens.
pub fn calendar(bill: &Bill, every: bool) -> Table {
    let columns = vec![
        Column::left("month", "month"),
        Column::right("load", "load").unit(&bill.load_unit),
        Column::right("needed", "hosts needed"),
        Column::right("owned", "owned"),
        Column::right("short", "short"),
        Column::left("arriving", "arriving").wrap(10),
        Column::right("replaced", "replaced"),
        Column::right("base", "to own as base").priority(60),
    ];
    let mut table = Table::new(columns).when_empty("No months.");
    let count = |hosts: i64| {
        if hosts == 0 {
            Cell::new("", 0)
        } else {
            Cell::new(hosts.to_string(), hosts)
        }
    };
    let first_short = bill.calendar.iter().position(|month| month.short > 0);
    for (index, month) in bill.calendar.iter().enumerate() {
        let ends = index == 0 || index + 1 == bill.calendar.len();
        let happens = month.arriving > 0
            || month.replaced > 0
            || bill.breaks == Some(month.month)
            || first_short == Some(index);
        if !(every || ends || happens) {
            continue;
        }
        table.push(vec![
            Cell::text(month.month.to_string()),
            Cell::number(month.load.as_f64()),
            Cell::new(month.needed.to_string(), month.needed),
            Cell::new(month.owned.to_string(), month.owned),
            count(month.short),
            arriving(bill, month),
            count(month.replaced),
            Cell::of(month.base, |base| Cell::new(base.to_string(), base)),
        ]);
    }
    table
}

/// `+3, ordered 2027-04`.
fn arriving(bill: &Bill, month: &CalendarMonth) -> Cell {
    if month.arriving == 0 {
        return Cell::new("", 0);
    }
    let ordered = month.month.after(-i64::from(bill.lead));
    Cell::new(
        format!("+{}, ordered {ordered}", month.arriving),
        month.arriving,
    )
}

/// Which assumption moves the cheapest total most.
pub fn sensitivities(bill: &Bill) -> Table {
    let code = bill.currency.code();
    let mut table = Table::new(vec![
        Column::left("assumption", "assumption").wrap(16),
        Column::right("low", "low"),
        Column::right("value", "taken"),
        Column::right("high", "high"),
        Column::right("total_at_low", "total at low").unit(code),
        Column::right("total_at_high", "total at high").unit(code),
        Column::left("bar", "").priority(40),
        Column::left("source", "source").priority(20).wrap(24),
        Column::raw("key"),
    ])
    .when_empty("No assumption of it has a range.");
    let width = |row: &gpuwise_domain::bill::Sensitivity| {
        row.at_low.micros.abs_diff(row.at_high.micros) as f64
    };
    let most = bill.sensitivities.first().map_or(1.0, width).max(1.0);
    for row in &bill.sensitivities {
        let value = |value| {
            let shown = input_value(&row.input, value);
            Cell::new(shown, value.plain(12))
        };
        table.push(vec![
            Cell::text(row.input.key.what()),
            value(row.input.low),
            value(row.input.value),
            value(row.input.high),
            Cell::new(money(row.at_low), cents(row.at_low)),
            Cell::new(money(row.at_high), cents(row.at_high)),
            Cell::new(bar(width(row) / most), width(row) / most),
            Cell::text(&row.input.source),
            Cell::text(row.input.key.name()),
        ]);
    }
    table
}

/// Eight characters at most.
fn bar(share: f64) -> String {
    let halves = (share * 16.0).round().clamp(0.0, 16.0) as usize;
    "█".repeat(halves / 2) + if halves % 2 == 1 { "▌" } else { "" }
}
