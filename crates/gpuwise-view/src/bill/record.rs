//! What programs read of a bill.

use super::{tables::duty, words::band_share};
use gpuwise_domain::{
    bill::{
        Amount, Band, Bill, CalendarMonth, Costs, Footprint, Sensitivity, ServedUnit, Strategy,
        StrategyBill,
    },
    estimate::Estimate,
    price::{Per, Price},
};
use gpuwise_units::{Fraction, Money};

fn price(money: Money) -> Price {
    Price::of(money, Per::All)
}

fn ranged(amount: &Amount) -> (Price, Price, Price) {
    (price(amount.value), price(amount.low), price(amount.high))
}

fn band(band: &Band) -> Estimate {
    Estimate {
        value: band.value.as_f64(),
        low: band.low.as_f64(),
        high: band.high.as_f64(),
    }
}

crate::record!(Bill, "Bill", |of| {
    of.field("subject", |b| &b.subject);
    of.field("currency", |b| b.currency.code().to_owned());
    of.field("start", |b| b.start.to_string());
    of.field("horizon_months", |b| b.horizon);
    of.field("hosts_now", |b| b.hosts_now.unsigned_abs());
    of.field("load_unit", |b| &b.load_unit);
    of.field("mean_over_peak_load", |b| duty(b).map(Fraction::as_f64));
    of.field("cheapest", |b| b.cheapest.map(Strategy::key));
    of.field("owning_less_renting", |b| {
        b.owning_less_renting.as_ref().map(ranged)
    });
    of.field("owned_gpu_hour", |b| {
        let hour = |money| Price::of(money, Per::Hour);
        let cost = b.owned_gpu_hour.as_ref();
        cost.map(|cost| (hour(cost.value), hour(cost.low), hour(cost.high)))
    });
    of.field("break_even_share_of_hours", |b| {
        b.break_even.as_ref().map(band)
    });
    of.field("break_even_words", |b| {
        b.break_even.as_ref().map(band_share)
    });
    of.field("breaks", |b| b.breaks.map(|month| month.to_string()));
    of.field("lead_months", |b| b.lead);
    of.made("strategies", |b| {
        let units = &b.units;
        b.strategies.iter().map(|row| Row { row, units }).collect()
    });
    of.list("calendar", |b| &b.calendar);
    of.list("sensitivities", |b| &b.sensitivities);
    let footprint = |b: &Self| b.footprint;
    of.field("energy_kwh", |b| {
        footprint(b).map(|footprint: Footprint| band(&footprint.kwh))
    });
    of.field("carbon_kg", |b| {
        footprint(b).and_then(|footprint| footprint.carbon_kg.as_ref().map(band))
    });
    of.field("notes", |b| &b.notes);
});

/// A strategy, and what its money is spread over.
struct Row<'a> {
    row: &'a StrategyBill,
    units: &'a [ServedUnit],
}

impl Row<'_> {
    fn costs(&self) -> Option<&Costs> {
        self.row.outcome.as_ref().ok()
    }
}

crate::record!(Row<'_>, "Strategy", |of| {
    of.field("strategy", |r| r.row.strategy.key());
    of.field("total", |r| r.costs().map(|costs| ranged(&costs.total)));
    of.field("discounted", |r| {
        r.costs().map(|costs| ranged(&costs.discounted))
    });
    of.made("per_unit", |r| {
        let costs = r.costs().map_or(&[][..], |costs| &costs.per_unit);
        let each = r.units.iter().zip(costs);
        each.map(|(unit, cost)| UnitCost(unit, cost)).collect()
    });
    of.field("unknown", |r| r.row.outcome.as_ref().err());
});

struct UnitCost<'a>(&'a ServedUnit, &'a Amount);

crate::record!(UnitCost<'_>, "UnitCost", |of| {
    of.field("unit", |c| &c.0.name);
    of.field("cost", |c| {
        let unit = |money| Price::of(money, Per::Unit);
        (unit(c.1.value), unit(c.1.low), unit(c.1.high))
    });
});

crate::record!(CalendarMonth, "Month", |of| {
    of.field("month", |m| m.month.to_string());
    of.field("load", |m| m.load.as_f64());
    of.field("needed", |m| m.needed.unsigned_abs());
    of.field("owned", |m| m.owned.unsigned_abs());
    of.field("short", |m| m.short.unsigned_abs());
    of.field("arriving", |m| m.arriving.unsigned_abs());
    of.field("replaced", |m| m.replaced.unsigned_abs());
    of.field("base", |m| m.base.map(i64::unsigned_abs));
});

crate::record!(Sensitivity, "Sensitivity", |of| {
    of.field("assumption", |s| s.input.key.what());
    of.field("low", |s| s.input.low.as_f64());
    of.field("value", |s| s.input.value.as_f64());
    of.field("high", |s| s.input.high.as_f64());
    of.field("total_at_low", |s| price(s.at_low));
    of.field("total_at_high", |s| price(s.at_high));
    of.field("source", |s| &s.input.source);
    of.field("key", |s| s.input.key.name());
});
