//! Rows of tables of operator times.

use crate::{error::Problem, questions::read_text};
use gpuwise_domain::{catalogue::Catalogue, gpu::Device};
use gpuwise_operators::{Columns, Row, Silicon, fit::Samples, tables::Operator};
use gpuwise_read::table_error;
use std::{collections::BTreeMap, path::Path};

/// GPUs by the names that tables give their systems.
pub(super) struct Systems<'a> {
    catalogue: &'a Catalogue,
    known: BTreeMap<String, Silicon>,
}

impl<'a> Systems<'a> {
    pub(super) fn new(catalogue: &'a Catalogue) -> Self {
        Self {
            catalogue,
            known: BTreeMap::new(),
        }
    }

    /// That of a system's name.
    pub(super) fn silicon(&mut self, name: &str) -> anyhow::Result<&Silicon> {
        if !self.known.contains_key(name) {
            let gpu = crate::names::gpu(self.catalogue, "system", name)?;
            let silicon = Silicon::of(&Device::whole(gpu));
            self.known.insert(name.to_owned(), silicon);
        }
        self.known
            .get(name)
            .ok_or_else(|| Problem::new(format!("system {name}")).into())
    }
}

pub(super) struct File {
    name: String,
    text: String,
}

impl File {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            name: path.display().to_string(),
            text: read_text(path)?,
        })
    }

    /// Calls a function with each row and its number in the file.
    pub(super) fn each(
        &self,
        operator: &'static Operator,
        mut take: impl FnMut(&Row<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let wrong =
            |line: u64, what: String| Problem::new(format!("{}, line {line}: {what}", self.name));
        let mut reader = csv::Reader::from_reader(self.text.as_bytes());
        let header = reader
            .headers()
            .map_err(|error| wrong(1, table_error(&error, None)))?
            .clone();
        let columns = Columns::new(operator.name, header.iter());
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record).map_err(|error| {
            wrong(
                error.position().map_or(0, csv::Position::line),
                table_error(&error, None),
            )
        })? {
            let fields: Vec<&str> = record.iter().collect();
            let row = Row {
                columns: &columns,
                fields: &fields,
            };
            let line = record.position().map_or(0, csv::Position::line);
            take(&row).map_err(|error| wrong(line, error.to_string()))?;
        }
        Ok(())
    }
}

/// The rows of a table in a directory.
pub(super) fn samples(
    directory: &Path,
    operator: &'static Operator,
    systems: &mut Systems<'_>,
) -> anyhow::Result<Samples> {
    let mut samples = Samples::new(operator);
    let packed = directory.join(format!("{}.csv.gz", operator.name));
    let plain = directory.join(format!("{}.csv", operator.name));
    let file = File::read(if packed.exists() { &packed } else { &plain })?;
    file.each(operator, |row| {
        let silicon = systems.silicon(row.text("system")?)?;
        Ok(samples.push(row, silicon)?)
    })?;
    Ok(samples)
}
