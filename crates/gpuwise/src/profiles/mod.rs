//! Profiles from files: which, of what format, read and measured over all cores.

mod content;
mod files;

pub(crate) use files::expand;

use crate::{catalogue::Loaded, error::Problem, output};
use anyhow::Context as _;
use content::Content;
use gpuwise_domain::{
    gpu::PeakRates,
    profile::{
        figures::Window,
        timeline::{Loss, Timeline},
    },
};
use gpuwise_measure::figures::{Classifier, Input, Measured, Settings, of_rank};
use gpuwise_read::{kernel_rules, kineto};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Read as _, Seek as _},
    num::NonZero,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// What names of kernels and calls say, as the binary carries it.
const KERNELS: &str = include_str!("../../../../catalogue/kernels.toml");

/// What is asked of profiles.
#[derive(Debug)]
pub(crate) struct Wanted {
    names: Classifier,
    peaks: BTreeMap<String, PeakRates>,
    /// Only what happened within it, from the first work of a file on.
    pub(crate) window: Option<Window>,
    /// Only the device of this number.
    pub(crate) device: Option<i64>,
}

impl Wanted {
    /// Everything, by the rules of the catalogue.
    ///
    /// # Errors
    /// When the rules cannot be read.
    pub(crate) fn new(loaded: &Loaded) -> anyhow::Result<Self> {
        let rules = kernel_rules::read("kernels.toml", KERNELS)
            .context("the catalogue that gpuwise carries")?;
        let gpus = loaded.catalogue.gpus.iter();
        Ok(Self {
            names: Classifier::new(&rules),
            peaks: gpus
                .flat_map(|gpu| {
                    let names = std::iter::once(&gpu.name).chain(&gpu.aliases);
                    names.map(|name| (name.clone(), gpu.peak))
                })
                .collect(),
            window: None,
            device: None,
        })
    }
}

/// One file, read and measured.
#[derive(Debug)]
pub(crate) struct Profiled {
    /// The file as the user named it.
    pub(crate) file: String,
    /// What it holds.
    pub(crate) timeline: Timeline,
    /// What it says.
    pub(crate) measured: Measured,
}

/// A file that could not be used, and why.
#[derive(Debug)]
pub(crate) struct Unusable {
    /// The file as the user named it.
    pub(crate) file: String,
    /// What was wrong.
    pub(crate) error: anyhow::Error,
}

/// Reads and measures files over all cores; in their order, those that are unusable apart.
pub(crate) fn measure(files: &[PathBuf], wanted: &Wanted) -> (Vec<Profiled>, Vec<Unusable>) {
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
            output::progress(&format!("{count} of {} files read", files.len()));
        }
    };
    let mut found = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores.min(files.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let mut all = Vec::new();
        for worker in workers {
            match worker.join() {
                Ok(found) => all.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    output::progress("");
    found.sort_by_key(|(place, _)| *place);
    let (mut usable, mut unusable) = (Vec::new(), Vec::new());
    for (place, result) in found {
        match result {
            Ok(profiled) => usable.push(profiled),
            Err(error) => unusable.push(Unusable {
                file: name_of(files.get(place).map_or(Path::new(""), |file| file)),
                error,
            }),
        }
    }
    (usable, unusable)
}

fn name_of(file: &Path) -> String {
    file.display().to_string()
}

fn one(file: &Path, wanted: &Wanted) -> anyhow::Result<Profiled> {
    let mut timeline = read(file)?;
    let first = timeline.work.iter().map(|work| work.start_ns).min();
    let window = wanted.window.map(|window| Window {
        start_ns: window.start_ns.saturating_add(first.unwrap_or(0)),
        end_ns: window.end_ns.saturating_add(first.unwrap_or(0)),
    });
    if let Some(device) = wanted.device
        && timeline.devices.iter().all(|known| known.number != device)
    {
        timeline.losses.push(Loss {
            what: format!("work on device {device}: the file has none"),
            count: 1,
            first: None,
        });
    }
    let name = name_of(file);
    let measured = of_rank(
        &Input {
            file: &name,
            rank: files::rank_in_name(file),
            timeline: &timeline,
        },
        &Settings {
            names: &wanted.names,
            window,
            device: wanted.device,
            peaks: &wanted.peaks,
        },
    );
    Ok(Profiled {
        file: name,
        timeline,
        measured,
    })
}

/// Reads a file, whichever profiler wrote it.
fn read(file: &Path) -> anyhow::Result<Timeline> {
    let cannot = |error: std::io::Error| {
        Problem::new(format!("cannot read {}", file.display())).because(error)
    };
    let mut opened = File::open(file).map_err(cannot)?;
    let mut head = vec![0; content::HEAD];
    let mut length = 0;
    while length < head.len() {
        match opened.read(&mut head[length..]).map_err(cannot)? {
            0 => break,
            more => length += more,
        }
    }
    head.truncate(length);
    opened.rewind().map_err(cannot)?;
    match content::of(&head) {
        Content::Trace => {
            let reader = kineto::open(BufReader::new(opened));
            let read = kineto::read(
                reader,
                &kineto::Vocabulary::default(),
                &kineto::Limits::default(),
            );
            read.map_err(|error| {
                Problem::new(format!("{}", file.display()))
                    .hint("`gpuwise profile` reads the files listed in docs/reference/profiles.md")
                    .because(error)
                    .into()
            })
        }
        Content::Unknown(what) => Err(Problem::new(format!("{}: {what}", file.display()))
            .hint("`gpuwise profile` reads the files listed in docs/reference/profiles.md")
            .into()),
    }
}
