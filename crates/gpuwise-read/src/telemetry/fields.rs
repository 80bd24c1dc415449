//! The names under which tools tell a quantity: rows of the catalogue.

use crate::catalogue::{CatalogueError, from_toml, tables::rows};
use gpuwise_domain::telemetry::{FaultClass, Quantity, Threshold, Thresholds, XidMeaning};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub quantity: Quantity,
    /// The unit of values that carry none.
    pub unit: String,
    /// What is done when several fields tell the same quantity.
    pub combine: Combine,
}

/// What is done when several fields of one thing at one time tell the same quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    /// The first known one counts.
    First,
    Sum,
    /// Their bits are put together.
    Bits,
}

/// Names of fields by tool, and names and ids of DCGM fields.
#[derive(Debug, Clone, Default)]
pub struct FieldNames {
    fields: FxHashMap<String, FxHashMap<String, Field>>,
    dcgm_ids: FxHashMap<String, u32>,
    names: BTreeMap<u32, Vec<String>>,
}

#[derive(Deserialize)]
struct FieldRow {
    vocabulary: String,
    field: String,
    quantity: String,
    unit: String,
    combine: String,
    source: String,
}

#[derive(Deserialize)]
struct DcgmRow {
    field_id: u32,
    names: String,
    source: String,
}

impl FieldNames {
    /// Adds rows of `telemetry_fields.csv`; a later row for the same field counts.
    ///
    /// # Errors
    /// When a row cannot be: an unknown quantity or way to combine, or no source.
    pub fn add_fields(&mut self, file: &str, text: &str) -> Result<(), CatalogueError> {
        for (line, row) in rows::<FieldRow>(file, text)? {
            let wrong = |what: String| CatalogueError::new(file, format!("line {line}"), what);
            let quantity = Quantity::named(&row.quantity)
                .ok_or_else(|| wrong(format!("`quantity` is {:?}, which is none", row.quantity)))?;
            let combine = match row.combine.as_str() {
                "first" => Combine::First,
                "sum" => Combine::Sum,
                "bits" => Combine::Bits,
                other => {
                    return Err(wrong(format!(
                        "`combine` is {other:?}; expected first, sum or bits"
                    )));
                }
            };
            if row.source.is_empty() {
                return Err(wrong("`source` is empty".into()));
            }
            self.fields.entry(row.vocabulary).or_default().insert(
                row.field,
                Field {
                    quantity,
                    unit: row.unit,
                    combine,
                },
            );
        }
        Ok(())
    }

    /// Adds rows of `telemetry_dcgm.csv`: field ids with all their names, the current one first.
    ///
    /// # Errors
    /// When a row cannot be.
    pub fn add_dcgm(&mut self, file: &str, text: &str) -> Result<(), CatalogueError> {
        for (line, row) in rows::<DcgmRow>(file, text)? {
            if row.source.is_empty() {
                return Err(CatalogueError::new(
                    file,
                    format!("line {line}"),
                    "`source` is empty",
                ));
            }
            let names = self.names.entry(row.field_id).or_default();
            for name in row.names.split('|').filter(|name| !name.is_empty()) {
                self.dcgm_ids.insert(name.into(), row.field_id);
                if !names.iter().any(|known| known == name) {
                    names.push(name.into());
                }
            }
        }
        Ok(())
    }

    /// The field of a tool under this name.
    pub fn field(&self, vocabulary: &str, name: &str) -> Option<&Field> {
        self.fields.get(vocabulary)?.get(name)
    }

    /// Whether a tool has any such field.
    pub fn knows(&self, vocabulary: &str, name: &str) -> bool {
        self.field(vocabulary, name).is_some()
    }

    /// The DCGM field id of a metric's name, of whatever age.
    pub fn dcgm_id(&self, metric: &str) -> Option<u32> {
        self.dcgm_ids.get(metric).copied()
    }

    /// What a metric of a Prometheus exporter is: dcgm-exporter by field id, others by name.
    pub fn metric(&self, metric: &str) -> Option<&Field> {
        match self.dcgm_id(metric) {
            Some(id) => self.field("dcgm", itoa(id, &mut [0; 10])),
            None => self
                .field("nvidia_gpu_exporter", metric)
                .or_else(|| self.field("triton", metric)),
        }
    }

    /// All names of metrics that tell a quantity, dcgm-exporter's of every age first; for queries.
    pub fn metrics_of(&self, quantity: Quantity) -> Vec<&str> {
        let mut found = Vec::new();
        for (id, names) in &self.names {
            if self
                .field("dcgm", &id.to_string())
                .is_some_and(|field| field.quantity == quantity)
            {
                found.extend(names.iter().map(String::as_str));
            }
        }
        if let Some(fields) = self.fields.get("nvidia_gpu_exporter") {
            let mut others: Vec<&str> = fields
                .iter()
                .filter(|(_, field)| field.quantity == quantity)
                .map(|(name, _)| name.as_str())
                .collect();
            others.sort_unstable();
            found.extend(others);
        }
        found
    }
}

/// A number's digits, without allocating: metrics are looked up once a sample.
fn itoa(mut number: u32, buffer: &mut [u8; 10]) -> &str {
    let mut at = buffer.len();
    for digit in buffer.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        at -= 1;
        if number == 0 {
            break;
        }
    }
    buffer
        .get(at..)
        .and_then(|digits| core::str::from_utf8(digits).ok())
        .unwrap_or("")
}

#[derive(Deserialize)]
struct ThresholdRow {
    value: f64,
    unit: String,
    meaning: String,
    source: String,
}

/// Reads thresholds: one TOML table each, with `value`, `unit`, `meaning` and `source`.
///
/// # Errors
/// When it is no TOML, or a row lacks one of them.
pub fn read_thresholds(file: &str, text: &str) -> Result<Thresholds, CatalogueError> {
    let read: BTreeMap<String, ThresholdRow> = from_toml(file, text)?;
    let mut rows = BTreeMap::new();
    for (name, row) in read {
        if row.source.trim().is_empty() || !row.value.is_finite() {
            return Err(CatalogueError::new(
                file,
                name,
                "`source` is empty, or `value` is no finite number",
            ));
        }
        rows.insert(
            name,
            Threshold {
                value: row.value,
                unit: row.unit,
                meaning: row.meaning,
                source: row.source,
            },
        );
    }
    Ok(Thresholds { rows })
}

#[derive(Deserialize)]
struct XidRow {
    code: u32,
    class: String,
    meaning: String,
    advice: String,
    source: String,
}

/// Reads `telemetry_xid.csv`: what error codes of the driver mean, and who must act.
///
/// # Errors
/// When a row cannot be.
pub fn read_xids(file: &str, text: &str) -> Result<BTreeMap<u32, XidMeaning>, CatalogueError> {
    let mut out = BTreeMap::new();
    for (line, row) in rows::<XidRow>(file, text)? {
        let wrong = |what: String| CatalogueError::new(file, format!("line {line}"), what);
        let class = match row.class.as_str() {
            "device" => FaultClass::Device,
            "link" => FaultClass::Link,
            "application" => FaultClass::Application,
            other => {
                return Err(wrong(format!(
                    "`class` is {other:?}; expected device, link or application"
                )));
            }
        };
        if row.source.is_empty() {
            return Err(wrong("`source` is empty".into()));
        }
        out.insert(
            row.code,
            XidMeaning {
                class,
                meaning: row.meaning,
                advice: row.advice,
            },
        );
    }
    Ok(out)
}
