//! Selectors of devices: what of CEL drivers' classes and claims say, as a function of one device.
//!
//! Attributes, capacities and the driver, compared with literals and joined by `&&`, `||` and `!`. What is beyond
//! that is told as unread, and nothing is guessed.

mod parse;

use crate::objects::{Device, milli};
use parse::{Expr, parse};
use std::cmp::Ordering;

/// A selector that can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Expr);

/// An expression that says more than is read here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the selector {0:?} says more than can be weighed here")]
pub struct Unread(pub String);

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Int(i64),
    Bool(bool),
    /// In thousandths.
    Quantity(u64),
    List(Vec<Value>),
}

/// Why an expression has no value.
enum Stop {
    /// The device does not say it: it is not selected.
    Missing,
    Unread,
}

impl Selector {
    /// # Errors
    /// When it says more than is read here.
    pub fn read(text: &str) -> Result<Self, Unread> {
        parse(text).map(Self).ok_or_else(|| Unread(text.to_owned()))
    }

    /// Whether it selects a device; `None`: that cannot be said.
    pub fn selects(&self, driver: &str, device: &Device) -> Option<bool> {
        match value(&self.0, driver, device) {
            Ok(Value::Bool(is)) => Some(is),
            Err(Stop::Missing) => Some(false),
            Ok(_) | Err(Stop::Unread) => None,
        }
    }
}

fn value(of: &Expr, driver: &str, device: &Device) -> Result<Value, Stop> {
    let get = |one: &Expr| value(one, driver, device);
    let truth = |one: &Expr| match get(one)? {
        Value::Bool(is) => Ok(is),
        _ => Err(Stop::Unread),
    };
    Ok(match of {
        Expr::Text(text) => Value::Text(text.clone()),
        Expr::Int(number) => Value::Int(*number),
        Expr::Bool(is) => Value::Bool(*is),
        Expr::List(all) => Value::List(all.iter().map(get).collect::<Result<_, _>>()?),
        Expr::Not(one) => Value::Bool(!truth(one)?),
        Expr::And(one, other) => Value::Bool(truth(one)? && truth(other)?),
        Expr::Or(one, other) => Value::Bool(truth(one)? || truth(other)?),
        Expr::Compare(how, one, other) => Value::Bool(compared(how, &get(one)?, &get(other)?)?),
        Expr::Name(_) | Expr::Member(..) => said(of, driver, device)?,
        Expr::Call(None, name, given) => match (name.as_str(), given.as_slice()) {
            ("quantity", [Expr::Text(text)]) => quantity(text)?,
            ("has", [one]) => match get(one) {
                Err(Stop::Missing) => Value::Bool(false),
                found => found.map(|_| Value::Bool(true))?,
            },
            _ => return Err(Stop::Unread),
        },
        Expr::Call(Some(on), name, given) => match given.as_slice() {
            [one] => called(&get(on)?, name, &get(one)?)?,
            _ => return Err(Stop::Unread),
        },
    })
}

fn quantity(text: &str) -> Result<Value, Stop> {
    milli(text).map(Value::Quantity).map_err(|_| Stop::Unread)
}

/// What a device says under a path such as `device.attributes["domain"].name`.
fn said(path: &Expr, driver: &str, device: &Device) -> Result<Value, Stop> {
    let mut parts = Vec::new();
    let mut at = path;
    loop {
        match at {
            Expr::Name(name) => {
                parts.push(name.as_str());
                break;
            }
            Expr::Member(on, name) => {
                parts.push(name.as_str());
                at = on;
            }
            _ => return Err(Stop::Unread),
        }
    }
    parts.reverse();
    let own = |domain: &str, name: &str, key: &str| {
        key.split_once('/') == Some((domain, name)) || (domain == driver && key == name)
    };
    match parts.as_slice() {
        ["device", "driver"] => Ok(Value::Text(driver.to_owned())),
        ["device", "attributes", domain, name] => {
            let mut all = device.attributes.iter();
            let (_, value) = all
                .find(|(key, _)| own(domain, name, key))
                .ok_or(Stop::Missing)?;
            let (kind, value) = value.iter().next().ok_or(Stop::Missing)?;
            let read = match kind.as_str() {
                "string" => value.as_str().map(|text| Value::Text(text.to_owned())),
                "int" => value.as_i64().map(Value::Int),
                "bool" => value.as_bool().map(Value::Bool),
                _ => None,
            };
            read.ok_or(Stop::Unread)
        }
        ["device", "capacity", domain, name] => {
            let mut all = device.capacity.iter();
            let (_, measure) = all
                .find(|(key, _)| own(domain, name, key))
                .ok_or(Stop::Missing)?;
            quantity(&measure.value)
        }
        _ => Err(Stop::Unread),
    }
}

