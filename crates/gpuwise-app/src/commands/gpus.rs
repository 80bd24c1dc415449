//! `gpuwise gpus`: the GPUs of the catalogue.

use super::{Context, Exit, offers};
use crate::schemas::AnswerName;
use crate::{
    catalogue::{
        self, Loaded,
        check::{Checked, check_all, check_files},
    },
    error::Problem,
    names,
    settings::{Format, Gpus},
};
use gpuwise_domain::{
    catalogue::{Catalogue, folded},
    gpu::{Device, Gpu, MigProfile, ScaleUp},
    price::Price,
};
use gpuwise_size::memory::visible_memory;
use gpuwise_units::{Bytes, FlopPerSecond};
use gpuwise_view::{
    figures,
    record::{self},
    table::{Cell, Column, Table},
};
use std::path::PathBuf;

pub fn run(context: &Context, flags: &Gpus) -> anyhow::Result<Exit> {
    if let Some(paths) = &flags.check {
        return check(context, paths);
    }
    let loaded = catalogue::load(&context.app.overrides)?;
    let catalogue = &loaded.catalogue;
    // A slice is shown with its GPU.
    let asked = flags.pattern.as_deref();
    let asked = asked.map(|text| names::sliced(text).map_or(text, |(gpu, _)| gpu));
    let listed = listed(catalogue, asked);
    match (listed.as_slice(), &flags.pattern) {
        ([], Some(pattern)) => {
            return Err(
                Problem::new(format!("no GPU of the catalogue is like {pattern:?}"))
                    .did_you_mean(&catalogue.gpus_like(pattern))
                    .hint("`gpuwise gpus` lists all")
                    .into(),
            );
        }
        ([one], Some(_)) if matches!(context.form.format, Format::Table | Format::Md) => {
            details(context, one, &loaded)?;
        }
        (many, _) => context.table(&table(many, catalogue))?,
    }
    Ok(Exit::Yes)
}

/// GPUs that hold the pattern; where it is exactly the name of one, that one.
pub(super) fn listed<'a>(catalogue: &'a Catalogue, pattern: Option<&str>) -> Vec<&'a Gpu> {
    let Some(pattern) = pattern else {
        return catalogue.gpus.iter().collect();
    };
    let wanted = folded(pattern);
    if let Some(exact) = catalogue
        .gpus
        .iter()
        .find(|gpu| folded(&gpu.name) == wanted)
    {
        return vec![exact];
    }
    let holds = |text: &String| folded(text).contains(&wanted);
    let found: Vec<&Gpu> = catalogue
        .gpus
        .iter()
        .filter(|gpu| {
            holds(&gpu.name)
                || holds(&gpu.vendor)
                || holds(&gpu.generation)
                || gpu.aliases.iter().any(holds)
        })
        .collect();
    if found.is_empty() {
        catalogue.gpu(pattern).into_iter().collect()
    } else {
        found
    }
}

/// A source in a few words for people, all of it for programs.
pub(super) fn source(text: &str) -> Cell {
    Cell::new(brief(text), text)
}

/// The first of several sources, and how many more there are.
fn brief(text: &str) -> String {
    const LONGEST: usize = 18;
    let mut clauses = text
        .split(';')
        .map(str::trim)
        .filter(|clause| !clause.is_empty());
    let first = clauses.next().unwrap_or("");
    let short: String = first.chars().take(LONGEST).collect();
    let cut = if short.len() < first.len() { "…" } else { "" };
    let more = match clauses.count() {
        0 => String::new(),
        more => format!(" +{more}"),
    };
    format!("{short}{cut}{more}")
}

/// The least that one of them costs on demand.
fn cheapest(catalogue: &Catalogue, gpu: &Gpu) -> Option<Price> {
    let offers = catalogue
        .offers
        .iter()
        .filter(|offer| offer.gpu == gpu.name && offer.gpu_thousandths > 0);
    let each = offers.filter_map(offers::each);
    each.min_by(|a, b| a.amount.total_cmp(&b.amount))
}

/// A GPU of the catalogue with what it costs and its slices.
struct Row<'a> {
    gpu: &'a Gpu,
    from: Option<Price>,
    slices: Vec<Slice<'a>>,
}

impl<'a> Row<'a> {
    fn of(gpu: &'a Gpu, catalogue: &'a Catalogue) -> Self {
        Self {
            gpu,
            from: cheapest(catalogue, gpu),
            slices: catalogue.mig_profiles(gpu).map(Slice).collect(),
        }
    }
}

