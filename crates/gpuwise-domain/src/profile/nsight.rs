//! An export of Nsight Systems: the timelines of its processes, and what is known of the file itself.

use super::timeline::{NameId, Timeline};
use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};

/// An SQLite export of Nsight Systems.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NsightExport {
    /// Version of the profiler, where stated.
    pub product_version: Option<String>,
    /// Version of the schema, where stated.
    pub schema_version: Option<String>,
    /// Tables with their rows, in alphabetical order; empty ones and tables of constants are left out.
    pub tables: BTreeMap<String, u64>,
    /// Processes that called the GPU's runtime or worked on a GPU, in ascending order of their ids.
    pub processes: Vec<NsightProcess>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct NsightProcess {
    /// Its process id; 0 where the file does not tell it.
    pub id: i64,
    /// Its name, where stated.
    pub name: Option<String>,
    pub timeline: Timeline,
    /// The short names of kernels, without types and arguments, by their full names.
    pub short_names: BTreeMap<NameId, Box<str>>,
}

impl NsightProcess {
    /// The short name of a piece of work: its full name where there is no shorter one.
    pub fn short_name(&self, name: NameId) -> &str {
        let short = self.short_names.get(&name);
        match short {
            Some(short) => short,
            None => self.timeline.names.text(name),
        }
    }
}
