//! `gpuwise audit`: who holds too much, too little, or nothing at all.

#[cfg(feature = "database")]
mod proof;
mod source;

use super::{Context, Exit};
use crate::App;
#[cfg(feature = "database")]
use crate::commands::runs::store::DatabaseFlags;
use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    made::made,
    progress,
    prometheus::ServerFlags,
    settings::Format,
    usage_rules,
    write::Pending,
};
use clap::Args;
use gpuwise_domain::{
    catalogue::Catalogue,
    usage::{Fleet, Usage, proposal::Judgement, rules::Rules, totals::Totals},
};
use gpuwise_measure::audit::{Market, judge, totals, unclear};
use gpuwise_probe::usage::Unclear;
use gpuwise_units::{HourlyPrice, Money};
use gpuwise_view::{audit as view, record};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What an audit found.
#[derive(Debug)]
pub struct Audited {
    /// Workloads, and the days that were looked at.
    pub fleet: Fleet,
    /// What is said of each workload, in the same order.
    pub judgements: Vec<Judgement>,
    /// All workloads that are there at the end.
    pub totals: Totals,
    /// The same by tenant, by name.
    pub tenants: Vec<Totals>,
    /// Where prices come from.
    pub prices: &'static str,
    /// GPUs that could be proposed.
    candidates: Vec<String>,
}

impl Audited {
    fn report(&self) -> view::Report<'_> {
        view::Report {
            window: self.fleet.window,
            workloads: &self.fleet.workloads,
            said: &self.judgements,
            totals: &self.totals,
            tenants: &self.tenants,
            unheld: self.fleet.unheld_devices,
            notes: &self.fleet.notes,
            prices: self.prices,
        }
    }
}

/// `gpuwise audit`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Tables of usage (CSV), in place of a Prometheus server, as `gpuwise example usage.csv`
    /// prints
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many days to look at
    #[arg(long, value_name = "N", default_value_t = 14, value_parser = clap::value_parser!(u16).range(1..=400))]
    days: u16,
    /// Until when: 2026-11-21, 2026-11-21T12:00Z or seconds since 1970 [default: now]
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// Only series with these labels, such as 'cluster="a"'
    #[arg(long, value_name = "MATCHERS")]
    only: Option<String>,
    /// Label of pods that names the tenant, as kube-state-metrics exports it [default: the namespace]
    #[arg(long, value_name = "LABEL")]
    tenant_label: Option<String>,
    /// Concurrent queries
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    at_once: u8,
    /// What a GPU costs an hour, such as 'A100 SXM4 80GB=1.80USD' [default: the lowest offer of the catalogue]
    #[arg(long = "price", value_name = "GPU=MONEY")]
    own_prices: Vec<String>,
    /// A price list of one's own (CSV with the columns of `gpuwise offers --format csv`)
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// GPUs that may be proposed in place of others [default: those that the fleet has]
    #[arg(long = "gpu", value_name = "NAME", value_delimiter = ',')]
    gpus: Vec<String>,
    /// Thresholds and names of one's own (TOML as `gpuwise example audit.toml` prints)
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Proposals to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Write each change as a file to apply into this directory
    #[arg(long, value_name = "DIR")]
    patches: Option<PathBuf>,
    /// Write one self-contained HTML page: proposals with savings, evidence and patch
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Do not remember what is proposed
    #[arg(long)]
    forget: bool,
    /// Say what became of what was proposed before: applied or not, the saving that came, latency
    #[arg(long)]
    proof: bool,
    #[command(flatten, next_help_heading = "Prometheus")]
    pub(crate) server: ServerFlags,
    #[cfg(feature = "database")]
    #[command(flatten, next_help_heading = "Database")]
    database: DatabaseFlags,
}

/// Who holds too much, too little, or nothing at all. Nothing is remembered or written.
///
/// # Errors
/// When a setting names what is not known, or usage cannot be had.
pub fn audit(app: &App, flags: &Flags) -> anyhow::Result<Audited> {
    let loaded = catalogue::load(&app.overrides.with_prices(&flags.prices))?;
    let own_prices = own_prices(flags, &loaded.catalogue)?;
    audited(app, flags, &loaded, &own_prices)
}

