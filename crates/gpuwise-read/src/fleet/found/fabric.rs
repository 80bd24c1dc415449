//! Hosts and pools of GPUs of a fabric, as a fleet file that people complete and edit.

use super::write::{named, plain, quoted};
use crate::fleet::{FindGpu, KnownGpu};
use gpuwise_domain::catalogue::folded;
use std::{collections::BTreeMap, fmt::Write as _};

/// What a fabric's manager says of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundFabric {
    pub hosts: Vec<FoundBlock>,
    pub gpus: Vec<FoundPooled>,
    /// Whether GPUs come to a host and leave it while it runs; `None`: it is not said.
    pub hot_plug: Option<bool>,
}

/// A block that a host is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundBlock {
    pub block: String,
    /// Blocks that have a zone in common can be composed.
    pub zones: Vec<String>,
    pub cpu_milli: Option<u64>,
    pub memory_mib: Option<u64>,
}

/// A block that is one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundPooled {
    pub block: String,
    pub zones: Vec<String>,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub memory_mib: Option<u32>,
}

/// Pooled GPUs that a host can have at once, where nobody says.
const SLOTS: u32 = 8;

/// A fleet file (TOML) that [`read_fleet`](crate::fleet::read_fleet) accepts: a pool for the GPUs of each zone, and
/// a node for each host, under the names of their blocks. `slots` is how many GPUs a host can have at once.
pub fn fabric_fleet_file(
    name: &str,
    found: &FoundFabric,
    slots: Option<u32>,
    find: &FindGpu<'_>,
) -> String {
    let mut out = format!("name = {}\n", quoted(name));
    let mut kinds: BTreeMap<String, Option<KnownGpu>> = BTreeMap::new();
    for gpu in &found.gpus {
        let product = product(gpu);
        kinds.entry(product.clone()).or_insert_with(|| {
            let model = gpu.model.as_deref().map(str::trim).unwrap_or_default();
            find(&product).or_else(|_| find(model)).ok()
        });
    }
    unknown_kinds(&mut out, found, &kinds);
    let mut pools: BTreeMap<&[String], Vec<&FoundPooled>> = BTreeMap::new();
    for gpu in &found.gpus {
        pools.entry(&gpu.zones).or_default().push(gpu);
    }
    let mut names = BTreeMap::new();
    for (zones, gpus) in &pools {
        let name = pool_name(zones, names.len() + 1);
        pool(&mut out, &name, gpus, &kinds, found.hot_plug);
        names.insert(*zones, name);
    }
    for host in &found.hosts {
        let own = names.iter();
        let own = own.filter(|(zones, _)| {
            let both_none = zones.is_empty() && host.zones.is_empty();
            both_none || zones.iter().any(|zone| host.zones.contains(zone))
        });
        let own: Vec<&str> = own.map(|(_, name)| name.as_str()).collect();
        node(&mut out, host, &own, slots);
    }
    out
}

/// A product as a catalogue may know it.
fn product(gpu: &FoundPooled) -> String {
    let said = |text: &Option<String>| text.as_deref().map(plain).unwrap_or_default();
    let (maker, model) = (said(&gpu.manufacturer), said(&gpu.model));
    let whole = if folded(&model).starts_with(&folded(&maker)) {
        model
    } else {
        format!("{maker} {model}")
    };
    let whole = whole.trim();
    if folded(whole).is_empty() {
        "unknown GPU"
    } else {
        whole
    }
    .to_owned()
}

fn unknown_kinds(
    out: &mut String,
    found: &FoundFabric,
    kinds: &BTreeMap<String, Option<KnownGpu>>,
) {
    for (product, _) in kinds.iter().filter(|(_, known)| known.is_none()) {
        let mut same = found
            .gpus
            .iter()
            .filter(|gpu| self::product(gpu) == *product);
        let memory = same.find_map(|gpu| gpu.memory_mib);
        let name = quoted(product);
        let _ = write!(
            out,
            "\n# not in the catalogue\n[[gpu_kind]]\nname = {name}\n"
        );
        let _ = match memory {
            Some(mib) => writeln!(out, "memory = \"{mib}MiB\""),
            None => writeln!(out, "# memory = \"?\"  # not said"),
        };
    }
}

fn pool_name(zones: &[String], number: usize) -> String {
    let name = plain(&zones.join("+"));
    if name.is_empty() {
        format!("pool-{number}")
    } else {
        name
    }
}

fn pool(
    out: &mut String,
    name: &str,
    gpus: &[&FoundPooled],
    kinds: &BTreeMap<String, Option<KnownGpu>>,
    hot_plug: Option<bool>,
) {
    let mut runs: Vec<(String, u32)> = Vec::new();
    for gpu in gpus {
        let product = product(gpu);
        let known = kinds.get(&product).and_then(Option::as_ref);
        let kind = known.map_or(product, |known| known.kind.name.clone());
        match runs.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => runs.push((kind, 1)),
        }
    }
    let runs: Vec<String> = runs
        .iter()
        .map(|(kind, count)| quoted(&format!("{count}x{kind}")))
        .collect();
    let blocks: Vec<String> = gpus.iter().map(|gpu| named(&gpu.block)).collect();
    let _ = write!(out, "\n[[pool]]\nname = {}\n", quoted(name));
    let _ = writeln!(out, "gpus = [{}]", runs.join(", "));
    let _ = writeln!(out, "resource_blocks = [{}]", blocks.join(", "));
    let _ = writeln!(
        out,
        "attach = \"10s\"  # not said; what is measured takes its place"
    );
    let _ = match hot_plug {
        Some(true) => writeln!(out, "hot_plug = true"),
        Some(false) => writeln!(
            out,
            "hot_plug = false  # a host is composed anew when its GPUs change"
        ),
        None => writeln!(
            out,
            "hot_plug = false  # not said: whether GPUs come and go while a host runs"
        ),
    };
}

fn node(out: &mut String, host: &FoundBlock, pools: &[&str], slots: Option<u32>) {
    let block = named(&host.block);
    let _ = write!(
        out,
        "\n[[node]]\nname = {block}\nresource_block = {block}\n"
    );
    let _ = match host.cpu_milli {
        Some(milli) => writeln!(out, "cpu = {}", milli as f64 / 1000.0),
        None => writeln!(out, "# cpu = ?  # not said: cores that jobs may have"),
    };
    let _ = match host.memory_mib {
        Some(mib) => writeln!(out, "memory = \"{mib}MiB\""),
        None => writeln!(out, "# memory = \"?\"  # not said: what jobs may have"),
    };
    if pools.is_empty() {
        let _ = writeln!(out, "# in no zone with GPUs");
        return;
    }
    let pools: Vec<String> = pools.iter().map(|name| quoted(name)).collect();
    let _ = writeln!(out, "pools = [{}]", pools.join(", "));
    let _ = match slots {
        Some(slots) => writeln!(out, "slots = {slots}"),
        None => writeln!(
            out,
            "slots = {SLOTS}  # not said: GPUs that it can have at once"
        ),
    };
}
