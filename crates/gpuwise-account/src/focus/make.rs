//! From lines to rows.

use super::{
    Account, Decimal, FocusError, Row,
    columns::Moment,
    decimal::{priced, product},
    words::{
        category, consumed, consumed_unit, description, details, json, meter, pricing_unit, service,
    },
};
use crate::{
    money::{credits, decimals},
    period::{HOUR, Interval},
    prices::{LENT_WHOLE, Metered},
    statement::{Cause, Item, Line, PriceName, Statement},
    usage::{Granted, Quantity, Share},
};
use gpuwise_units::{Currency, Fraction, Money, Nanoseconds};

const GIBIBYTE: i128 = 1 << 30;

pub(super) fn rows(statement: &Statement, account: &Account) -> Result<Vec<Row>, FocusError> {
    let currencies = statement.totals();
    let national = |currency: &Currency| *currency != credits() && decimals(*currency).is_some();
    if let Some(currency) = currencies.keys().find(|currency| !national(currency)) {
        return Err(FocusError::Currency(*currency));
    }
    // Lines without an amount are in the currency of the others.
    let usual = currencies.keys().next().copied().unwrap_or(Currency::USD);
    let make = |line| row(statement, account, line, usual);
    Ok(statement.lines.iter().map(make).collect())
}

fn row(statement: &Statement, account: &Account, line: &Line, usual: Currency) -> Row {
    let zero = Money {
        micros: 0,
        currency: usual,
    };
    let charge = line.charge.unwrap_or(zero);
    let cost = Decimal::money(charge);
    let billing = statement.month.interval();
    let period = seconds(line.interval);
    let [name, category, subcategory] = service(line.item.as_ref());
    let mut row = Row {
        billed_cost: cost.clone(),
        billing_account_id: account.billing_account_id.clone(),
        billing_account_name: account.billing_account_name.clone(),
        billing_currency: charge.currency.code().into(),
        billing_period_end: Moment(billing.end),
        billing_period_start: Moment(billing.start),
        charge_category: "Adjustment".into(),
        charge_class: line.is_correction().then(|| "Correction".into()),
        charge_description: description(line),
        charge_frequency: "Recurring".into(),
        charge_period_end: Moment(period.end),
        charge_period_start: Moment(period.start),
        contracted_cost: cost.clone(),
        effective_cost: cost.clone(),
        invoice_id: account.invoice_id.clone(),
        invoice_issuer_name: account.invoice_issuer.clone(),
        list_cost: cost.clone(),
        pricing_currency: charge.currency.code().into(),
        pricing_currency_effective_cost: cost.clone(),
        provider_name: account.provider.clone(),
        publisher_name: account.publisher.clone(),
        region_id: account.region.as_ref().map(|(id, _)| id.clone()),
        region_name: account.region.as_ref().map(|(_, name)| name.clone()),
        service_category: category.into(),
        service_name: name.into(),
        service_subcategory: subcategory.into(),
        sub_account_id: statement.tenant.clone(),
        sub_account_name: (account.sub_account_name.clone())
            .unwrap_or_else(|| statement.tenant.clone()),
        tags: (!account.tags.is_empty()).then(|| json(&account.tags)),
        unpriced: line.charge.err().map(|reason| reason.name().into()),
        ..Row::default()
    };
    if let Cause::Shared(name) = &line.cause {
        row.resource_id = Some(format!("shared:{name}"));
        row.resource_type = Some("Shared cost".into());
    }
    if let Some(item) = &line.item {
        let sign = match line.cause {
            Cause::Reversal(_) => -1,
            _ => 1,
        };
        held(&mut row, item, sign);
        if let Some(share) = item.lent_milli {
            credit(&mut row, share);
        } else if let (Ok(charge), Some(price)) = (line.charge, &item.price) {
            priced_usage(&mut row, line, item, price, charge);
        }
    }
    row
}