fn audited(
    app: &App,
    flags: &Flags,
    loaded: &Loaded,
    own_prices: &BTreeMap<String, HourlyPrice>,
) -> anyhow::Result<Audited> {
    let names = usage_rules::names(loaded, flags.rules.as_deref())?;
    let rules = usage_rules::rules(&names)?;
    let catalogue = &loaded.catalogue;
    let namespaces = proposed(flags)?;
    // GPUs by name are refused before anybody is asked.
    candidates(flags, catalogue, &[])?;
    let depends = |fleet: &Fleet| depends(fleet.clone(), flags, loaded, own_prices, &rules);
    let known = (&names.vocabulary, &rules);
    let mut fleet = source::fleet(app, flags, known, namespaces, &depends)?;
    weigh(&mut fleet, loaded);
    let candidates = candidates(flags, catalogue, &fleet.workloads)?;
    let market = Market::new(catalogue, &candidates, own_prices);
    let judgements: Vec<_> = fleet
        .workloads
        .iter()
        .map(|usage| judge(usage, fleet.window, &rules, &market))
        .collect();
    let (totals, tenants) = totals(&fleet.workloads, &judgements, &market);
    let prices = if own_prices.is_empty() && flags.prices.is_empty() {
        "lowest on-demand offer of each GPU in the catalogue; slices by their larger share of the board"
    } else {
        "yours, then the lowest on-demand offer of each GPU; slices by their larger share of the board"
    };
    Ok(Audited {
        fleet,
        judgements,
        totals,
        tenants,
        prices,
        candidates,
    })
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let loaded = catalogue::load(&context.app.overrides.with_prices(&flags.prices))?;
    let catalogue = &loaded.catalogue;
    let own_prices = own_prices(flags, catalogue)?;
    if flags.proof && flags.files.is_empty() && flags.server.prometheus.is_none() {
        return remembered(context, flags);
    }
    let audited = audited(&context.app, flags, &loaded, &own_prices)?;
    if let Some(directory) = &flags.patches {
        patches(directory, &audited.fleet, &audited.judgements, catalogue)?;
    }
    #[cfg(feature = "database")]
    if flags.proof || !flags.forget {
        let market = Market::new(catalogue, &audited.candidates, &own_prices);
        let done = proof::follow(context, flags, &audited.fleet, &audited.judgements, &market);
        match done {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => {}
            // An audit is worth having without a database.
            Err(error) if !flags.proof => progress::say(&format!("not remembered: {error:#}")),
            Err(error) => return Err(error),
        }
    }
    let report = audited.report();
    if let Some(file) = html {
        let made = made();
        file.finish(&view::page(&report, product(catalogue), &made))?;
    }
    match context.form.format {
        Format::Table => context.data(&view::text(&report, flags.top, context.form.style))?,
        Format::Json => context.json(&record::json(&report))?,
        Format::Csv | Format::Md => context.table(&view::workloads(&report))?,
    }
    Ok(Exit::Yes)
}

/// Namespaces of what is followed up.
#[cfg(feature = "database")]
fn proposed(flags: &Flags) -> anyhow::Result<BTreeSet<String>> {
    if flags.proof {
        proof::namespaces(flags)
    } else {
        Ok(BTreeSet::new())
    }
}

#[cfg(not(feature = "database"))]
fn proposed(_flags: &Flags) -> anyhow::Result<BTreeSet<String>> {
    Ok(BTreeSet::new())
}

#[cfg(feature = "database")]
fn remembered(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    proof::list(context, flags)
}

#[cfg(not(feature = "database"))]
fn remembered(_context: &Context, _flags: &Flags) -> anyhow::Result<Exit> {
    Err(Problem::new("this build of gpuwise has no database").into())
}

fn unknown_gpu(flag: &str, name: &str, catalogue: &Catalogue) -> Problem {
    Problem::new(format!("{flag}: GPU {name:?} is not in the catalogue"))
        .did_you_mean(&catalogue.gpus_like(name))
}

fn own_prices(
    flags: &Flags,
    catalogue: &Catalogue,
) -> anyhow::Result<BTreeMap<String, HourlyPrice>> {
    let mut prices = BTreeMap::new();
    for given in &flags.own_prices {
        let (name, amount) = given.split_once('=').ok_or_else(|| {
            Problem::new(format!(
                "--price {given:?} is not of the form 'GPU=2.50USD'"
            ))
        })?;
        let gpu = catalogue
            .gpu(name.trim())
            .ok_or_else(|| unknown_gpu("--price", name, catalogue))?;
        let money: Money = amount
            .trim()
            .parse()
            .map_err(|error| Problem::new("--price").because(anyhow::Error::new(error)))?;
        if money.micros < 0 || money.currency != gpuwise_units::Currency::USD {
            return Err(Problem::new(format!(
                "--price {given:?}: prices are from 0 up, in USD, as the catalogue's are"
            ))
            .into());
        }
        prices.insert(gpu.name.clone(), HourlyPrice(money));
    }
    Ok(prices)
}

