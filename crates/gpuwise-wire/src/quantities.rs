//! Quantities as documents hold them.

use crate::mirror::Mirror;
use gpuwise_domain::{
    engine::{EngineKind, Release},
    facts::release_of,
};
use gpuwise_units::{
    Bytes, Currency, HourlyPrice, Joules, Money, Nanoseconds, PerSecond, Percentile, Seconds,
    Tokens, Watts,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, de::Visitor};
use std::fmt;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{ObjectBuilder, OneOfBuilder, Schema, Type},
    },
};

/// A real number; what JSON has no number for is `"infinity"`, `"-infinity"` or `"nan"`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Real(pub(crate) f64);

/// Numbers that JSON has not.
const WORDS: [(&str, f64); 3] = [
    ("infinity", f64::INFINITY),
    ("-infinity", f64::NEG_INFINITY),
    ("nan", f64::NAN),
];

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.0.total_cmp(&other.0).is_eq()
    }
}

impl Serialize for Real {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [infinity, minus_infinity, nan] = WORDS.map(|(word, _)| word);
        match self.0 {
            f64::INFINITY => serializer.serialize_str(infinity),
            f64::NEG_INFINITY => serializer.serialize_str(minus_infinity),
            number if number.is_nan() => serializer.serialize_str(nan),
            number => serializer.serialize_f64(number),
        }
    }
}

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RealVisitor)
    }
}

struct RealVisitor;