gpuwise_view::record!(Row<'_>, "Gpu", |of| {
    let visible = of.noun().map(|r| {
        let (bytes, known) = visible_memory(&Device::whole(r.gpu));
        (Bytes::from_f64(bytes), if known { "" } else { "~" })
    });
    let tera = |rate: Option<FlopPerSecond>| rate.map(|rate| rate.get() / 1e12);
    of.field("gpu", |r| &r.gpu.name).title("GPU").wrap(16);
    of.field("vendor", |r| &r.gpu.vendor);
    of.field("generation", |r| &r.gpu.generation)
        .title("generation")
        .priority(40);
    of.field("memory_gb", |r| r.gpu.memory_marketing_gb)
        .title("memory")
        .unit("GB");
    of.field("memory_visible_bytes", |r| {
        Bytes::from_f64(visible_memory(&Device::whole(r.gpu)).0)
    })
    .title("visible")
    .unit("GiB")
    .priority(90)
    .seen(visible.map(|(bytes, mark)| format!("{mark}{}", figures::gib(bytes)).into()));
    of.field("bandwidth_gb_per_second", |r| r.gpu.bandwidth.get() / 1e9)
        .title("bandwidth")
        .unit("GB/s");
    of.field("bf16_tflops", |r| tera(r.gpu.peak.bf16.or(r.gpu.peak.fp16)))
        .title("BF16")
        .unit("TFLOPS");
    of.field("fp8_tflops", |r| tera(r.gpu.peak.fp8))
        .title("FP8")
        .unit("TFLOPS")
        .priority(80);
    of.field("power_watts", |r| r.gpu.power_limit)
        .title("power")
        .unit("W")
        .priority(60);
    of.field("mig", |r| r.gpu.mig).title("MIG").priority(70);
    of.field("price_per_hour", |r| r.from.clone())
        .title("from")
        .unit("USD/h")
        .priority(85);
    let source = of.noun().map(|r| brief(&r.gpu.source).into());
    of.field("source", |r| &r.gpu.source)
        .title("source")
        .wrap(14)
        .seen(source);
    of.field("memory_kind", |r| &r.gpu.memory_kind);
    of.field("compute_capability", |r| {
        let capability = r.gpu.compute_capability;
        capability.map(|(major, minor)| format!("{major}.{minor}"))
    });
    of.field("announced", |r| r.gpu.announced);
    of.list("mig_profiles", |r| &r.slices);
});

/// A size into which a GPU can be partitioned.
struct Slice<'a>(&'a MigProfile);

gpuwise_view::record!(Slice<'_>, "MigProfile", |of| {
    of.field("profile", |s| &s.0.profile).title("MIG profile");
    of.field("memory_bytes", |s| s.0.memory)
        .title("memory")
        .gib();
    of.field("units", |s| s.0.units).title("SMs");
    of.field("max_instances", |s| s.0.max_instances)
        .title("per GPU");
    of.field("source", |s| &s.0.source).title("source").wrap(20);
});

pub(crate) fn schema(answer: &str) -> String {
    record::rows_schema::<Row<'_>>(answer, "GPUs of the catalogue")
}

fn table(gpus: &[&Gpu], catalogue: &Catalogue) -> Table {
    let rows: Vec<Row<'_>> = gpus.iter().map(|gpu| Row::of(gpu, catalogue)).collect();
    let mut table = record::table(&rows);
    table.footnote("Rates are dense. Visible is what a program sees (~ where it is estimated). `gpuwise gpus NAME` shows one with all its sources.");
    table
}

/// One GPU with everything that is known of it.
fn details(context: &Context, gpu: &Gpu, loaded: &Loaded) -> anyhow::Result<()> {
    let catalogue = &loaded.catalogue;
    let mut facts = Table::new(vec![
        Column::left("fact", &gpu.name),
        Column::left("value", "").wrap(40),
    ]);
    for (fact, value) in facts_of(gpu) {
        facts.push(vec![Cell::text(fact), Cell::text(value)]);
    }
    context.table(&facts)?;
    let slices = Row::of(gpu, catalogue).slices;
    if !slices.is_empty() {
        context.data("\n")?;
        context.table(&record::table(&slices))?;
    }
    let offers = catalogue
        .offers
        .iter()
        .filter(|offer| offer.gpu == gpu.name)
        .count();
    if offers > 0 {
        let from = cheapest(catalogue, gpu).map_or_else(String::new, |price| {
            format!(", from {} USD an hour each", figures::amount(price.amount))
        });
        context.data(&format!(
            "\n{offers} offers{from}: gpuwise offers '{}'\n",
            gpu.name
        ))?;
    }
    Ok(())
}

