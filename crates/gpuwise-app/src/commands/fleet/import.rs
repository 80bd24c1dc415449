//! `gpuwise fleet import`: what tools say of nodes, as a fleet file.

use super::{Context, Exit};
use crate::{catalogue, error::Problem, fleet, settings::FleetImport, write::Pending};
use gpuwise_read::fleet::{fleet_file, merge_found, read_fleet, read_found};
use std::{fs, path::Path};

pub(super) fn run(context: &Context, flags: &FleetImport) -> anyhow::Result<Exit> {
    if flags.in_cluster || flags.kubeconfig.is_some() || flags.context.is_some() {
        return super::live::run(context, flags);
    }
    if let Some(url) = &flags.redfish {
        return super::composed::run(context, flags, url);
    }
    if flags.how.said() {
        return Err(Problem::new("--redfish-…: no Redfish service is asked")
            .hint("leave them out, or name it by --redfish")
            .into());
    }
    let loaded = catalogue::load(&context.app.overrides)?;
    let target = flags.output.as_deref().map(Pending::new).transpose()?;
    let mut found = Vec::new();
    for path in &flags.files {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| {
            Problem::new(format!("cannot read {shown}"))
                .because(error)
                .hint("name files that hold outputs of nvidia-smi, kubectl or scontrol")
        })?;
        found.extend(read_found(&shown, &node_of(path), &text)?);
    }
    let nodes = merge_found(found).map_err(|problem| {
        Problem::new(problem).hint("outputs of one node have one name up to the first dot")
    })?;
    let find = |name: &str| fleet::known(&loaded.catalogue, name);
    let text = fleet_file(&flags.name, &nodes, &find);
    // What is written is what `fleet check` accepts.
    read_fleet("the fleet file", &text, None, &find).map_err(|problems| {
        Problem::new("what these outputs say cannot be a fleet").because(problems)
    })?;
    match target {
        Some(target) => target.finish(&text)?,
        None => context.data(&text)?,
    }
    Ok(Exit::Yes)
}

/// The node that a file is named after: its name up to the first dot.
fn node_of(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    name.split('.').next().unwrap_or("node").to_owned()
}
