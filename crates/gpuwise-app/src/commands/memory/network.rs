//! Memory of a diffusion, vision or embedding model: what fills a GPU, and whether a batch fits.

use super::{
    devices,
    fixes::{Fix, cheapest, priced},
};
use crate::{catalogue::Loaded, commands::Context, error::Problem, media, settings};
use gpuwise_domain::{
    catalogue::Catalogue, estimate::Derivation, gpu::Device, media::MediaMemory, network::Walk,
    precision::Compute,
};
use gpuwise_size::media::{
    Numbers,
    memory::{Memory, Placement, largest_batch, memory, placement, usable},
    walk::walk,
};
use gpuwise_units::Bytes;
use gpuwise_view::{
    State, explain, figures, media as view,
    record::{self, Shown},
    table::{Column, Table},
};
use std::fmt::Write as _;

/// Inputs of a batch at most.
const MOST: u32 = 65_536;
/// Formats of the main part that are tried where 16 bits do not fit, by what they usually lose.
const LOWER: [Compute; 2] = [Compute::Fp8, Compute::Int8];

/// What a diffusion, vision or embedding model holds of the memory of GPUs, and whether it fits.
#[derive(Debug, Clone)]
#[must_use]
pub struct NetworkMemory {
    pub name: String,
    /// What it makes of what.
    pub task: String,
    pub parameters: u64,
    /// One input in words.
    pub input: String,
    /// Inputs of a batch.
    pub batch: u32,
    /// Format in which the main part multiplies.
    pub precision: Compute,
    /// GPU by GPU.
    pub devices: Vec<NetworkFit>,
    /// What was assumed.
    pub notes: Vec<String>,
}

impl NetworkMemory {
    /// Whether a GPU holds what is asked.
    pub fn fits(&self) -> bool {
        self.devices.iter().any(|one| one.fits)
    }
}

/// Memory of a GPU, or of each of those over which tables are spread.
#[derive(Debug, Clone)]
pub struct NetworkFit {
    pub device: String,
    pub fits: bool,
    pub gpus: u32,
    pub memory: Vec<(MediaMemory, Bytes)>,
    pub held: Bytes,
    pub usable: Bytes,
    /// The largest batch that fits, in powers of two; `None` where one input does not.
    pub largest_batch: Option<u32>,
    /// Weights that wait in host memory.
    pub host: Bytes,
    /// The image decoder works in tiles.
    pub tiled: bool,
    /// What would make it fit, cheapest first.
    pub fixes: Vec<Fix>,
    pub derivation: Derivation,
}

/// What is asked of every GPU.
struct Asked<'a> {
    walk: &'a Walk,
    numbers: Numbers,
    batch: u32,
}

impl Asked<'_> {
    fn placed(&self, device: &Device<'_>) -> (bool, Placement, Memory) {
        let found = placement(self.walk, device, self.numbers, self.batch);
        let placement = found.unwrap_or_else(|last| last);
        let Placement { residence, shards } = placement;
        let inputs = f64::from(self.batch);
        let held = memory(self.walk, inputs, self.numbers, shards, residence);
        (found.is_ok(), placement, held)
    }

    fn fit(&self, device: Device<'_>, catalogue: &Catalogue) -> NetworkFit {
        let (fits, Placement { residence, shards }, held) = self.placed(&device);
        let usable = usable(&device);
        let largest_batch = largest_batch(self.walk, self.numbers, shards, residence, usable, MOST);
        NetworkFit {
            device: device.name(),
            fits,
            gpus: shards,
            memory: held.causes(),
            held: held.total(),
            usable,
            largest_batch,
            host: held.offloaded,
            tiled: residence.tiled,
            fixes: if fits {
                Vec::new()
            } else {
                self.fixes(&device, largest_batch, catalogue)
            },
            derivation: held.explain(),
        }
    }

    /// Fewer bits, another GPU, fewer inputs at once.
    fn fixes(&self, device: &Device<'_>, largest: Option<u32>, catalogue: &Catalogue) -> Vec<Fix> {
        let mut out = Vec::new();
        let lower = LOWER.into_iter().find(|format| {
            let numbers = Numbers::of(*format);
            self.numbers.main == Compute::Half
                && device.gpu.peak.of(*format).is_some()
                && placement(self.walk, device, numbers, self.batch).is_ok()
        });
        out.extend(lower.map(|format| Fix {
            what: format!(
                "{0} (--precision {0}), at some loss of quality",
                format.name()
            ),
            whole: true,
        }));
        let others = catalogue.gpus.iter().filter(|gpu| !gpu.announced);
        let other = others.filter_map(|gpu| {
            let device = Device::whole(gpu);
            gpu.peak.of(self.numbers.main)?;
            let Placement { shards, .. } =
                placement(self.walk, &device, self.numbers, self.batch).ok()?;
            let (rental, price) = cheapest(catalogue, &device, shards, 1)?;
            Some((price?, gpu, shards, rental))
        });
        let other = other.min_by_key(|(price, ..)| price.0.micros);
        out.extend(other.map(|(price, gpu, shards, rental)| Fix {
            what: format!(
                "{shards} × {0} (--gpu '{0}'){1}",
                gpu.name,
                priced(&rental, Some(price))
            ),
            whole: true,
        }));
        out.extend(largest.map(|batch| Fix {
            what: format!("batches of {batch} (--batch {batch})"),
            whole: false,
        }));
        out
    }
}

