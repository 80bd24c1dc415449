//! Functions as text: one line per fact, fields between commas.

use super::{Basis, Functions, Known};
use crate::{
    Lane, OperatorError,
    code::{self, Coded, Surface},
    law::{Law, TERMS},
    tables,
};
use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use core::fmt::Write as _;

impl Functions {
    /// Reads what [`Functions::text`] writes. Lines that start with `#` are passed over.
    ///
    /// # Errors
    /// When a line is not of this form; it is named.
    pub fn parse(text: &str) -> Result<Self, OperatorError> {
        let mut functions = Self::default();
        for (at, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            functions
                .line(line)
                .map_err(|problem| OperatorError::Line {
                    line: at + 1,
                    problem,
                })?;
        }
        Ok(functions)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split(',').collect();
        let [table, kind, key, rest @ ..] = fields.as_slice() else {
            return Err("table, kind and key are wanted".into());
        };
        let operator =
            tables::named(table).ok_or_else(|| format!("no operator is named {table:?}"))?;
        let known = self
            .known
            .entry(operator.name)
            .or_insert_with(|| Known::new(operator));
        match (*kind, rest) {
            ("lane", [count]) => {
                let measured = Lane::parse(key).ok_or("a lane has eight parts")?;
                let count = count.parse().map_err(|_| "rows are a whole number")?;
                known.lanes.insert(measured, count);
            }
            ("model", []) => {
                known.models.insert((*key).to_string());
            }
            ("share", [share]) => {
                known.shares.insert((*key).to_string(), number(share)?);
            }
            ("spread", [basis, low, high]) => {
                let basis = Basis::named(basis).ok_or_else(|| format!("no basis {basis:?}"))?;
                let ends = (number(low)?, number(high)?);
                known.spreads.insert((basis, (*key).to_string()), ends);
            }
            ("law", terms) if terms.len() == TERMS => {
                let mut law = Law::prior();
                for (term, text) in law.0.iter_mut().zip(terms) {
                    *term = number(text)?;
                    if *term <= 0.0 {
                        return Err(format!("{text:?} is not above 0"));
                    }
                }
                known.laws.insert((*key).to_string(), law);
            }
            ("surface", pairs) if pairs.len() == 2 * known.grids.len() => {
                let parts = pairs.chunks_exact(2).zip(&known.grids);
                let surface: Result<Surface, String> = parts
                    .map(|(pair, grid)| {
                        let step = number(pair[0])?;
                        let values = code::read(step, pair[1])
                            .filter(|values| values.len() == grid.len())
                            .ok_or_else(|| format!("a surface has {} digits", grid.len()))?;
                        Ok(Coded { step, values })
                    })
                    .collect();
                known.surfaces.insert((*key).to_string(), surface?);
            }
            _ => return Err(format!("{kind:?} with {} fields is not known", rest.len())),
        }
        Ok(())
    }

    /// As text, which [`Functions::parse`] reads.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (table, known) in &self.known {
            for (lane, rows) in &known.lanes {
                let path = lane.path(crate::LEVELS.len() - 1);
                line(&mut out, format_args!("{table},lane,{path},{rows}"));
            }
            for model in &known.models {
                line(&mut out, format_args!("{table},model,{model}"));
            }
            for (format, law) in &known.laws {
                let mut terms = String::new();
                for term in law.0 {
                    let _ = write!(terms, ",{term:.4e}");
                }
                line(&mut out, format_args!("{table},law,{format}{terms}"));
            }
            for (path, share) in &known.shares {
                line(&mut out, format_args!("{table},share,{path},{share:.3}"));
            }
            for ((basis, format), (low, high)) in &known.spreads {
                let basis = basis.name();
                line(
                    &mut out,
                    format_args!("{table},spread,{format},{basis},{low:.3},{high:.3}"),
                );
            }
            for (path, surface) in &known.surfaces {
                let mut parts = String::new();
                for coded in surface {
                    let _ = write!(parts, ",{:.4},{}", coded.step, code::written(coded));
                }
                line(&mut out, format_args!("{table},surface,{path}{parts}"));
            }
        }
        out
    }
}

fn line(out: &mut String, text: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|x: &f64| x.is_finite());
    number.ok_or_else(|| format!("{text:?} is not a number"))
}