fn compared(how: &str, one: &Value, other: &Value) -> Result<bool, Stop> {
    if how == "in" {
        let Value::List(all) = other else {
            return Err(Stop::Unread);
        };
        return Ok(all.contains(one));
    }
    let order = match (one, other) {
        (Value::Text(one), Value::Text(other)) => one.cmp(other),
        (Value::Int(one), Value::Int(other)) => one.cmp(other),
        (Value::Quantity(one), Value::Quantity(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        _ => return Err(Stop::Unread),
    };
    match how {
        "==" => Ok(order == Ordering::Equal),
        "!=" => Ok(order != Ordering::Equal),
        "<" => Ok(order == Ordering::Less),
        "<=" => Ok(order != Ordering::Greater),
        ">" => Ok(order == Ordering::Greater),
        ">=" => Ok(order != Ordering::Less),
        _ => Err(Stop::Unread),
    }
}

fn called(on: &Value, name: &str, given: &Value) -> Result<Value, Stop> {
    Ok(match (on, name, given) {
        (Value::Text(on), "startsWith", Value::Text(with)) => {
            Value::Bool(on.starts_with(with.as_str()))
        }
        (Value::Text(on), "endsWith", Value::Text(with)) => {
            Value::Bool(on.ends_with(with.as_str()))
        }
        (Value::Text(on), "contains", Value::Text(part)) => Value::Bool(on.contains(part.as_str())),
        (Value::Quantity(on), "compareTo", Value::Quantity(with)) => {
            Value::Int(on.cmp(with) as i64)
        }
        (Value::Quantity(on), "isGreaterThan", Value::Quantity(with)) => Value::Bool(on > with),
        (Value::Quantity(on), "isLessThan", Value::Quantity(with)) => Value::Bool(on < with),
        _ => return Err(Stop::Unread),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Device {
        serde_json::from_value(serde_json::json!({
            "name": "gpu0",
            "attributes": {
                "profile": {"string": "3g.71gb"},
                "index": {"int": 3},
                "other.example/healthy": {"bool": true},
                "driverVersion": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "71Gi"}},
        }))
        .expect("it is a device")
    }

    fn is(text: &str) -> Option<bool> {
        Selector::read(text).ok()?.selects("gpu.example", &device())
    }

    #[test]
    fn what_classes_and_claims_say_is_read() {
        for (text, selects) in [
            (r#"device.driver == "gpu.example""#, true),
            ("device.driver == 'nic.example' || true", true),
            (
                r#"device.attributes["gpu.example"].profile == "3g.71gb" && !(device.attributes["gpu.example"].index > 3)"#,
                true,
            ),
            (
                r#"device.attributes["gpu.example"]["profile"].startsWith("1g")"#,
                false,
            ),
            (r#"device.attributes["other.example"].healthy"#, true),
            (r#"device.attributes["gpu.example"].healthy"#, false),
            (r#"device.attributes["gpu.example"].index in [1, 3]"#, true),
            (
                r#"device.capacity["gpu.example"].memory.compareTo(quantity("70Gi")) >= 0"#,
                true,
            ),
            (
                r#"device.capacity["gpu.example"].memory.isLessThan(quantity("71Gi"))"#,
                false,
            ),
            (r#"has(device.attributes["gpu.example"].nothing)"#, false),
        ] {
            assert_eq!(is(text), Some(selects), "{text}");
        }
    }

    #[test]
    fn what_is_not_read_is_said() {
        for text in [
            "",
            "device.driver ==",
            r#"device.attributes["gpu.example"].driverVersion.isGreaterThan(semver("1.0.0"))"#,
            r#"device.attributes["gpu.example"].profile.matches("^3g")"#,
            "device.driver == 3",
            r#"device.driver == "a" ? true : false"#,
            "device.driver",
            &"(".repeat(10_000),
        ] {
            assert_eq!(is(text), None, "{text:.80}");
        }
    }
}
