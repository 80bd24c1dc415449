//! What people write about bills: growth, months, assumptions with ranges, loads by the month.

mod answers;

pub use answers::{Planned, PlannedUnit, planned};

use crate::table_error;
use gpuwise_domain::bill::{CostKey, CostUnit};
use gpuwise_units::{Currency, Fraction, ParseQuantityError};

/// A figure with its ends, as a person gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub low: Fraction,
    pub value: Fraction,
    pub high: Fraction,
    /// Its currency, where it is money.
    pub currency: Option<Currency>,
}

fn wrong(text: &str, expected: impl Into<String>) -> ParseQuantityError {
    ParseQuantityError {
        text: text.into(),
        expected: expected.into(),
    }
}

/// Months: `36mo`, `36 months`, `3y`; a bare number is refused.
///
/// # Errors
/// When the unit is missing, or it is no whole number of months.
pub fn months(text: &str) -> Result<u32, ParseQuantityError> {
    let fail = || wrong(text, "months or years, such as `36mo` or `3y`");
    let (number, unit) = split(text);
    let factor = match unit {
        "mo" | "month" | "months" => 1,
        "y" | "year" | "years" => 12,
        _ => return Err(fail()),
    };
    Fraction::from_decimal(number)
        .ok()
        .and_then(|number| number.times(Fraction::whole(factor))?.as_whole())
        .and_then(|months| u32::try_from(months).ok())
        .ok_or_else(fail)
}

/// Growth a month: `20%/month`, `10..30%/month`, or `5%/year`, of which a month has the twelfth root.
///
/// # Errors
/// When it is not of this form. Negative growth is read; whether it has an answer is not said here.
pub fn growth(text: &str) -> Result<Given, ParseQuantityError> {
    let expected = "a growth such as `20%/month`, `10..30%/month` or `40%/year`";
    let fail = || wrong(text, expected);
    let (numbers, time) = text.trim().split_once("%/").ok_or_else(fail)?;
    let yearly = match time.trim() {
        "month" | "mo" => false,
        "year" | "y" => true,
        _ => return Err(fail()),
    };
    let share = |number: Fraction| number.over(Fraction::whole(100));
    let monthly = |number: Fraction| -> Option<Fraction> {
        let share = share(number)?;
        if yearly {
            let year = 1.0 + share.as_f64();
            let root = libm::pow(year.max(0.0), 1.0 / 12.0) - 1.0;
            Fraction::nearest(root, 12)
        } else {
            Some(share)
        }
    };
    let [low, value, high] = ends(numbers).ok_or_else(fail)?;
    Ok(Given {
        low: monthly(low).ok_or_else(fail)?,
        value: monthly(value).ok_or_else(fail)?,
        high: monthly(high).ok_or_else(fail)?,
        currency: None,
    })
}

/// An assumption: a figure, `LOW..HIGH` or `LOW..VALUE..HIGH`, with the unit that it is counted in:
/// money with its currency (`250000..350000USD`), shares in percent or as numbers (`20%`, `0.2`).
///
/// # Errors
/// When it is not of this form, the unit is another one, or the ends do not hold the figure.
pub fn assumption(key: CostKey, text: &str) -> Result<Given, ParseQuantityError> {
    if key == CostKey::Growth {
        return growth(text);
    }
    let expected = expected(key);
    let fail = || wrong(text, expected.clone());
    let (numbers, unit) = split(text);
    let mut currency = None;
    let mut factor = Some(Fraction::ONE);
    match key.unit() {
        CostUnit::Money(_) => {
            let code = unit.split('/').next().unwrap_or(unit).trim();
            if code.is_empty() {
                return Err(fail());
            }
            currency = Some(Currency::given(code)?);
        }
        CostUnit::Share | CostUnit::ShareOf(_) => match unit.split('/').next().map(str::trim) {
            Some("%") => factor = Fraction::new(1, 100),
            Some("") => {}
            _ => return Err(fail()),
        },
        CostUnit::Plain("years") => match unit {
            "y" | "year" | "years" => {}
            "mo" | "month" | "months" => factor = Fraction::new(1, 12),
            _ => return Err(fail()),
        },
        CostUnit::Plain("months") => match unit {
            "mo" | "month" | "months" => {}
            "y" | "year" | "years" => factor = Some(Fraction::whole(12)),
            _ => return Err(fail()),
        },
        CostUnit::Plain("kW") => match unit {
            "kW" => {}
            "W" => factor = Fraction::new(1, 1000),
            _ => return Err(fail()),
        },
        CostUnit::Plain("g/kWh") => match unit {
            "g/kWh" | "g" => {}
            "kg/kWh" => factor = Some(Fraction::whole(1000)),
            _ => return Err(fail()),
        },
        CostUnit::Plain(_) => {
            if !unit.is_empty() {
                return Err(fail());
            }
        }
    }
    let factor = factor.ok_or_else(fail)?;
    let scaled = ends(numbers).ok_or_else(fail)?.map(|end| end.times(factor));
    let [Some(low), Some(value), Some(high)] = scaled else {
        return Err(fail());
    };
    Ok(Given {
        low,
        value,
        high,
        currency,
    })
}