/// The answer for a diffusion, vision or embedding model; `None` where the model is none.
pub(super) fn answer(
    flags: &settings::Memory,
    loaded: &Loaded,
) -> anyhow::Result<Option<NetworkMemory>> {
    let Some(name) = flags.model.model.as_deref() else {
        return Ok(None);
    };
    let language = || crate::model::resolve(name, loaded, true).is_ok();
    let Some(network) = media::known(name.trim(), loaded).filter(|_| !language()) else {
        return Ok(None);
    };
    refuse_unused(flags)?;
    let formats = flags.engine.precision.as_deref().map(media::format);
    let precision = formats.transpose()?.unwrap_or(Compute::Half);
    let input = media::input(&flags.input)?;
    let walked = walk(&network, &input).map_err(|error| {
        Problem::new(format!("{} cannot take this input", network.name)).because(error)
    })?;
    let batch = flags.input.batch.unwrap_or(1);
    let mut notes = walked.assumptions.clone();
    if flags.input.batch.is_none() {
        notes.push("assumed because it was not said: --batch 1".into());
    }
    let asked = Asked {
        walk: &walked,
        numbers: Numbers::of(precision),
        batch,
    };
    let unit = media::unit_of(&network);
    Ok(Some(NetworkMemory {
        input: media::words(&input.or(network.usual), unit),
        parameters: walked.parameters(),
        devices: fits(&asked, flags, loaded)?,
        name: network.name,
        task: network.task,
        batch,
        precision,
        notes,
    }))
}

fn fits(
    asked: &Asked<'_>,
    flags: &settings::Memory,
    loaded: &Loaded,
) -> anyhow::Result<Vec<NetworkFit>> {
    let devices = devices(flags, &loaded.catalogue)?.into_iter();
    Ok(devices
        .map(|device| asked.fit(device, &loaded.catalogue))
        .collect())
}

/// Flags of `memory` that would change nothing here.
fn refuse_unused(flags: &settings::Memory) -> anyhow::Result<()> {
    let (engine, layout) = (&flags.engine, &flags.layout);
    for (flag, given, instead) in [
        (
            "--context",
            flags.context.is_some(),
            "--length 512 says how long a text is",
        ),
        (
            "--concurrency",
            flags.concurrency.is_some(),
            "--batch 4 says how many run at once",
        ),
    ] {
        if given {
            return Err(Problem::new(format!("{flag} is for language models"))
                .hint(instead)
                .into());
        }
    }
    media::refuse_given(&[
        ("--tp", layout.tp.is_some()),
        ("--pp", layout.pp.is_some()),
        ("--dp", layout.dp.is_some()),
        ("--ep", layout.ep.is_some()),
        ("--engine", engine.engine.is_some()),
        ("--kv", engine.kv.is_some()),
        ("--memory-fraction", engine.memory_fraction.is_some()),
        ("--max-batched-tokens", engine.max_batched_tokens.is_some()),
        ("--max-seqs", engine.max_seqs.is_some()),
        ("--eager", engine.eager),
        ("--draft-tokens", engine.draft_tokens.is_some()),
        ("--draft-model", engine.draft_model.is_some()),
        ("--lora", engine.lora.is_some()),
    ])
}

gpuwise_view::record!(NetworkMemory, "MediaMemoryAnswer", |of| {
    of.field("fits", NetworkMemory::fits);
    of.field("network", |m| &m.name);
    of.field("task", |m| &m.task);
    of.field("parameters", |m| m.parameters);
    of.field("input", |m| &m.input);
    of.field("batch", |m| m.batch);
    of.field("precision", |m| m.precision.name());
    of.list("devices", |m| &m.devices);
    of.field("notes", |m| &m.notes);
});

