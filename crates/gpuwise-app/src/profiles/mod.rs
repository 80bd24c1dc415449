//! Profiles from files: which, of what format, read and measured over all cores.

pub mod beside;
pub mod bucket;
mod content;
mod files;
mod formats;
#[cfg(feature = "nsight")]
mod nsight;
mod reached;
#[cfg(feature = "database")]
mod shard;

pub use files::{expand, rank_in_name};
#[cfg(feature = "database")]
pub use shard::{Shard, ShardSpec};

use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
    progress,
};
use anyhow::Context as _;
use gpuwise_domain::{
    gpu::{Gpu, PeakRates},
    profile::{
        figures::{Gap, NamedTime, OperatorTree, ProfileFigures, Window},
        flight_recorder::FlightRecord,
        kernel_counters::CounterRules,
        kernel_rules::KernelRules,
        sources::{HangSource, Roofs, Source, SourceContent},
        timeline::{Loss, Timeline},
    },
};
use gpuwise_lab::spread;
use gpuwise_measure::{
    figures::{Classifier, Input, Measured, Settings, gaps, of_rank},
    findings::{self, Signals, Thresholds},
    kernel_counters::under,
    operators::{Gpus, RangeUse, Times, of_rank as of_operators},
    streams::{SeriesOf, StreamUse},
};
use gpuwise_read::{kernel_counters::read_counter_rules, kernel_rules};
use reached::Reached;
use std::{
    collections::BTreeMap,
    num::NonZero,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

#[derive(Debug)]
pub struct ProfileQuery {
    names: Classifier,
    peaks: BTreeMap<String, PeakRates>,
    reached: Reached,
    counters: CounterRules,
    /// What findings are held against.
    pub limits: Thresholds,
    /// Only what happened within it, from the first work of a file on.
    pub window: Option<Window>,
    pub device: Option<i64>,
    /// What files do not name.
    pub gpu: Option<Gpu>,
    /// Whether no bucket may be asked.
    pub offline: bool,
    /// Whether each file is told apart from others by its content, which takes another look at it.
    pub identified: bool,
    /// Whether each file is a job of its own, also dumps that would say more together.
    pub apart: bool,
}

impl ProfileQuery {
    /// Everything, by the rules of the catalogue.
    ///
    /// # Errors
    /// When the rules cannot be read.
    pub fn new(loaded: &Loaded) -> anyhow::Result<Self> {
        let mut rules = KernelRules::default();
        for (file, text) in catalogue::files(loaded, OwnRows::KernelNames) {
            rules = kernel_rules::read(file, text)?.over(rules);
        }
        let (file, text) = catalogue::file(loaded, OwnRows::KernelCounters);
        let counters = read_counter_rules(file, text)?;
        let limits = Thresholds::replaced_by(&loaded.finding_thresholds)
            .context("findings.toml of your catalogue")?;
        let gpus = loaded.catalogue.gpus.iter();
        let gpus: BTreeMap<String, Gpu> = gpus
            .flat_map(|gpu| {
                let names = std::iter::once(&gpu.name).chain(&gpu.aliases);
                names.map(|name| (name.clone(), gpu.clone()))
            })
            .collect();
        Ok(Self {
            limits,
            counters,
            names: Classifier::new(&rules),
            peaks: gpus
                .iter()
                .map(|(name, gpu)| (name.clone(), gpu.peak))
                .collect(),
            reached: Reached::new(gpus, loaded)?,
            window: None,
            device: None,
            gpu: None,
            offline: false,
            identified: false,
            apart: false,
        })
    }
}

impl ProfileQuery {
    /// The kind of a kernel or copy by its name.
    pub fn kind_of(&self, name: &str) -> &str {
        self.names.kind_name(self.names.kernel(name).kind)
    }

    /// Why each device of a file stood still.
    pub fn gaps(&self, timeline: &Timeline) -> Vec<(i64, Vec<Gap>)> {
        gaps(timeline, &self.settings(timeline))
    }

    /// Time by module and operator of a file.
    pub fn operators(&self, file: &str, timeline: &Timeline, gpus: &Gpus<'_>) -> OperatorTree {
        of_operators(file, timeline, &self.settings(timeline), gpus)
    }

    /// Kernel time of all files by operator and by kernel, in rows few enough to keep; figures are of
    /// the same files in the same order.
    pub fn times(&self, timelines: &[Timeline], figures: &ProfileFigures) -> Vec<NamedTime> {
        let mut times = Times::default();
        for (timeline, rank) in timelines.iter().zip(&figures.ranks) {
            times.add(timeline, &self.settings(timeline), rank);
        }
        times.rows()
    }

    /// Charges the time of a file again, whose timeline has samples that it had not.
    pub fn conclude_again(&self, one: &mut Profiled) {
        let settings = self.settings(&one.timeline);
        let steps = one.measured.figures.steps.as_ref();
        one.signals = self.on_gpus(|gpus| {
            findings::signals_on(gpus, &one.timeline, steps, &settings, &self.limits)
        });
    }

    /// What each stream of a file did.
    pub fn streams(&self, timeline: &Timeline) -> Vec<StreamUse> {
        gpuwise_measure::streams::of_rank(timeline, &self.settings(timeline))
    }

    /// Ranges of a file by the work that was launched within them.
    pub fn ranges(&self, timeline: &Timeline) -> Vec<RangeUse> {
        gpuwise_measure::operators::ranges(timeline, &self.settings(timeline))
    }

    /// How much waits in the queue of each stream.
    pub fn queues(&self, timeline: &Timeline) -> Vec<SeriesOf> {
        gpuwise_measure::streams::queues(timeline, &self.settings(timeline))
    }

    /// Bytes a second of copies by direction.
    pub fn bandwidth(&self, timeline: &Timeline) -> Vec<SeriesOf> {
        gpuwise_measure::streams::bandwidth(timeline, &self.settings(timeline))
    }

    /// What is measured of a file; a window counts from its first work on.
    fn settings(&self, timeline: &Timeline) -> Settings<'_> {
        let first = timeline.work.iter().map(|work| work.start_ns).min();
        Settings {
            names: &self.names,
            window: self.window.map(|window| Window {
                start_ns: window.start_ns.saturating_add(first.unwrap_or(0)),
                end_ns: window.end_ns.saturating_add(first.unwrap_or(0)),
            }),
            device: self.device,
            peaks: &self.peaks,
        }
    }
}