/// Workloads of which something depends on their exact percentiles.
fn depends(
    mut fleet: Fleet,
    flags: &Flags,
    loaded: &Loaded,
    own_prices: &BTreeMap<String, HourlyPrice>,
    rules: &Rules,
) -> Unclear {
    weigh(&mut fleet, loaded);
    let catalogue = &loaded.catalogue;
    let candidates = candidates(flags, catalogue, &fleet.workloads).unwrap_or_default();
    let market = Market::new(catalogue, &candidates, own_prices);
    let mut found = Unclear::default();
    for usage in fleet.workloads {
        let one = unclear(&usage, fleet.window, rules, &market);
        let holder = Some(usage.holder);
        found.compute.extend(holder.clone().filter(|_| one.compute));
        found.bandwidth.extend(holder.filter(|_| one.bandwidth));
    }
    found
}

/// How much the weights of models take that engines name, where the catalogue knows them.
fn weigh(fleet: &mut Fleet, loaded: &Loaded) {
    let mut known = BTreeMap::new();
    for engine in fleet
        .workloads
        .iter_mut()
        .filter_map(|usage| usage.engine.as_mut())
    {
        let Some(model) = &engine.model else { continue };
        let weights = known.entry(model.clone());
        engine.weights = *weights.or_insert_with(|| usage_rules::weights(model, loaded));
    }
}

/// GPUs that may be proposed.
fn candidates(
    flags: &Flags,
    catalogue: &Catalogue,
    workloads: &[Usage],
) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for name in &flags.gpus {
        let gpu = catalogue
            .gpu(name)
            .ok_or_else(|| unknown_gpu("--gpu", name, catalogue))?;
        names.push(gpu.name.clone());
    }
    if names.is_empty() {
        let held = workloads
            .iter()
            .filter_map(|usage| usage.asked.gpu.as_deref());
        names.extend(held.filter_map(|name| Some(catalogue.gpu(name)?.name.clone())));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The label of hosts with a GPU: GPU feature discovery takes the product's name, spaces as hyphens.
fn product(catalogue: &Catalogue) -> impl Fn(&str) -> Option<String> {
    |name: &str| {
        let gpu = catalogue.gpu(name)?;
        let label = |alias: &&String| {
            (alias.starts_with("NVIDIA-") || alias.starts_with("Tesla-")) && !alias.contains(' ')
        };
        gpu.aliases.iter().find(label).cloned()
    }
}

/// The change of a workload as a strategic-merge patch of its controller; `None`: none can be applied in place.
#[cfg(feature = "kubernetes")]
pub(crate) fn patch(
    usage: &Usage,
    said: &Judgement,
    catalogue: &Catalogue,
) -> Option<serde_json::Value> {
    let in_place = matches!(usage.holder.kind.as_str(), "Deployment" | "StatefulSet");
    let patches = view::patches(usage, said, product(catalogue));
    let [patch] = patches.as_slice() else {
        return None;
    };
    let read = gpuwise_k8s::manifests::read(&patch.text).ok()?;
    let [one] = read.as_slice() else { return None };
    let spec = one
        .get("spec")
        .filter(|_| in_place && one.get("kind").is_none())?;
    Some(serde_json::json!({"spec": spec}))
}

fn patches(
    directory: &Path,
    fleet: &Fleet,
    said: &[Judgement],
    catalogue: &Catalogue,
) -> anyhow::Result<()> {
    let cannot = |what: &Path, error| {
        Problem::new(format!("--patches: cannot write {}", what.display())).because(error)
    };
    fs::create_dir_all(directory).map_err(|error| cannot(directory, error))?;
    let mut written = 0_usize;
    let mut taken = std::collections::BTreeSet::new();
    for (usage, said) in fleet.workloads.iter().zip(said) {
        for patch in view::patches(usage, said, product(catalogue)) {
            let mut file = patch.file.clone();
            let mut copy = 2;
            while !taken.insert(file.clone()) {
                file = format!("{copy}-{}", patch.file);
                copy += 1;
            }
            let target = directory.join(&file);
            fs::write(&target, &patch.text).map_err(|error| cannot(&target, error))?;
            written += 1;
        }
    }
    progress::say(&format!("{written} patches in {}", directory.display()));
    Ok(())
}
