use crate::OperatorError;
use alloc::{string::ToString as _, vec::Vec};

#[derive(Debug, Clone)]
pub struct Columns<'a> {
    names: Vec<&'a str>,
    table: &'static str,
}

impl<'a> Columns<'a> {
    /// Those of a file's header.
    pub fn new(table: &'static str, names: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            names: names.into_iter().map(str::trim).collect(),
            table,
        }
    }

    /// Headers in the order of the file.
    pub fn names(&self) -> &[&'a str] {
        &self.names
    }

    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| *known == name)
    }
}

/// A row of a file of operator times.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The header that tells which field is which.
    pub columns: &'a Columns<'a>,
    /// The fields, one for each column.
    pub fields: &'a [&'a str],
}

impl<'a> Row<'a> {
    /// The text of a column, if the file has it.
    pub fn optional(&self, column: &str) -> Option<&'a str> {
        let at = self.columns.position(column)?;
        self.fields.get(at).map(|field| field.trim())
    }

    /// The text of a column.
    ///
    /// # Errors
    /// When the file has no such column.
    pub fn text(&self, column: &'static str) -> Result<&'a str, OperatorError> {
        self.optional(column).ok_or(OperatorError::NoColumn {
            table: self.columns.table,
            column,
        })
    }

    /// A number of a column, 0 included.
    ///
    /// # Errors
    /// When there is no such column, or it holds no finite number of 0 or more.
    pub fn count(&self, column: &'static str) -> Result<f64, OperatorError> {
        let text = self.text(column)?;
        let number = text.parse().ok().filter(|x: &f64| x.is_finite());
        number
            .filter(|x| *x >= 0.0)
            .ok_or_else(|| OperatorError::Field {
                column,
                value: text.to_string(),
                wanted: "a number of 0 or more",
            })
    }

    /// A number of a column.
    ///
    /// # Errors
    /// When there is no such column, or it holds no finite number above 0.
    pub fn size(&self, column: &'static str) -> Result<f64, OperatorError> {
        let number = self.count(column)?;
        if number > 0.0 {
            return Ok(number);
        }
        Err(OperatorError::Field {
            column,
            value: self.text(column)?.to_string(),
            wanted: "a number above 0",
        })
    }
}