/// One file, read and measured.
#[derive(Debug)]
pub struct Profiled {
    /// The file as the user named it.
    pub file: String,
    /// What it is known by, where that was asked for: the hash of its file, and which process of it.
    pub content: Option<String>,
    pub timeline: Timeline,
    pub measured: Measured,
    /// What its time is charged to.
    pub signals: Signals,
}

/// A file that could not be used, and why.
#[derive(Debug)]
pub struct Unusable {
    /// The file as the user named it.
    pub file: String,
    pub error: anyhow::Error,
}

#[derive(Debug, Default)]
pub struct Everything {
    /// Timelines, measured, in the order of the files.
    pub profiled: Vec<Profiled>,
    /// What files other than traces say beyond a timeline, in their order.
    pub sources: Vec<Source>,
    /// What each of them is known by, in the same order, where that was asked for.
    pub contents: Vec<String>,
    /// Files that could not be used.
    pub unusable: Vec<Unusable>,
}

/// Reads and measures files over all cores.
pub fn measure(files: &[PathBuf], wanted: &ProfileQuery) -> Everything {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let work = || {
        let mut found = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(place) else {
                return found;
            };
            found.push((place, one(file, wanted)));
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress::doing(&format!("{count} of {} files read", files.len()));
        }
    };
    let mut found = spread(cores.min(files.len()), |_| work());
    progress::doing("");
    found.sort_by_key(|(place, _)| *place);
    let mut everything = Everything::default();
    let (mut flights, mut dumps) = (Vec::new(), Vec::new());
    for (place, result) in found {
        let file = name_of(files.get(place).map_or(Path::new(""), |file| file));
        match result {
            Ok(read) => {
                everything.profiled.extend(read.profiled);
                if let Some(flight) = read.flight {
                    flights.push((file.clone(), flight));
                    dumps.extend(read.hash.clone());
                }
                if let Some(content) = read.content {
                    everything.sources.push(Source { file, content });
                    everything.contents.extend(read.hash);
                }
            }
            Err(error) => everything.unusable.push(Unusable { file, error }),
        }
    }
    let together = if wanted.apart { 1 } else { flights.len() };
    let together = together.max(1);
    everything
        .sources
        .extend(flights.chunks(together).filter_map(hangs));
    for dumps in dumps.chunks_mut(together) {
        // The same dumps in another order are the same.
        dumps.sort_unstable();
        everything.contents.push(dumps.join(" "));
    }
    everything
}