fn facts_of(gpu: &Gpu) -> Vec<(&'static str, String)> {
    let unknown = || figures::MISSING.to_owned();
    let (visible, known) = visible_memory(&Device::whole(gpu));
    let visible = figures::bytes(Bytes::from_f64(visible));
    let rate = |rate: Option<FlopPerSecond>| {
        rate.map_or_else(unknown, |rate| {
            format!("{} TFLOPS", figures::number(rate.get() / 1e12))
        })
    };
    let gigabytes = |rate: f64| format!("{} GB/s", figures::number(rate / 1e9));
    let watts = |power: Option<gpuwise_units::Watts>| {
        power.map_or_else(unknown, |power| {
            format!("{} W", figures::number(power.get()))
        })
    };
    let between = |link: &ScaleUp| {
        format!(
            "{}: {} one way, {} GPUs",
            link.name,
            gigabytes(link.bandwidth.get()),
            link.domain
        )
    };
    let link = match (&gpu.scale_up, &gpu.bridge) {
        (Some(link), _) => between(link),
        (None, Some(bridge)) => format!("PCIe; by a bridge, where fitted, {}", between(bridge)),
        (None, None) => "none but PCIe".into(),
    };
    let capability = gpu
        .compute_capability
        .map_or_else(unknown, |(major, minor)| format!("{major}.{minor}"));
    let mut facts = vec![
        (
            "vendor, generation",
            format!("{}, {}", gpu.vendor, gpu.generation),
        ),
        ("compute capability", capability),
        ("also called", gpu.aliases.join(", ")),
        (
            "memory as sold",
            format!(
                "{} GB {}",
                figures::number(gpu.memory_marketing_gb),
                gpu.memory_kind
            ),
        ),
        (
            "memory, driver",
            gpu.memory_reported.map_or_else(unknown, figures::bytes),
        ),
        (
            "memory, visible",
            if known {
                visible
            } else {
                format!("{visible} (estimated)")
            },
        ),
        ("bandwidth", gigabytes(gpu.bandwidth.get())),
        ("BF16, dense", rate(gpu.peak.bf16)),
        ("FP16, dense", rate(gpu.peak.fp16)),
        ("FP8, dense", rate(gpu.peak.fp8)),
        ("FP4, dense", rate(gpu.peak.fp4)),
        ("INT8, dense", rate(gpu.peak.int8)),
        ("link between GPUs", link),
        (
            "link to the host",
            gpu.host_link
                .map_or_else(unknown, |link| gigabytes(link.get())),
        ),
        (
            "power limit, idle",
            format!("{}, {}", watts(gpu.power_limit), watts(gpu.idle_power)),
        ),
        ("MIG", if gpu.mig { "yes".into() } else { "no".into() }),
        (
            "form, since",
            [gpu.form_factor.as_str(), gpu.launch.as_str()].join(", "),
        ),
        ("source", gpu.source.clone()),
        ("note", gpu.notes.clone()),
    ];
    if gpu.announced {
        facts.insert(
            0,
            ("state", "announced only: no plan offers it unasked".into()),
        );
    }
    facts.retain(|(_, value)| !value.trim_matches([',', ' ']).is_empty());
    facts
}

/// Every problem of a file, or of all that are in use.
fn check(context: &Context, paths: &[PathBuf]) -> anyhow::Result<Exit> {
    let Checked { findings, files } = if paths.is_empty() {
        check_all(&context.app.overrides.places)?
    } else {
        check_files(paths, &catalogue::load(&catalogue::Overrides::default())?)?
    };
    let mut table = Table::new(vec![
        Column::left("file", "file").wrap(20),
        Column::right("line", "line"),
        Column::left("problem", "problem").wrap(40),
    ])
    .when_empty(format!("No problem in {files} catalogue files."));
    for finding in &findings {
        table.push(vec![
            Cell::text(&finding.file),
            Cell::of(finding.line, |line| Cell::count(line as u64)),
            Cell::text(&finding.problem),
        ]);
    }
    context.answering(AnswerName::GpusCheck).table(&table)?;
    if findings.is_empty() {
        return Ok(Exit::Yes);
    }
    let problems = if findings.len() == 1 {
        "1 problem".into()
    } else {
        format!("{} problems", findings.len())
    };
    Err(
        Problem::new(format!("{problems} in {files} catalogue files"))
            .hint("each stands above with its file and line")
            .into(),
    )
}
