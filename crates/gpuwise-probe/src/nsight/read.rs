//! One export, table by table.

use super::build::{Builder, ProcessKey, process_id, process_key};
use super::database::Database;
use super::{NsightError, host, work};
use gpuwise_domain::profile::nsight::NsightExport;
use gpuwise_domain::profile::timeline::{CounterSample, Format, Lack, Needed};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Samples of counters that are kept; at 40 bytes each they take 200 MB.
const MOST_SAMPLES: usize = 5_000_000;

/// Tables of an export that name its kind.
const OWN_TABLES: [&str; 3] = ["META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV", "StringIds"];

/// What is read of a file while its processes are filled.
pub(super) struct Reading {
    pub(super) database: Database,
    pub(super) strings: HashMap<i64, String>,
    pub(super) thread_names: HashMap<i64, String>,
    pub(super) processes: BTreeMap<ProcessKey, Builder>,
}

/// Reads an export.
///
/// # Errors
///
/// Where the file is no SQLite, one of something else, damaged, or without anything of a GPU.
pub fn read_export(path: &Path) -> Result<NsightExport, NsightError> {
    let database = Database::open(path)?;
    let own =
        |table: &str| table.starts_with("CUPTI_ACTIVITY_KIND_") || OWN_TABLES.contains(&table);
    if !database.tables().any(own) {
        return Err(NsightError::Foreign {
            file: database.file().to_owned(),
            tables: listed(database.tables()),
        });
    }
    let mut export = NsightExport::default();
    for table in database
        .tables()
        .filter(|table| !table.starts_with("ENUM_"))
    {
        let rows = database.count(table)?;
        if rows > 0 {
            export.tables.insert(table.to_owned(), rows);
        }
    }
    let mut reading = Reading {
        strings: strings(&database)?,
        thread_names: HashMap::new(),
        processes: BTreeMap::new(),
        database,
    };
    reading.thread_names = thread_names(&reading)?;
    host::calls(&mut reading)?;
    work::kernels(&mut reading)?;
    work::graphs(&mut reading)?;
    work::copies(&mut reading)?;
    work::fills(&mut reading)?;
    if reading.processes.is_empty() {
        return Err(NsightError::NothingOfGpu {
            file: reading.database.file().to_owned(),
            tables: listed(export.tables.keys().map(String::as_str)),
        });
    }
    host::ranges(&mut reading)?;
    host::overhead(&mut reading)?;
    let epoch_ns = first_integer(
        &reading.database,
        "TARGET_INFO_SESSION_START_TIME",
        "utcEpochNs",
    )?;
    let (product, schema) = versions(&reading.database)?;
    devices(&mut reading)?;
    samples(&mut reading)?;
    let names = process_names(&reading.database)?;
    let lacks = lacks(&export.tables);
    for (key, mut builder) in reading.processes {
        builder.link_operators();
        builder.sort_devices();
        let mut process = builder.process;
        process.id = process_id(key);
        process.name = names.get(&key).cloned();
        let timeline = &mut process.timeline;
        timeline.format = Format::NsightSystems;
        timeline.lacks.clone_from(&lacks);
        timeline.epoch_ns = epoch_ns;
        let stated = [("Nsight Systems", &product), ("export schema", &schema)];
        for (name, version) in stated {
            let version = version.iter();
            timeline
                .software
                .extend(version.map(|v| (name.to_owned(), v.clone())));
        }
        export.processes.push(process);
    }
    (export.product_version, export.schema_version) = (product, schema);
    Ok(export)
}

/// What figures need, and the tables it would be in; a table without a row is none.
fn lacks(tables: &BTreeMap<String, u64>) -> Vec<Lack> {
    let needed: [(Needed, &[&str]); 4] = [
        (
            Needed::Kernels,
            &[
                "CUPTI_ACTIVITY_KIND_KERNEL",
                "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            ],
        ),
        (Needed::Copies, &["CUPTI_ACTIVITY_KIND_MEMCPY"]),
        (Needed::Calls, &["CUPTI_ACTIVITY_KIND_RUNTIME"]),
        (Needed::Names, &["StringIds"]),
    ];
    needed
        .into_iter()
        .filter(|(_, any)| !any.iter().any(|table| tables.contains_key(*table)))
        .map(|(needed, any)| Lack {
            needed,
            place: format!("the table {}", any.first().copied().unwrap_or_default()),
        })
        .collect()
}

fn listed<'t>(tables: impl Iterator<Item = &'t str>) -> String {
    let tables: Vec<&str> = tables.collect();
    if tables.is_empty() {
        return "no table".into();
    }
    let shown = tables
        .iter()
        .take(6)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match tables.len() {
        0..=6 => shown,
        more => format!("{shown} and {} more", more - 6),
    }
}

fn strings(database: &Database) -> Result<HashMap<i64, String>, NsightError> {
    let mut strings = HashMap::new();
    database.rows("StringIds", &["id", "value"], 2, |row| {
        if let Some(id) = row.integer(0) {
            strings.insert(id, row.text(1).unwrap_or_default());
        }
    })?;
    Ok(strings)
}

fn thread_names(reading: &Reading) -> Result<HashMap<i64, String>, NsightError> {
    let mut names = HashMap::new();
    let columns = ["globalTid", "nameId"];
    reading.database.rows("ThreadNames", &columns, 0, |row| {
        let name = row.integer(1).and_then(|id| reading.strings.get(&id));
        if let (Some(thread), Some(name)) = (row.integer(0), name) {
            names.insert(thread, name.clone());
        }
    })?;
    Ok(names)
}

