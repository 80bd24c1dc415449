//! A workload as a file, for people to read and edit.

use super::{WorkloadFields, fields::WORKLOAD_SCHEMA};
use serde_json::{Map, Value};
use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// The fields; those that are `None` or empty are not written.
    pub fields: WorkloadFields,
    /// Lines above all fields.
    pub preface: Vec<String>,
    /// (field, what is said of it): beside a field that is there, else on a line of its own.
    pub remarks: Vec<(&'static str, String)>,
}

/// One text or several.
enum Cell<'a> {
    One(&'a str),
    Many(&'a [String]),
}

impl WorkloadFields {
    /// The fields that are set, in the order in which people think of them.
    fn cells(&self) -> Vec<(&'static str, Option<Cell<'_>>)> {
        fn many(texts: &[String]) -> Option<Cell<'_>> {
            (!texts.is_empty()).then_some(Cell::Many(texts))
        }
        macro_rules! cells {
            ($($name:ident $kind:ident),* $(,)?) => {
                vec![$((stringify!($name), cells!(@ $kind self.$name))),*]
            };
            (@ one $field:expr) => { $field.as_deref().map(Cell::One) };
            (@ many $field:expr) => { many(&$field) };
        }
        cells![
            model one, engine one, precision one, rate one, peak_rate one, rates many,
            rates_from one, burstiness one, concurrency one, isl one, isl_variation one,
            isl_longest one, isl_quantiles many, osl one, osl_variation one, osl_longest one,
            osl_quantiles many, prefix_hit one, ttft one, tpot one, e2e one, throughput one,
            gpus many, providers many, regions many, owned many, budget one, power one,
            spare_replicas one, quality_loss one,
        ]
    }
}

impl Written {
    /// As TOML, with its remarks as comments.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for line in &self.preface {
            let _ = writeln!(out, "# {}", one_line(line));
        }
        if !self.preface.is_empty() {
            out.push('\n');
        }
        for (name, cell) in self.fields.cells() {
            let remark = self.remarks.iter().find(|(field, _)| *field == name);
            let remark = remark.map(|(_, text)| one_line(text));
            match (cell, remark) {
                (Some(cell), remark) => {
                    let _ = write!(out, "{name} = {}", toml_of(&cell));
                    if let Some(remark) = remark {
                        let _ = write!(out, "  # {remark}");
                    }
                    out.push('\n');
                }
                (None, Some(remark)) => {
                    let _ = writeln!(out, "# {name}: {remark}");
                }
                (None, None) => {}
            }
        }
        out
    }

    /// As JSON, which has no place for remarks.
    pub fn to_json(&self) -> String {
        let mut object = Map::new();
        object.insert("schema".into(), WORKLOAD_SCHEMA.into());
        for (name, cell) in self.fields.cells() {
            let value = match cell {
                None => continue,
                Some(Cell::One(text)) => Value::from(text),
                Some(Cell::Many(texts)) => Value::from(texts.to_vec()),
            };
            object.insert(name.into(), value);
        }
        format!("{:#}\n", Value::Object(object))
    }
}

fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn toml_of(cell: &Cell<'_>) -> String {
    let quoted = |text: &str| toml::Value::String(text.into()).to_string();
    match cell {
        // A plain number needs no quotes.
        Cell::One(text) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() && is_plain(text) => (*text).into(),
            _ => quoted(text),
        },
        Cell::Many(texts) => {
            let mut out = String::from("[");
            for (place, text) in texts.iter().enumerate() {
                if place > 0 {
                    out.push_str(", ");
                }
                // A day of hours fills several lines.
                if texts.len() > 12 && place % 12 == 0 {
                    out.push_str("\n  ");
                }
                out.push_str(&quoted(text));
            }
            if texts.len() > 12 {
                out.push('\n');
            }
            out.push(']');
            out
        }
    }
}

/// Digits with one point between them at most, as TOML writes numbers.
fn is_plain(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && (whole == "0" || !whole.starts_with('0'))
        && whole.len() < 16
}