gpuwise_view::record!(NetworkFit, "NetworkFit", |of| {
    of.field("device", |d| &d.device).title("GPU").wrap(16);
    let fits = of.noun().map(|d| {
        let (state, word) = if d.fits {
            (State::Good, "yes")
        } else {
            (State::Bad, "no")
        };
        format!("{} {word}", state.mark()).into()
    });
    of.field("fits", |d| d.fits).title("fits").seen(fits);
    of.field("gpus", |d| d.gpus).title("GPUs");
    let weights = |d: &NetworkFit| {
        let parts = d.memory.iter();
        let weights = parts.filter(|(cause, _)| matches!(cause, MediaMemory::Weights(_)));
        Bytes::new(weights.map(|(_, bytes)| bytes.count()).sum())
    };
    of.shown(Column::right("", "weights").unit("GiB"), |d| {
        Shown::from(figures::gib(weights(d)))
    });
    of.shown(Column::right("", "other").unit("GiB"), |d| {
        Shown::from(figures::gib(d.held.saturating_sub(weights(d))))
    });
    of.list("memory", |d| &d.memory);
    of.field("memory_bytes", |d| d.held).title("in all").gib();
    of.field("usable_bytes", |d| d.usable).title("usable").gib();
    of.field("largest_batch", |d| d.largest_batch)
        .title("largest batch");
    of.field("host_bytes", |d| d.host);
    of.field("decoder_tiled", |d| d.tiled);
    of.list("fixes", |d| &d.fixes);
    of.part("derivation", |d| &d.derivation);
});

pub(super) fn show(
    context: &Context,
    flags: &settings::Memory,
    found: &NetworkMemory,
) -> anyhow::Result<()> {
    let style = context.form.style;
    let table = record::table(&found.devices).when_empty("No GPU to look at.");
    match context.form.format {
        settings::Format::Json => return context.json(&record::json(found)),
        settings::Format::Csv => return context.table(&table),
        settings::Format::Md => return context.data(&markdown(found, flags, &table)),
        settings::Format::Table => {}
    }
    let mut out = format!("{}\n\n", style.wrap(&asked(found), 2));
    out += &table.to_text(style);
    for line in lines(found) {
        out += &style.wrap(&line, 2);
        out.push('\n');
    }
    if flags.explain {
        for one in &found.devices {
            let derived = std::slice::from_ref(&one.derivation);
            let _ = write!(out, "\n{}", explain::text(derived, style));
        }
    }
    context.data(&out)
}

fn markdown(found: &NetworkMemory, flags: &settings::Memory, table: &Table) -> String {
    let name = gpuwise_view::escape_markdown(&found.name);
    let mut out = format!("# Memory of {name}\n\n");
    let _ = writeln!(out, "{}\n", gpuwise_view::escape_markdown(&asked(found)));
    out += &table.to_markdown();
    out.push('\n');
    for line in lines(found) {
        let _ = writeln!(out, "- {}", gpuwise_view::escape_markdown(&line));
    }
    if flags.explain {
        for one in &found.devices {
            let derived = std::slice::from_ref(&one.derivation);
            let _ = write!(out, "\n{}", explain::markdown(derived));
        }
    }
    out
}

fn asked(found: &NetworkMemory) -> String {
    let task = match found.task.as_str() {
        "" => String::new(),
        task => format!(", {task}"),
    };
    let batch = match found.batch {
        1 => "one input at a time".into(),
        many => format!("batches of {many}"),
    };
    format!(
        "{}{task}: {} parameters in {}; {}; {batch}",
        found.name,
        view::billions(found.parameters),
        found.precision.name(),
        found.input
    )
}

/// What one GPU holds and what would make it fit, and what was assumed.
fn lines(found: &NetworkMemory) -> Vec<String> {
    let mut out = Vec::new();
    if let [one] = found.devices.as_slice() {
        let held = view::held(&one.memory, one.usable, (one.host, one.tiled));
        out.push(format!("memory: {held}"));
        let whole = one.fixes.iter().filter(|fix| fix.whole);
        for (at, fix) in whole.enumerate() {
            let label = if at == 0 { "fix" } else { "or" };
            out.push(format!("{label}: {}", fix.what));
        }
        let part = one.fixes.iter().filter(|fix| !fix.whole);
        out.extend(part.map(|fix| format!("as it is: {}", fix.what)));
    }
    out.extend(found.notes.iter().map(|note| format!("note: {note}")));
    out
}
