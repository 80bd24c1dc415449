//! Records as rows of a table: columns for people, and every value for programs.

use super::{Field, Fields, Kind, Record, described, object};
use crate::{
    figures::{self, TimeUnit},
    table::{Cell, Column, Table},
};
use gpuwise_domain::{estimate::Estimate, price::Price};
use serde_json::Value;

/// Stands in units for the sign of the currency that all prices of a column are in.
const CURRENCY: char = '¤';

/// What people see of a value. The unit of a column of times, and the currency of one of prices, is
/// chosen by all of its cells.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    Missing,
    Text(String),
    /// Seconds, and a mark behind them.
    Time(f64, &'static str),
    /// Seconds with their range, and a mark behind them.
    Times(Estimate, &'static str),
    /// An amount in a currency, and a mark behind it.
    Money(f64, String, &'static str),
}

impl<S: Into<String>> From<S> for Shown {
    fn from(text: S) -> Self {
        Self::Text(text.into())
    }
}

impl Shown {
    /// A text, or that there is none.
    pub fn maybe(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Missing, Into::into)
    }

    pub fn price(price: Option<&Price>, mark: &'static str) -> Self {
        price.map_or(Self::Missing, |price| {
            Self::Money(price.amount, price.currency.code().into(), mark)
        })
    }

    pub(super) fn of(kind: &Kind, value: &Value) -> Self {
        let number = |key: &str| value.get(key).and_then(Value::as_f64);
        match (kind, value) {
            (_, Value::Null) => Self::Missing,
            (Kind::Maybe(inner), value) => Self::of(inner, value),
            (Kind::Count, value) => value
                .as_u64()
                .map_or(Self::Missing, |count| Self::Text(figures::count(count))),
            (Kind::Price | Kind::PriceRange, value) => Self::Money(
                number("amount").unwrap_or(f64::NAN),
                value["currency"].as_str().unwrap_or_default().into(),
                "",
            ),
            (Kind::Estimate | Kind::Latency, _) => {
                let [value, low, high] =
                    ["value", "low", "high"].map(|key| number(key).unwrap_or(f64::NAN));
                Self::Text(figures::ranged(&Estimate { value, low, high }))
            }
            (_, Value::Bool(flag)) => Self::Text(if *flag { "yes" } else { "no" }.into()),
            (_, Value::Number(real)) => {
                Self::Text(figures::number(real.as_f64().unwrap_or(f64::NAN)))
            }
            (_, Value::String(text)) => Self::Text(text.clone()),
            (_, Value::Array(items)) => {
                let texts = items.iter().filter_map(Value::as_str);
                Self::Text(texts.collect::<Vec<_>>().join(", "))
            }
            _ => Self::Missing,
        }
    }
}

/// A column of all rows: its name for programs, where each value lies, what people see.
struct Cells {
    key: String,
    values: Vec<Value>,
    seen: Option<(Column, Vec<Shown>)>,
}

pub fn table<T: Record>(rows: &[T]) -> Table {
    let filled: Vec<Vec<Field>> = rows.iter().map(|row| Fields::of(Some(row))).collect();
    let kind = described::<T>();
    let mut columns = Vec::new();
    let every: Vec<&[Field]> = filled.iter().map(Vec::as_slice).collect();
    spread("", &kind, &every, &mut columns);
    let mut made = Vec::new();
    let mut cells: Vec<Vec<Cell>> = rows.iter().map(|_| Vec::new()).collect();
    for column in columns {
        let (head, texts) = match column.seen {
            Some((head, shown)) => settled(head, &shown),
            None => (
                Column::raw(column.key.as_str()),
                vec![String::new(); rows.len()],
            ),
        };
        made.push(Column {
            data: !column.key.is_empty(),
            key: column.key,
            ..head
        });
        for ((row, text), value) in cells.iter_mut().zip(texts).zip(column.values) {
            row.push(Cell::new(text, value));
        }
    }
    let mut table = Table::new(made);
    for row in cells {
        table.push(row);
    }
    table.documents(filled.iter().map(|fields| object(fields)).collect())
}

/// Every value in a column of its own, objects field by field; lists of objects have none.
fn spread(prefix: &str, kinds: &[Field], rows: &[&[Field]], out: &mut Vec<Cells>) {
    for (at, field) in kinds.iter().enumerate() {
        let own: Vec<&Field> = rows.iter().filter_map(|row| row.get(at)).collect();
        let seen = own
            .first()
            .map_or(&field.seen, |first| &first.seen)
            .as_ref()
            .map(|(column, _)| {
                let shown = own.iter().map(|one| match &one.seen {
                    Some((_, shown)) => shown.clone(),
                    None => Shown::Missing,
                });
                (column.clone(), shown.collect())
            });
        let key = format!("{prefix}{}", field.key);
        let inner = match &field.kind {
            Kind::Maybe(inner) => inner,
            other => other,
        };
        match inner {
            Kind::Record(..) => {
                let prefix = if field.grouped {
                    prefix.to_owned()
                } else {
                    format!("{key}_")
                };
                let rows: Vec<&[Field]> = own.iter().map(|one| one.inner.as_slice()).collect();
                spread(&prefix, &field.inner, &rows, out);
            }
            Kind::List(of) if matches!(**of, Kind::Record(..)) => {}
            Kind::Named(_) => {}
            Kind::People => out.push(Cells {
                key: String::new(),
                values: own.iter().map(|_| Value::Null).collect(),
                seen,
            }),
            kind if kind.parts().is_empty() => out.push(Cells {
                key,
                values: own.iter().map(|one| one.value.clone()).collect(),
                seen,
            }),
            kind => {
                let mut seen = seen;
                out.extend(kind.parts().iter().map(|(end, part)| Cells {
                    key: format!("{key}{end}"),
                    values: own.iter().map(|one| one.value[*part].clone()).collect(),
                    seen: seen.take(),
                }));
            }
        }
    }
}

/// The column with its unit, and the texts of its cells in it.
fn settled(column: Column, shown: &[Shown]) -> (Column, Vec<String>) {
    let times = shown.iter().filter_map(|one| match one {
        Shown::Time(seconds, _) => Some(*seconds),
        Shown::Times(range, _) => Some(range.value),
        _ => None,
    });
    let unit = TimeUnit::of(times.clone());
    let codes = shown.iter().filter_map(|one| match one {
        Shown::Money(_, code, _) => Some(code.as_str()),
        _ => None,
    });
    let mut same = codes.clone();
    let first = same.next();
    let shared = first.filter(|first| same.all(|code| code == *first));
    let said = |one: &Shown| match one {
        Shown::Missing => figures::MISSING.to_owned(),
        Shown::Text(text) => text.clone(),
        Shown::Time(seconds, mark) => {
            format!("{}{mark}", figures::number(seconds * unit.per_second()))
        }
        Shown::Times(range, mark) => format!("{}{mark}", figures::ranged_in(range, unit)),
        Shown::Money(amount, code, mark) => {
            let sign = if shared.is_none() {
                figures::currency_sign(code)
            } else {
                String::new()
            };
            format!("{sign}{}{mark}", figures::amount(*amount))
        }
    };
    let texts = shown.iter().map(said).collect();
    let column = if times.count() > 0 {
        column.unit(unit.symbol())
    } else {
        let sign = shared.map_or_else(String::new, figures::currency_sign);
        let unit = column.unit.replace(CURRENCY, sign.trim_end());
        column.unit(unit)
    };
    (column, texts)
}