fn expected(key: CostKey) -> String {
    let form = match key.unit() {
        CostUnit::Money(_) => "`250USD` or `200..300USD`",
        CostUnit::Share | CostUnit::ShareOf(_) => "`20%` or `15..25%`",
        CostUnit::Plain("years") => "`5y` or `4..6y`",
        CostUnit::Plain("months") => "`4mo` or `2..6mo`",
        CostUnit::Plain("kW") => "`7.1kW` or `6..8kW`",
        CostUnit::Plain("g/kWh") => "`380g/kWh`",
        CostUnit::Plain(_) => "`1.2` or `1.1..1.3`",
    };
    format!("{} as {form}", key.what())
}

/// Numbers and what follows them.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let at = text.find(|c: char| !number(c)).unwrap_or(text.len());
    let (numbers, unit) = text.split_at(at);
    (numbers.trim(), unit.trim())
}

/// `V`, `L..H` (its middle) or `L..V..H`; rising.
fn ends(text: &str) -> Option<[Fraction; 3]> {
    let numbers = text.split("..").map(Fraction::from_decimal);
    let numbers: Vec<Fraction> = numbers.collect::<Result<_, _>>().ok()?;
    let [low, value, high] = match numbers[..] {
        [value] => [value; 3],
        [low, high] => {
            let middle = low.plus(high)?.over(Fraction::whole(2))?;
            [low, middle, high]
        }
        [low, value, high] => [low, value, high],
        _ => return None,
    };
    (low <= value && value <= high).then_some([low, value, high])
}

/// What is served: `4 images/s`, `40 hours of audio/h`: how many, of what, an hour.
///
/// # Errors
/// When it is not of this form.
pub fn served(text: &str) -> Result<(Fraction, String), ParseQuantityError> {
    let fail = || {
        wrong(
            text,
            "a number, what it counts and a time, such as `4 images/s` or `40 hours of audio/h`",
        )
    };
    let (number, rest) = text.trim().split_once(' ').ok_or_else(fail)?;
    let (name, time) = rest.rsplit_once('/').ok_or_else(fail)?;
    let hourly = match time.trim() {
        "s" => Fraction::whole(3600),
        "min" => Fraction::whole(60),
        "h" => Fraction::ONE,
        "day" | "d" => Fraction::new(1, 24).ok_or_else(fail)?,
        _ => return Err(fail()),
    };
    let number = Fraction::from_decimal(number).map_err(|_| fail())?;
    let hourly = number.times(hourly).filter(|rate| *rate > Fraction::ZERO);
    let name = name.trim();
    match hourly {
        Some(hourly) if !name.is_empty() => Ok((hourly, name.to_owned())),
        _ => Err(fail()),
    }
}

/// Why a table of monthly loads could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LoadError {
    /// From 1.
    pub line: usize,
    /// What is wrong and what would be right.
    pub problem: String,
}

/// Loads of consecutive months, from CSV with a column `load` (and, if wanted, one of months before it).
///
/// # Errors
/// When there is no such column, a load is no number or negative, or there is none.
pub fn loads(text: &str) -> Result<Vec<Fraction>, LoadError> {
    let fail = |line, problem: String| LoadError { line, problem };
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let headers = reader
        .headers()
        .map_err(|error| fail(1, table_error(&error, None)))?;
    let column = headers
        .iter()
        .position(|name| name.eq_ignore_ascii_case("load"));
    let column = column.ok_or_else(|| {
        let names: Vec<&str> = headers.iter().collect();
        fail(1, format!("no column `load` among {names:?}"))
    })?;
    let mut out = Vec::new();
    for (index, record) in reader.records().enumerate() {
        let line = index + 2;
        let record = record.map_err(|error| fail(line, table_error(&error, None)))?;
        let cell = record.get(column).unwrap_or_default();
        let load = Fraction::from_decimal(cell).map_err(|error| fail(line, error.to_string()))?;
        if load < Fraction::ZERO {
            return Err(fail(line, format!("a load of {cell}: it is negative")));
        }
        out.push(load);
    }
    if out.is_empty() {
        return Err(fail(2, "there is no month".into()));
    }
    Ok(out)
}
