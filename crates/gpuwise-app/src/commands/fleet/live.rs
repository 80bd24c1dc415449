//! `gpuwise fleet import --kubeconfig`: a live cluster as fleet and job files.

use super::{Context, Exit};
use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    fleet, progress,
    settings::FleetImport,
    write::Pending,
};
use gpuwise_k8s::{
    inventory::{Finding, Inventory},
    watch::{DriveError, Said, Settings, Source, Trouble, drive},
};
use gpuwise_read::fleet::{fleet_file, job_file, merge_found};
use std::{path::Path, sync::Arc};

/// Findings that are told one by one.
const TOLD: usize = 20;

pub(super) fn run(context: &Context, flags: &FleetImport) -> anyhow::Result<Exit> {
    if context.app.offline {
        return Err(Problem::new("--offline: no cluster may be asked")
            .hint("leave it out, or import what `kubectl get nodes -o json` printed")
            .into());
    }
    let loaded = catalogue::load(&context.app.overrides)?;
    for path in [&flags.output, &flags.jobs].into_iter().flatten() {
        Pending::new(path)?;
    }
    let source = if flags.in_cluster {
        Source::InCluster
    } else {
        Source::Kubeconfig {
            file: flags.kubeconfig.clone(),
            context: flags.context.clone(),
        }
    };
    let mut import = Import {
        context,
        flags,
        loaded: &loaded,
        before: None,
        fleet: String::new(),
        findings: Vec::new(),
    };
    progress::doing("reads the cluster's nodes, pods and devices");
    let driven = drive(&source, Settings::default(), flags.watch, |said| {
        match said {
            Said::Inventory(inventory) => import.seen(inventory)?,
            Said::Trouble(trouble) => progress::say(&format!("▲ {trouble}")),
        }
        Ok(())
    });
    progress::doing("");
    driven.map_err(wrong)?;
    Ok(Exit::Yes)
}

struct Import<'a> {
    context: &'a Context,
    flags: &'a FleetImport,
    loaded: &'a Loaded,
    before: Option<Arc<Inventory>>,
    /// What was written last.
    fleet: String,
    /// Those of the last inventory, in order.
    findings: Vec<Finding>,
}

impl Import<'_> {
    fn seen(&mut self, inventory: &Arc<Inventory>) -> anyhow::Result<()> {
        progress::doing("");
        self.tell(inventory);
        let changes_only = self.flags.watch && self.flags.output.is_none();
        if let Some(before) = self.before.as_ref().filter(|_| changes_only) {
            let mut lines = inventory.changes_since(before).join("\n");
            if !lines.is_empty() {
                lines.push('\n');
                self.context.data(&lines)?;
            }
        } else if let Err(error) = self.write(inventory) {
            // A cluster that cannot be written for now does not end what has begun well.
            if self.before.is_none() {
                return Err(error);
            }
            progress::say(&format!("▲ the files stay as they were: {error:#}"));
        }
        self.before = Some(inventory.clone());
        Ok(())
    }

    /// Says what does not agree, each once.
    fn tell(&mut self, inventory: &Inventory) {
        let findings = inventory.findings();
        let known = |one: &&Finding| self.findings.binary_search(one).is_ok();
        let new = findings.iter().filter(|one| !known(one));
        let new: Vec<&Finding> = new.collect();
        for finding in new.iter().take(TOLD) {
            progress::say(&format!("▲ {finding}"));
        }
        if new.len() > TOLD {
            progress::say(&format!("▲ and {} more of these", new.len() - TOLD));
        }
        self.findings = findings;
    }

    fn write(&mut self, inventory: &Inventory) -> anyhow::Result<()> {
        let nodes = merge_found(inventory.found_nodes()).map_err(Problem::new)?;
        let find = |name: &str| fleet::known(&self.loaded.catalogue, name);
        let text = fleet_file(&self.flags.name, &nodes, &find);
        if self.before.is_some() && text == self.fleet && self.flags.jobs.is_none() {
            return Ok(());
        }
        // What is written is what `fleet check` accepts.
        let file = fleet::of_text("the fleet file", &text, &self.loaded.catalogue).map_err(
            |problems| Problem::new("what this cluster has cannot be a fleet").because(problems),
        )?;
        if let Some(path) = &self.flags.jobs {
            let now = jiff::Timestamp::now().as_second();
            let jobs = job_file(&file, &inventory.found_jobs(now));
            self.put(path, &jobs, "jobs")?;
        }
        match &self.flags.output {
            None => self.context.data(&text)?,
            Some(path) if text != self.fleet => self.put(path, &text, "nodes")?,
            Some(_) => {}
        }
        self.fleet = text;
        Ok(())
    }

    fn put(&self, path: &Path, text: &str, what: &str) -> anyhow::Result<()> {
        Pending::new(path)?.finish(text)?;
        if self.flags.watch {
            progress::say(&format!("wrote {what} to {}", path.display()));
        }
        Ok(())
    }
}

/// A cluster that cannot be followed, as people read it.
pub(in crate::commands) fn wrong(error: DriveError<anyhow::Error>) -> anyhow::Error {
    match error {
        DriveError::Given(error) => error,
        DriveError::Trouble(trouble) => troubled(&trouble),
        DriveError::Connect(error) => Problem::of_cluster(&error).into(),
        DriveError::Runtime(error) => Problem::new("cannot start the watches")
            .because(error)
            .into(),
    }
}

/// What an API server refuses, and what to do.
pub(in crate::commands) fn troubled(trouble: &Trouble) -> anyhow::Error {
    let problem = Problem::new(trouble.to_string());
    trouble.hint.iter().fold(problem, Problem::hint).into()
}
