//! `gpuwise gpus`: the GPUs of the catalogue.

use super::{Context, Exit};
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
    gpu::{Gpu, ScaleUp},
    offer::Terms,
};
use gpuwise_size::memory::visible_memory;
use gpuwise_units::{FlopPerSecond, HourlyPrice};
use gpuwise_view::{
    figures,
    table::{Cell, Column, Table},
};
use serde_json::Value;
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
        (many, _) if context.form.format == Format::Json => {
            context.json(&with_profiles(
                table(many, catalogue).to_json(),
                many,
                catalogue,
            ))?;
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

/// The first of several sources, and how many more there are.
pub(super) fn source(text: &str) -> Cell {
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
    Cell::new(format!("{short}{cut}{more}"), text)
}

fn tera(rate: Option<FlopPerSecond>) -> Cell {
    Cell::of(rate, |rate| {
        Cell::new(figures::number(rate.get() / 1e12), rate.get() / 1e12)
    })
}

/// The least that one of them costs an hour.
fn cheapest(catalogue: &Catalogue, gpu: &Gpu) -> Option<f64> {
    let offers = catalogue
        .offers
        .iter()
        .filter(|offer| offer.gpu == gpu.name && offer.gpu_thousandths > 0);
    let each = offers.filter_map(|offer| {
        let HourlyPrice(price) = offer.price(Terms::OnDemand)?;
        Some(price.as_f64() * 1000.0 / f64::from(offer.gpu_thousandths))
    });
    each.min_by(f64::total_cmp)
}

fn table(gpus: &[&Gpu], catalogue: &Catalogue) -> Table {
    let mut table = Table::new(vec![
        Column::left("gpu", "GPU").wrap(16),
        Column::raw("vendor"),
        Column::left("generation", "generation").priority(40),
        Column::right("memory_gb", "memory").unit("GB"),
        Column::right("memory_visible_bytes", "visible")
            .unit("GiB")
            .priority(90),
        Column::right("bandwidth_gb_per_second", "bandwidth").unit("GB/s"),
        Column::right("bf16_tflops", "BF16").unit("TFLOPS"),
        Column::right("fp8_tflops", "FP8")
            .unit("TFLOPS")
            .priority(80),
        Column::right("power_watts", "power").unit("W").priority(60),
        Column::left("mig", "MIG").priority(70),
        Column::right("usd_per_hour", "from")
            .unit("USD/h")
            .priority(85),
        Column::left("source", "source").wrap(14),
        Column::raw("memory_kind"),
        Column::raw("compute_capability"),
        Column::raw("announced"),
    ]);
    for gpu in gpus {
        let (visible, known) = visible_memory(&gpuwise_domain::gpu::Device::whole(gpu));
        let bytes = gpuwise_units::Bytes::from_f64(visible);
        let mark = if known { "" } else { "~" };
        table.push(vec![
            Cell::text(&gpu.name),
            Cell::text(&gpu.vendor),
            Cell::text(&gpu.generation),
            Cell::number(gpu.memory_marketing_gb),
            Cell::new(format!("{mark}{}", figures::gib(bytes)), bytes.count()),
            Cell::new(
                figures::number(gpu.bandwidth.get() / 1e9),
                gpu.bandwidth.get() / 1e9,
            ),
            tera(gpu.peak.bf16.or(gpu.peak.fp16)),
            tera(gpu.peak.fp8),
            Cell::of(gpu.power_limit, |power| {
                Cell::new(figures::number(power.get()), power.get())
            }),
            Cell::new(if gpu.mig { "yes" } else { "no" }, gpu.mig),
            Cell::of(cheapest(catalogue, gpu), |price| {
                Cell::new(figures::amount(price), price)
            }),
            source(&gpu.source),
            Cell::text(&gpu.memory_kind),
            Cell::of(gpu.compute_capability, |(major, minor)| {
                Cell::text(format!("{major}.{minor}"))
            }),
            Cell::new("", gpu.announced),
        ]);
    }
    table.footnote("Rates are dense. Visible is what a program sees (~ where it is estimated). `gpuwise gpus NAME` shows one with all its sources.");
    table
}

/// Each GPU of a JSON list with its MIG profiles.
fn with_profiles(mut list: Value, gpus: &[&Gpu], catalogue: &Catalogue) -> Value {
    for (row, gpu) in list.as_array_mut().into_iter().flatten().zip(gpus) {
        if let Value::Object(fields) = row {
            fields.insert("mig_profiles".into(), profiles(gpu, catalogue).to_json());
        }
    }
    list
}

/// The MIG profiles of a GPU.
fn profiles(gpu: &Gpu, catalogue: &Catalogue) -> Table {
    let mut slices = Table::new(vec![
        Column::left("profile", "MIG profile"),
        Column::right("memory_bytes", "memory").unit("GiB"),
        Column::right("units", "SMs"),
        Column::right("max_instances", "per GPU"),
        Column::left("source", "source").wrap(20),
    ]);
    for profile in catalogue.mig_profiles(gpu) {
        slices.push(vec![
            Cell::text(&profile.profile),
            Cell::new(figures::gib(profile.memory), profile.memory.count()),
            Cell::count(profile.units.into()),
            Cell::count(profile.max_instances.into()),
            Cell::text(&profile.source),
        ]);
    }
    slices
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
    let slices = profiles(gpu, catalogue);
    if !slices.is_empty() {
        context.data("\n")?;
        context.table(&slices)?;
    }
    let offers = catalogue
        .offers
        .iter()
        .filter(|offer| offer.gpu == gpu.name)
        .count();
    if offers > 0 {
        let from = cheapest(catalogue, gpu).map_or_else(String::new, |price| {
            format!(", from {} USD an hour each", figures::amount(price))
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
    let (visible, known) = visible_memory(&gpuwise_domain::gpu::Device::whole(gpu));
    let visible = figures::bytes(gpuwise_units::Bytes::from_f64(visible));
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
        (
            "MIG",
            if gpu.mig {
                "yes".into()
            } else {
                "no: it cannot be cut into slices".into()
            },
        ),
        (
            "form, since",
            [gpu.form_factor.as_str(), gpu.launch.as_str()].join(", "),
        ),
        ("source", gpu.source.clone()),
        ("beware", gpu.notes.clone()),
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
    context.table(&table)?;
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
