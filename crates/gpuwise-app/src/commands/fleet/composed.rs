//! `gpuwise fleet import --redfish`: hosts and pools of GPUs of a CompositionService as a fleet file.

use super::{Context, Exit};
use crate::{
    catalogue, commands::broker::is_this_machine, error::Problem, fleet, progress, redfish,
    settings::FleetImport, write::Pending,
};
use gpuwise_read::fleet::{FoundBlock, FoundFabric, FoundPooled, fabric_fleet_file};
use gpuwise_server::redfish::Pool;

pub(super) fn run(context: &Context, flags: &FleetImport, url: &str) -> anyhow::Result<Exit> {
    if context.app.offline && !is_this_machine(url) {
        return Err(Problem::new("--offline: no Redfish service may be asked").into());
    }
    let loaded = catalogue::load(&context.app.overrides)?;
    let target = flags.output.as_deref().map(Pending::new).transpose()?;
    let client = flags.how.client("--redfish", url)?;
    progress::doing("reads resource blocks and zones");
    let pool = client.survey();
    client.log_out();
    progress::doing("");
    let pool = pool.map_err(|trouble| redfish::problem(&trouble))?;
    for (block, why) in &pool.left_out {
        progress::say(&format!("▲ resource block {block} is left out: {why}"));
    }
    if pool.hosts.is_empty() || pool.gpus.is_empty() {
        let (hosts, gpus) = (pool.hosts.len(), pool.gpus.len());
        return Err(Problem::new(format!(
            "the service has {hosts} blocks of type Compute and {gpus} blocks of one GPU"
        ))
        .hint("hosts with pooled GPUs are composed of at least one of each")
        .into());
    }
    let find = |name: &str| fleet::known(&loaded.catalogue, name);
    let found = found(pool);
    let text = fabric_fleet_file(&flags.name, &found, flags.slots, &find);
    // What is written is what `fleet check` accepts.
    fleet::of_text("the fleet file", &text, &loaded.catalogue).map_err(|problems| {
        Problem::new("what this service says cannot be a fleet").because(problems)
    })?;
    match target {
        Some(target) => target.finish(&text)?,
        None => context.data(&text)?,
    }
    Ok(Exit::Yes)
}

fn found(pool: Pool) -> FoundFabric {
    let hosts = pool.hosts.into_iter().map(|host| FoundBlock {
        block: host.block,
        zones: host.zones,
        cpu_milli: host.cores.map(|cores| u64::from(cores) * 1000),
        memory_mib: host.memory_mib,
    });
    let gpus = pool.gpus.into_iter().map(|gpu| FoundPooled {
        block: gpu.block,
        zones: gpu.zones,
        manufacturer: gpu.manufacturer,
        model: gpu.model,
        memory_mib: gpu.memory_mib.and_then(|mib| u32::try_from(mib).ok()),
    });
    FoundFabric {
        hosts: hosts.collect(),
        gpus: gpus.collect(),
        hot_plug: pool.hot_plug,
    }
}
