//! The table of an export, long or wide.

use super::{KernelCountersError, number::number, text, unit};
use gpuwise_domain::profile::kernel_counters::{
    CountedLaunch, CountedMetric, CountedValue, CounterRules, KernelCounters, ProfilerAdvice,
};
use gpuwise_domain::profile::timeline::{Loss, NameId};
use std::collections::BTreeMap;

/// Lines printed around the table that are kept.
const PRINTED_KEPT: usize = 1_000;

/// Reads an export of Nsight Compute.
///
/// # Errors
///
/// Where there is no header of one, or no launch under it.
pub fn read_kernel_counters(
    bytes: &[u8],
    rules: &CounterRules,
) -> Result<KernelCounters, KernelCountersError> {
    let text = text::decode(bytes);
    let Some(begin) = text::header(&text) else {
        return Err(KernelCountersError::NoHeader {
            lines: text.lines().count(),
        });
    };
    let (before, table) = text.split_at_checked(begin).unwrap_or(("", &text));
    let mut reader = Reader {
        counters: KernelCounters::default(),
        names: BTreeMap::new(),
        launches: BTreeMap::new(),
        rules,
        units: Vec::new(),
        unread: 0,
        first_unread: None,
    };
    for line in before.lines() {
        reader.print(line);
    }
    let mut csv = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(table.as_bytes());
    let mut records = csv.records();
    let header: Vec<String> = match records.next() {
        Some(Ok(record)) => record.iter().map(|cell| cell.trim().to_owned()).collect(),
        _ => Vec::new(),
    };
    let columns = Columns::of(&header);
    for record in records.flatten() {
        reader.record(&header, &columns, &record);
    }
    reader.finish()
}

/// Where the cells are that every form has; `None` where the file has no such column.
struct Columns {
    id: Option<usize>,
    kernel: Option<usize>,
    metric: Option<usize>,
    value: Option<usize>,
    unit: Option<usize>,
    section: Option<usize>,
    rule: Option<usize>,
    places: BTreeMap<String, usize>,
}

/// Columns that are about the launch; all others of the wide form are metrics.
const LAUNCH: [&str; 13] = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Function Name",
];

impl Columns {
    fn of(header: &[String]) -> Self {
        let places: BTreeMap<String, usize> = header
            .iter()
            .enumerate()
            .rev()
            .map(|(place, name)| (name.clone(), place))
            .collect();
        let place = |name: &str| places.get(name).copied();
        Self {
            id: place("ID"),
            kernel: place("Kernel Name"),
            metric: place("Metric Name"),
            value: place("Metric Value"),
            unit: place("Metric Unit"),
            section: place("Section Name"),
            rule: place("Rule Name"),
            places,
        }
    }

    /// A cell that is there and not empty.
    fn cell<'r>(&self, record: &'r csv::StringRecord, name: &str) -> Option<&'r str> {
        cell(record, self.places.get(name).copied())
    }
}

fn cell(record: &csv::StringRecord, place: Option<usize>) -> Option<&str> {
    let text = record.get(place?)?.trim();
    (!text.is_empty()).then_some(text)
}

struct Reader<'r> {
    counters: KernelCounters,
    names: BTreeMap<String, NameId>,
    launches: BTreeMap<(String, String, String), usize>,
    rules: &'r CounterRules,
    units: Vec<String>,
    unread: u64,
    first_unread: Option<String>,
}