fn process_names(database: &Database) -> Result<BTreeMap<ProcessKey, String>, NsightError> {
    let mut names = BTreeMap::new();
    database.rows("PROCESSES", &["globalPid", "name"], 0, |row| {
        if let (Some(global), Some(name)) = (row.integer(0), row.text(1)) {
            names.insert(process_key(global), name);
        }
    })?;
    Ok(names)
}

fn first_integer(
    database: &Database,
    table: &str,
    column: &str,
) -> Result<Option<i64>, NsightError> {
    let mut found = None;
    database.rows(table, &[column], 0, |row| found = found.or(row.integer(0)))?;
    Ok(found)
}

/// Versions of the profiler and of the schema.
fn versions(database: &Database) -> Result<(Option<String>, Option<String>), NsightError> {
    let (mut product, mut schema) = (None, None);
    let columns = ["name", "value"];
    database.rows("META_DATA_EXPORT", &columns, 0, |row| {
        match row.text(0).as_deref() {
            Some("EXPORT_PRODUCT_VERSION") => product = row.text(1),
            Some("EXPORT_SCHEMA_VERSION") => schema = row.text(1),
            _ => {}
        }
    })?;
    Ok((product, schema))
}

/// What a file states of a GPU.
#[derive(Clone, Default)]
struct Gpu {
    name: Option<String>,
    total_memory: Option<u64>,
    multiprocessors: Option<u32>,
    compute_capability: Option<(u32, u32)>,
}

/// Which GPU a device number of a process is; the same number where the file does not say.
fn gpu_ids(database: &Database) -> Result<BTreeMap<(i64, i64), i64>, NsightError> {
    let mut ids = BTreeMap::new();
    let columns = ["pid", "cudaId", "gpuId"];
    database.rows("TARGET_INFO_CUDA_DEVICE", &columns, 0, |row| {
        if let (Some(process), Some(device), Some(gpu)) =
            (row.integer(0), row.integer(1), row.integer(2))
        {
            ids.insert((process, device), gpu);
        }
    })?;
    Ok(ids)
}

fn devices(reading: &mut Reading) -> Result<(), NsightError> {
    let mut gpus: BTreeMap<i64, Gpu> = BTreeMap::new();
    let columns = [
        "id",
        "name",
        "totalMemory",
        "smCount",
        "computeMajor",
        "computeMinor",
    ];
    reading
        .database
        .rows("TARGET_INFO_GPU", &columns, 1, |row| {
            let small = |column| row.integer(column).and_then(|n| u32::try_from(n).ok());
            let gpu = Gpu {
                name: row.text(1),
                total_memory: row.integer(2).and_then(|bytes| u64::try_from(bytes).ok()),
                multiprocessors: small(3),
                compute_capability: small(4).zip(small(5)),
            };
            if let Some(id) = row.integer(0) {
                gpus.insert(id, gpu);
            }
        })?;
    let ids = gpu_ids(&reading.database)?;
    for (key, builder) in &mut reading.processes {
        for device in &mut builder.process.timeline.devices {
            let id = ids.get(&(process_id(*key), device.number));
            let gpu = gpus.get(id.unwrap_or(&device.number)).cloned();
            let gpu = gpu.unwrap_or_default();
            device.name = gpu.name;
            device.total_memory = gpu.total_memory;
            device.multiprocessors = gpu.multiprocessors;
            device.compute_capability = gpu.compute_capability;
        }
    }
    Ok(())
}

/// Sampled counters of GPUs, with the first process that uses the GPU. The low 32 bits of `typeId` are
/// the GPU.
fn samples(reading: &mut Reading) -> Result<(), NsightError> {
    let mut metrics: HashMap<(i64, i64), String> = HashMap::new();
    let columns = ["typeId", "metricId", "metricName"];
    reading
        .database
        .rows("TARGET_INFO_GPU_METRICS", &columns, 3, |row| {
            if let (Some(kind), Some(metric), Some(name)) =
                (row.integer(0), row.integer(1), row.text(2))
            {
                metrics.insert((kind, metric), name);
            }
        })?;
    let ids = gpu_ids(&reading.database)?;
    let mut places: BTreeMap<i64, ProcessKey> = BTreeMap::new();
    for (key, builder) in reading.processes.iter().rev() {
        for device in &builder.process.timeline.devices {
            let gpu = ids.get(&(process_id(*key), device.number));
            places.insert(*gpu.unwrap_or(&device.number), *key);
        }
    }
    let (mut kept, mut lost) = (0, 0);
    let columns = ["timestamp", "typeId", "metricId", "value"];
    let processes = &mut reading.processes;
    reading.database.rows("GPU_METRICS", &columns, 4, |row| {
        let (Some(at_ns), Some(kind), Some(metric), Some(value)) =
            (row.integer(0), row.integer(1), row.integer(2), row.real(3))
        else {
            lost += 1;
            return;
        };
        let device = kind & 0xffff_ffff;
        let place = places.get(&device).and_then(|key| processes.get_mut(key));
        let (Some(name), Some(builder)) = (metrics.get(&(kind, metric)), place) else {
            lost += 1;
            return;
        };
        if kept >= MOST_SAMPLES {
            lost += 1;
            return;
        }
        kept += 1;
        let name = builder.name(name);
        builder.process.timeline.samples.push(CounterSample {
            at_ns,
            device,
            name,
            value,
        });
    })?;
    if let Some(builder) = reading.processes.values_mut().next() {
        builder.lose(
            "samples of GPUs that no process here used, without a name, or beyond 5,000,000",
            lost,
        );
    }
    Ok(())
}