fn name_of(file: &Path) -> String {
    file.display().to_string()
}

#[derive(Debug, Default)]
struct Read {
    profiled: Vec<Profiled>,
    content: Option<SourceContent>,
    flight: Option<FlightRecord>,
    /// Of the file's content, where that was asked for.
    hash: Option<String>,
}

fn one(file: &Path, wanted: &ProfileQuery) -> anyhow::Result<Read> {
    let here = bucket::here(file, wanted.offline)?;
    let local = here.path(file);
    let mut opened = formats::read(local, &wanted.counters)?;
    if let (Some(gpu), Some(SourceContent::Counters(counters))) = (&wanted.gpu, &mut opened.content)
    {
        let roofs = Roofs {
            memory: Some(gpu.bandwidth.get()),
            fp32: gpu.peak.fp32.map(gpuwise_units::FlopPerSecond::get),
        };
        under(counters, roofs);
    }
    let hash = wanted.identified.then(|| hashed(local)).transpose()?;
    let timelines = opened.timelines.into_iter();
    let profiled = timelines.map(|(process, timeline)| {
        let name = match &process {
            Some(process) => format!("{}, {process}", name_of(file)),
            None => name_of(file),
        };
        let content = hash
            .as_ref()
            .map(|hash| format!("{hash} {}", process.unwrap_or_default()));
        Profiled {
            content,
            ..measured(file, name, timeline, wanted)
        }
    });
    Ok(Read {
        profiled: profiled.collect(),
        content: opened.content,
        flight: opened.flight,
        hash,
    })
}

/// What a file holds, compressed or not, as a hash.
#[cfg(feature = "database")]
fn hashed(file: &Path) -> anyhow::Result<String> {
    let cannot = |error| Problem::new(format!("cannot read {}", file.display())).because(error);
    let opened = std::fs::File::open(file).map_err(cannot)?;
    let content = gpuwise_read::kineto::open(opened);
    Ok(gpuwise_store::content_hash(content).map_err(cannot)?)
}

/// Nothing is kept without a database.
#[cfg(not(feature = "database"))]
fn hashed(file: &Path) -> anyhow::Result<String> {
    Err(Problem::new(format!(
        "{} cannot be kept: there is no database",
        file.display()
    ))
    .into())
}

/// Dumps of flight recorders say something together: one source for all of them.
fn hangs(records: &[(String, FlightRecord)]) -> Option<Source> {
    let (first, _) = records.first()?;
    let all: Vec<FlightRecord> = records.iter().map(|(_, record)| record.clone()).collect();
    Some(Source {
        file: match records.len() {
            1 => first.clone(),
            many => format!("{first} and {} more", many - 1),
        },
        content: SourceContent::Hangs(HangSource {
            ranks: all.iter().filter_map(|record| record.rank).collect(),
            dump_count: all.len() as u64,
            hangs: gpuwise_measure::hung::hangs(&all),
        }),
    })
}

fn measured(file: &Path, name: String, mut timeline: Timeline, wanted: &ProfileQuery) -> Profiled {
    if let Some(device) = wanted.device
        && timeline.devices.iter().all(|known| known.number != device)
    {
        timeline.losses.push(Loss {
            what: format!("work on device {device}: the file has none"),
            count: 1,
            first: None,
        });
    }
    if let Some(gpu) = &wanted.gpu {
        for device in timeline
            .devices
            .iter_mut()
            .filter(|device| device.name.is_none())
        {
            device.name = Some(gpu.name.clone());
        }
    }
    let settings = wanted.settings(&timeline);
    let measured = of_rank(
        &Input {
            file: &name,
            rank: files::rank_in_name(file),
            timeline: &timeline,
        },
        &settings,
    );
    let steps = measured.figures.steps.as_ref();
    let signals = wanted
        .on_gpus(|gpus| findings::signals_on(gpus, &timeline, steps, &settings, &wanted.limits));
    Profiled {
        file: name,
        content: None,
        timeline,
        measured,
        signals,
    }
}