impl Reader<'_> {
    fn print(&mut self, line: &str) {
        let line = line.trim_end();
        if !line.is_empty() && self.counters.printed.len() < PRINTED_KEPT {
            self.counters.printed.push(line.to_owned());
        }
    }

    fn name(&mut self, text: &str) -> NameId {
        if let Some(known) = self.names.get(text) {
            return *known;
        }
        let id = self.counters.names.add(text);
        self.names.insert(text.into(), id);
        id
    }

    fn record(&mut self, header: &[String], columns: &Columns, record: &csv::StringRecord) {
        let enough = columns.kernel.max(columns.metric).unwrap_or(0);
        if record.len() <= enough || record.len() > header.len() + 1 {
            // What is printed between rows has no columns.
            let line: Vec<&str> = record.iter().collect();
            let line = line.join(",");
            if !line.starts_with("==") && record.len() > 1 {
                self.unread += 1;
                let at = record.position().map_or(0, csv::Position::line);
                self.first_unread
                    .get_or_insert(format!("row {at} of the table"));
            }
            self.print(&line);
            return;
        }
        if header
            .iter()
            .map(String::as_str)
            .eq(record.iter().map(str::trim))
        {
            return;
        }
        if columns.metric.is_some() {
            self.long(columns, record);
        } else if cell(record, columns.id).is_none() {
            // The row of units under the header of the wide form has no number.
            self.units = record.iter().map(str::to_owned).collect();
        } else {
            self.wide(header, columns, record);
        }
    }

    /// A metric, or an advice, of a launch.
    fn long(&mut self, columns: &Columns, record: &csv::StringRecord) {
        let launch = self.launch(columns, record);
        if let Some(rule) = cell(record, columns.rule) {
            let text = |name| columns.cell(record, name);
            let advice = ProfilerAdvice {
                rule: rule.to_owned(),
                kind: text("Rule Type").unwrap_or("").to_owned(),
                text: text("Rule Description").unwrap_or("").to_owned(),
                speedup_percent: text("Estimated Speedup").and_then(number),
                speedup_scope: text("Estimated Speedup Type").map(str::to_owned),
            };
            if let Some(launch) = self.counters.launches.get_mut(launch) {
                launch.advice.push(advice);
            }
            return;
        }
        let Some(label) = cell(record, columns.metric) else {
            return;
        };
        let section = cell(record, columns.section);
        let unit = cell(record, columns.unit).unwrap_or("");
        let value = columns
            .value
            .and_then(|place| record.get(place))
            .unwrap_or("");
        self.metric(launch, label, section, unit, value);
    }

    /// All metrics of a launch.
    fn wide(&mut self, header: &[String], columns: &Columns, record: &csv::StringRecord) {
        let launch = self.launch(columns, record);
        for (place, label) in header.iter().enumerate() {
            let value = record.get(place).unwrap_or("");
            if LAUNCH.contains(&label.as_str()) || label.is_empty() || value.trim().is_empty() {
                continue;
            }
            let unit = self.units.get(place).cloned().unwrap_or_default();
            self.metric(launch, label, None, &unit, value);
        }
    }

    fn metric(
        &mut self,
        launch: usize,
        label: &str,
        section: Option<&str>,
        unit: &str,
        value: &str,
    ) {
        let canonical = self.canonical(label, unit);
        let (unit, factor) = unit::base(unit);
        let value = value.trim();
        let (unit, value) = match number(value) {
            Some(number) => (unit, CountedValue::Number(number * factor)),
            None => (unit, CountedValue::Text(value.to_owned())),
        };
        let metric = CountedMetric {
            name: self.name(&canonical),
            label: self.name(label),
            section: section.map(|section| self.name(section)),
            unit: self.name(&unit),
            value,
        };
        if let Some(launch) = self.counters.launches.get_mut(launch) {
            launch.metrics.push(metric);
        }
    }

    /// The name of a metric: it is one itself, or a label says one (`--print-metric-name label-name`
    /// prints both). `Memory Throughput` is a share of peak in one section and bytes a second in another.
    fn canonical(&self, label: &str, unit: &str) -> String {
        let word = label
            .split([' ', ':', '(', ')'])
            .find(|word| word.contains("__"));
        if let Some(word) = word {
            return word.to_owned();
        }
        let mut labels = self.rules.labels.iter();
        let known = labels.find(|(known, name)| {
            known == label && (!name.contains("pct_of_peak") || matches!(unit, "%" | ""))
        });
        known.map_or_else(|| label.to_owned(), |(_, name)| name.clone())
    }

    /// The record of a launch: rows of one launch share its number, process and host.
    fn launch(&mut self, columns: &Columns, record: &csv::StringRecord) -> usize {
        let text = |name| columns.cell(record, name);
        let owned = |name| text(name).unwrap_or("").to_owned();
        let key = (owned("ID"), owned("Process ID"), owned("Host Name"));
        let next = self.counters.launches.len();
        let index = *self.launches.entry(key).or_insert(next);
        if index == next {
            let launch = CountedLaunch {
                id: owned("ID"),
                kernel: owned("Kernel Name"),
                process: text("Process ID").and_then(|id| id.parse().ok()),
                process_name: text("Process Name").map(str::to_owned),
                device: text("Device").and_then(|device| device.parse().ok()),
                stream: text("Stream").and_then(|stream| stream.parse().ok()),
                block: text("Block Size").and_then(three),
                grid: text("Grid Size").and_then(three),
                compute_capability: text("CC").and_then(|cc| {
                    let (major, minor) = cc.split_once('.')?;
                    Some((major.parse().ok()?, minor.parse().ok()?))
                }),
                ..CountedLaunch::default()
            };
            self.counters.launches.push(launch);
        }
        index
    }

    fn finish(mut self) -> Result<KernelCounters, KernelCountersError> {
        if self.counters.launches.is_empty() {
            let mut told = self.counters.printed.iter();
            let told =
                told.find(|line| line.starts_with("==WARNING==") || line.starts_with("==ERROR=="));
            return Err(KernelCountersError::NoLaunch {
                printed: told
                    .cloned()
                    .unwrap_or_else(|| "the table has no rows".into()),
            });
        }
        if self.unread > 0 {
            self.counters.losses.push(Loss {
                what: "rows of the table with fewer or more cells than its header".into(),
                count: self.unread,
                first: self.first_unread,
            });
        }
        Ok(self.counters)
    }
}

/// `(384, 1, 1)`.
fn three(text: &str) -> Option<[u32; 3]> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let mut parts = inner.split(',').map(|part| part.trim().parse::<u32>());
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(Ok(x)), Some(Ok(y)), Some(Ok(z)), None) => Some([x, y, z]),
        _ => None,
    }
}