/// What was charged for: a quantity at a price.
fn priced_usage(row: &mut Row, line: &Line, item: &Item, price: &PriceName, charge: Money) {
    let costs = Costs::of(line, item, price, charge);
    row.charge_category = "Usage".into();
    row.charge_frequency = "Usage-Based".into();
    row.consumed_quantity = Some(consumed(item));
    row.consumed_unit = Some(consumed_unit(item.metered).into());
    row.contracted_cost = costs.contracted;
    row.contracted_unit_price = Some(costs.contracted_unit.clone());
    row.list_cost = costs.list;
    row.list_unit_price = Some(costs.list_unit.clone());
    row.pricing_currency_contracted_unit_price = Some(costs.contracted_unit);
    row.pricing_currency_list_unit_price = Some(costs.list_unit);
    row.pricing_category = Some(category(item.class).into());
    row.pricing_quantity = Some(costs.quantity);
    row.pricing_unit = Some(pricing_unit(item.metered).into());
    row.sku_id = Some(price.sku.clone());
    row.sku_meter = Some(meter(item.metered).into());
    row.sku_price_details = Some(details(item));
    row.sku_price_id = Some(price.id.clone());
}

/// What lent capacity earned: an amount beside what is sold, without a price and a quantity of its own.
fn credit(row: &mut Row, share: u32) {
    row.charge_category = "Credit".into();
    row.lent_hours = row.granted_hours.take();
    row.added_hours = None;
    row.measured_hours = None;
    row.lent_share = decimal(i128::from(share), i128::from(LENT_WHOLE));
}

/// What was held and used, whether it is charged or not.
fn held(row: &mut Row, item: &Item, sign: i128) {
    let amount = |of: Quantity, per| decimal(sign * i128::from(item.used.get(of)?), per);
    let hours = |nanoseconds: u64| {
        let hours = decimal(sign * i128::from(nanoseconds), i128::from(HOUR));
        hours.filter(|_| item.metered == Metered::GpuTime)
    };
    let share = |share: Share| {
        let share = decimal(i128::from(share.part), i128::from(share.of));
        share.filter(|_| item.granted != Granted::Nothing)
    };
    row.resource_id = Some(item.lease.clone());
    row.resource_type = Some("Lease".into());
    row.gpu = Some(item.kind.clone());
    row.devices = Some(Decimal::whole(u64::from(item.devices)));
    row.isolation = Some(item.isolation.name().into());
    row.class = Some(item.class.name().into());
    row.granted_compute = share(item.granted.compute());
    row.granted_memory = share(item.granted.memory());
    row.granted_hours = hours(item.granted_ns);
    row.added_hours = hours(item.added_ns);
    row.used_hours = amount(Quantity::SmTime, i128::from(HOUR));
    row.measured_hours = hours(item.used.measured_ns);
    row.start_hours = amount(Quantity::StartTime, i128::from(HOUR));
    row.idle_share = item.idle_share().map(|idle| Decimal::fraction(idle, 6));
    row.used_memory = amount(Quantity::MemoryTime, GIBIBYTE * 3600);
    row.energy = amount(Quantity::Energy, 3_600_000_000);
    row.tokens_in = amount(Quantity::TokensIn, 1);
    row.tokens_out = amount(Quantity::TokensOut, 1);
}

fn decimal(numerator: i128, denominator: i128) -> Option<Decimal> {
    Fraction::new(numerator, denominator).map(|fraction| Decimal::fraction(fraction, 9))
}

/// Prices and costs of a charge that fit each other.
struct Costs {
    quantity: Decimal,
    contracted_unit: Decimal,
    contracted: Decimal,
    list_unit: Decimal,
    list: Decimal,
}

impl Costs {
    fn of(line: &Line, item: &Item, price: &PriceName, charge: Money) -> Self {
        let cost = &Decimal::money(charge);
        let contracted_unit = Decimal::fraction(price.unit_price, 12);
        let quantity = priced(&contracted_unit, cost, item.quantity);
        let contracted = product(&contracted_unit, &quantity, cost);
        // Without a list price in this currency, the agreed one is the only one there is.
        let listed = (item.list.as_ref().zip(line.list))
            .filter(|(name, _)| name.currency == charge.currency);
        let (list_unit, list) = listed.map_or_else(
            || (contracted_unit.clone(), contracted.clone()),
            |(name, list)| {
                let unit = Decimal::fraction(name.unit_price, 12);
                let list = product(&unit, &quantity, &Decimal::money(list));
                (unit, list)
            },
        );
        Self {
            quantity,
            contracted_unit,
            contracted,
            list_unit,
            list,
        }
    }
}

/// Whole seconds around an interval.
fn seconds(interval: Interval) -> Interval {
    const SECOND: u64 = 1_000_000_000;
    let start = interval.start.0 / SECOND * SECOND;
    let end = interval.end.0.div_ceil(SECOND).saturating_mul(SECOND);
    Interval::new(Nanoseconds(start), Nanoseconds(end.max(start + SECOND)))
}
