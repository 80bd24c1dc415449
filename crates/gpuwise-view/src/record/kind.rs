//! Kinds of values, and the Rust types that they are of.

use super::{Field, Record, described};
use gpuwise_domain::{estimate::Estimate, price::Price, profile::figure::Value as Figure};
use gpuwise_units::{Bytes, PerSecond, Percentile, Seconds, Tokens, Watts};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What programs may expect of a value.
#[derive(Debug, Clone)]
pub enum Kind {
    Text,
    Flag,
    /// A whole number that is not negative.
    Count,
    Whole,
    /// A number; null where it is none, or has no end.
    Real,
    /// A figure with its 80 % range.
    Estimate,
    /// The same at a statistic: a percentile or the mean.
    Latency,
    Price,
    /// The same with its 80 % range.
    PriceRange,
    /// It, or null.
    Maybe(Box<Kind>),
    List(Box<Kind>),
    /// Values by names that are not known beforehand.
    Named(Box<Kind>),
    /// An object: its name in schemas, and what it is made of.
    Record(&'static str, fn() -> Vec<Field>),
    /// For people alone.
    People,
}

impl Kind {
    pub fn of<T: Record>() -> Self {
        Self::Record(T::NAME, described::<T>)
    }

    pub(super) fn is_number(&self) -> bool {
        match self {
            Self::Maybe(inner) => inner.is_number(),
            Self::Count
            | Self::Whole
            | Self::Real
            | Self::Estimate
            | Self::Latency
            | Self::Price
            | Self::PriceRange => true,
            _ => false,
        }
    }

    /// What stands in columns of its own: the end of the column's name, and the key in the value.
    pub(super) const fn parts(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Estimate => &[("", "value"), ("_low", "low"), ("_high", "high")],
            Self::Latency => &[
                ("", "value"),
                ("_low", "low"),
                ("_high", "high"),
                ("_at", "at"),
            ],
            Self::Price => &[("", "amount"), ("_currency", "currency")],
            Self::PriceRange => &[
                ("", "amount"),
                ("_low", "low"),
                ("_high", "high"),
                ("_currency", "currency"),
            ],
            _ => &[],
        }
    }
}

pub trait Datum {
    fn kind() -> Kind;
    fn value(self) -> Value;
}

macro_rules! data {
    ($($type:ty: $kind:ident, $value:ident => $json:expr;)*) => {$(
        impl Datum for $type {
            fn kind() -> Kind {
                Kind::$kind
            }
            fn value(self) -> Value {
                let $value = self;
                Value::from($json)
            }
        }
    )*};
}

data! {
    String: Text, text => text;
    &str: Text, text => text;
    &String: Text, text => text.as_str();
    bool: Flag, flag => flag;
    u32: Count, count => count;
    u64: Count, count => count;
    usize: Count, count => count;
    Bytes: Count, bytes => bytes.count();
    Tokens: Count, tokens => tokens.0;
    i64: Whole, number => number;
    f64: Real, real => real;
    &Figure: Real, figure => match figure {
        Figure::Integer(exact) => Value::from(*exact),
        Figure::Real(real) => Value::from(*real),
        Figure::Unknown(_) => Value::Null,
    };
    Seconds: Real, seconds => seconds.get();
    PerSecond: Real, rate => rate.get();
    Watts: Real, watts => watts.get();
    Estimate: Estimate, it => json!({"value": it.value, "low": it.low, "high": it.high});
    (Estimate, Option<Percentile>): Latency, it => json!({
        "at": crate::plan::words::percentile(it.1),
        "value": it.0.value,
        "low": it.0.low,
        "high": it.0.high,
    });
    Price: Price, price => of_price(&price);
    (Price, Price, Price): PriceRange, range => with_range(&range);
}

fn of_price(price: &Price) -> Value {
    json!({
        "amount": price.amount,
        "currency": price.currency.code(),
        "per": price.per.name(),
        "priced_at": price.priced_at,
    })
}

fn with_range((value, low, high): &(Price, Price, Price)) -> Value {
    let mut json = of_price(value);
    if let Value::Object(fields) = &mut json {
        fields.insert("low".into(), low.amount.into());
        fields.insert("high".into(), high.amount.into());
    }
    json
}

impl<D: Datum> Datum for Option<D> {
    fn kind() -> Kind {
        Kind::Maybe(Box::new(D::kind()))
    }

    fn value(self) -> Value {
        self.map_or(Value::Null, Datum::value)
    }
}

impl<D: Datum> Datum for Vec<D> {
    fn kind() -> Kind {
        Kind::List(Box::new(D::kind()))
    }

    fn value(self) -> Value {
        self.into_iter().map(Datum::value).collect()
    }
}

impl<D: Datum> Datum for BTreeMap<&'static str, D> {
    fn kind() -> Kind {
        Kind::Named(Box::new(D::kind()))
    }

    fn value(self) -> Value {
        let pairs = self.into_iter();
        Value::Object(
            pairs
                .map(|(name, one)| (name.into(), one.value()))
                .collect(),
        )
    }
}

impl Datum for &[String] {
    fn kind() -> Kind {
        Kind::List(Box::new(Kind::Text))
    }

    fn value(self) -> Value {
        self.iter().map(String::as_str).collect()
    }
}

impl Datum for &Vec<String> {
    fn kind() -> Kind {
        Kind::List(Box::new(Kind::Text))
    }

    fn value(self) -> Value {
        self.as_slice().value()
    }
}
