//! How the parts of a machine are connected.

use alloc::{string::String, vec::Vec};

/// A table of `nvidia-smi topo -m`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Its columns before the affinities (`GPU0`, `NIC3`).
    pub columns: Vec<String>,
    /// Its rows; a part of a table may hold only some.
    pub rows: Vec<TopologyRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopologyRow {
    /// `GPU0`, `NIC3`.
    pub name: String,
    /// The link to each column (`X`, `NV18`, `PIX`, `SYS`), as many as there are columns.
    pub links: Vec<String>,
    /// Processors near it, as ranges from and to; empty where the table does not say.
    pub cpus: Vec<(u32, u32)>,
    /// NUMA nodes near it; empty where the table does not say.
    pub numa: Vec<u32>,
}

impl Topology {
    /// The link between two parts (`NV18`), where the table says it.
    pub fn link(&self, from: &str, to: &str) -> Option<&str> {
        let column = self.columns.iter().position(|name| name == to)?;
        let row = self.rows.iter().find(|row| row.name == from)?;
        row.links.get(column).map(String::as_str)
    }

    pub fn gpu(&self, index: u32) -> Option<&TopologyRow> {
        self.rows.iter().find(|row| {
            row.name
                .strip_prefix("GPU")
                .is_some_and(|number| number.parse() == Ok(index))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Index into the subjects.
    pub subject: u32,
    pub number: u32,
    /// Bytes a second in one direction; `None` is a link that is down.
    pub bytes_per_second: Option<f64>,
}