impl Visitor<'_> for RealVisitor {
    type Value = Real;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"infinity\", \"-infinity\" or \"nan\"")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Real, E> {
        Ok(Real(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Real, E> {
        Ok(Real(number as f64))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Real, E> {
        Ok(Real(number as f64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Real, E> {
        let word = WORDS.into_iter().find(|(word, _)| *word == text);
        word.map(|(_, number)| Real(number))
            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

impl PartialSchema for Real {
    fn schema() -> RefOr<Schema> {
        let words = WORDS.map(|(word, _)| word);
        OneOfBuilder::new()
            .item(ObjectBuilder::new().schema_type(Type::Number))
            .item(
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .enum_values(Some(words)),
            )
            .description(Some("A real number."))
            .into()
    }
}

impl ToSchema for Real {}

impl Mirror for Real {
    type Noun = f64;
    fn of(noun: &f64) -> Self {
        Self(*noun)
    }
    fn noun(self) -> f64 {
        self.0
    }
}

/// A quantity as a number of its unit.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty) = $noun:ty, $out:expr, $back:expr;) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
        pub(crate) struct $name($inner);

        impl Mirror for $name {
            type Noun = $noun;
            fn of(noun: &$noun) -> Self {
                let out: fn(&$noun) -> $inner = $out;
                Self(out(noun))
            }
            fn noun(self) -> $noun {
                let back: fn($inner) -> $noun = $back;
                back(self.0)
            }
        }
    };
}

number! {
    /// Bytes.
    ByteCount(u64) = Bytes, |bytes| bytes.count(), Bytes::new;
}

/// What documents leave out that were written before a field was there.
impl Default for ByteCount {
    fn default() -> Self {
        Self(0)
    }
}

number! {
    /// Tokens.
    TokenCount(u64) = Tokens, |tokens| tokens.0, Tokens;
}
number! {
    /// Seconds.
    SecondsNumber(Real) = Seconds, |seconds| Real(seconds.get()), |real| Seconds::new(real.0);
}
number! {
    /// So many a second.
    RateNumber(Real) = PerSecond, |rate| Real(rate.get()), |real| PerSecond::new(real.0);
}
number! {
    /// Watts.
    WattsNumber(Real) = Watts, |watts| Real(watts.get()), |real| Watts::new(real.0);
}

number! {
    /// Joules.
    JoulesNumber(Real) = Joules, |joules| Real(joules.get()), |real| Joules::new(real.0);
}
number! {
    /// Nanoseconds.
    NanosecondCount(u64) = Nanoseconds, |time| time.0, Nanoseconds;
}

/// A quantity as a text.
macro_rules! text {
    ($(#[$doc:meta])* $vis:vis $name:ident = $noun:ty, $pattern:literal, $expected:literal, $out:expr, $back:expr;) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, ToSchema)]
        #[schema(value_type = String, pattern = $pattern)]
        $vis struct $name($noun);

        impl Mirror for $name {
            type Noun = $noun;
            fn of(noun: &$noun) -> Self {
                Self(*noun)
            }
            fn noun(self) -> $noun {
                self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let out: fn(&$noun) -> String = $out;
                serializer.serialize_str(&out(&self.0))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let back: fn(&str) -> Option<$noun> = $back;
                back(&text)
                    .map(Self)
                    .ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(&text), &$expected))
            }
        }
    };
}

text! {
    /// An engine by its name, such as `vllm`.
    pub(crate) EngineName = EngineKind,
    "^(vllm|sglang|trtllm|llamacpp|lmdeploy|transformers|deepspeed-mii)$",
    "an engine: vllm, sglang, trtllm, llamacpp, transformers or deepspeed-mii",
    |engine| engine.name().into(),
    |text| EngineKind::ALL.into_iter().find(|kind| kind.name() == text);
}
text! {
    /// A release: `0.33.0`, or a build number of llama.cpp, `b11434`.
    pub(crate) ReleaseText = Release,
    "^([0-9]+(\\.[0-9]+){2}|b[0-9]+)$",
    "a release such as 0.33.0 or b11434",
    |release| match release.numbers {
        [0, 0, build] => format!("b{build}"),
        _ => release.to_string(),
    },
    |text| release_of(EngineKind::LlamaCpp, text);
}
text! {
    /// A price an hour: a decimal number and a currency, `98.32 USD`.
    pub HourlyPriceText = HourlyPrice,
    "^-?[0-9]+(\\.[0-9]{1,6})? [A-Z]{3}$",
    "a price such as \"98.32 USD\", with at most six decimals",
    |price| decimal(price.0),
    |text| price(text).map(HourlyPrice);
}
text! {
    /// An amount: a decimal number and a currency, `98.32 USD`.
    pub MoneyText = Money,
    "^-?[0-9]+(\\.[0-9]{1,6})? [A-Z]{3}$",
    "an amount such as \"98.32 USD\", with at most six decimals",
    |money| decimal(*money),
    price;
}
text! {
    /// A percentile, `p95`.
    pub(crate) PercentileText = Percentile,
    "^p[0-9]{1,2}(\\.[0-9]{1,2})?$",
    "a percentile such as p95 or p99.9",
    |percentile| percentile.to_string(),
    |text| text.parse().ok();
}
text! {
    /// Of a distribution over requests: a percentile, `p95`, or `mean`.
    pub(crate) Statistic = Option<Percentile>,
    "^(mean|p[0-9]{1,2}(\\.[0-9]{1,2})?)$",
    "a percentile such as p95 or p99.9, or mean",
    |at| at.map_or_else(|| "mean".into(), |percentile| percentile.to_string()),
    |text| if text == "mean" { Some(None) } else { text.parse().ok().map(Some) };
}

/// `98.32 USD`, exactly.
fn decimal(money: Money) -> String {
    let sign = if money.micros < 0 { "-" } else { "" };
    let micros = money.micros.unsigned_abs();
    let (whole, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let digits = format!("{fraction:06}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{digits} {}", money.currency)
}

fn price(text: &str) -> Option<Money> {
    let (amount, currency) = text.split_once(' ')?;
    let currency: Currency = currency.parse().ok()?;
    let exact = amount
        .split_once('.')
        .is_none_or(|(_, fraction)| fraction.len() <= 6);
    exact.then(|| Money::from_decimal(amount, currency).ok())?
}
