//! `gpuwise operator plan`.

use super::{
    ClusterFlags, Context, Exit,
    size::{Infeasible, Planner},
    unread,
};
use crate::{
    app::Format, catalogue, commands::plan::show_of, error::Problem, progress, schemas::AnswerName,
};
use anyhow::Context as _;
use clap::Args;
use gpuwise_k8s::{
    manifests,
    operator::{self, Asked, Which, WorkloadAsk},
    resources::{Decided, GpuWorkloadSpec},
};
use std::{fs, io, path::PathBuf};

#[derive(Debug, Args)]
pub struct Flags {
    /// The GpuWorkload, alone or as NAMESPACE/NAME
    #[arg(value_name = "GPUWORKLOAD", required_unless_present = "file")]
    workload: Option<String>,
    /// File that it is written in, as for kubectl apply; `-`: standard input
    #[arg(long, short = 'f', value_name = "FILE", conflicts_with = "workload")]
    file: Option<PathBuf>,
    /// Its namespace
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Show formulas and the numbers in them
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let context = context.answering(AnswerName::ServingPlan);
    let which = match (&flags.file, &flags.workload) {
        (Some(file), _) => Which::Given(Box::new(of_file(file)?)),
        (None, named) => {
            let name = named.as_deref().unwrap_or_default();
            let name = name.trim_start_matches("gpuworkload/");
            let (namespace, name) = name.split_once('/').unwrap_or((&flags.namespace, name));
            Which::Named {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }
        }
    };
    let asked = asked(&context, flags, which)?;
    let planner = Planner::new(&context.app, None);
    let ask = &asked.ask;
    let loaded = catalogue::load(&context.app.overrides)?;
    let found = match planner.best(ask, &loaded) {
        Ok(found) => found,
        Err(error) if error.is::<Infeasible>() => {
            progress::say(&format!("GpuWorkload {}: {error}", named(ask)));
            return Ok(Exit::No);
        }
        Err(error) => return Err(error.context(format!("GpuWorkload {}", named(ask)))),
    };
    if context.form.format == Format::Table {
        let now = planner.sized_of(ask, &found, &loaded)?.decided;
        context.data(&head(&asked, &now))?;
    }
    let settings = Planner::settings(ask, found.gpu(), found.pick, flags.explain)?;
    show_of(&context, &settings, &found.planned)?;
    Ok(Exit::Yes)
}

/// What there is to size by: of the cluster, or where that may not be asked of the file alone.
fn asked(context: &Context, flags: &Flags, which: Which) -> anyhow::Result<Asked> {
    match which {
        Which::Given(object) if context.app.offline => {
            if object.spec.gpus.is_empty() {
                return Err(
                    Problem::new("--offline: no cluster may be asked which GPUs it has")
                        .hint("name some in spec.gpus, or leave --offline out")
                        .into(),
                );
            }
            let ask = WorkloadAsk {
                namespace: object.metadata.namespace.unwrap_or_default(),
                name: object.metadata.name,
                spec: object.spec,
                ..WorkloadAsk::default()
            };
            Ok(Asked { ask, decided: None })
        }
        which => operator::workload(&flags.cluster.connection(), which).map_err(unread),
    }
}

fn of_file(file: &PathBuf) -> anyhow::Result<gpuwise_k8s::resources::Object<GpuWorkloadSpec>> {
    let shown = file.display();
    let read = if file.as_os_str() == "-" {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(file)
    };
    let text = read.with_context(|| format!("{shown} cannot be read"))?;
    let mut all = manifests::read(&text).with_context(|| format!("{shown} is no YAML"))?;
    all.retain(|one| one["kind"] == "GpuWorkload");
    let one = match (all.pop(), all.is_empty()) {
        (Some(one), true) => one,
        (found, _) => {
            let count = all.len() + usize::from(found.is_some());
            return Err(Problem::new(format!(
                "{shown}: {count} GpuWorkloads are in it, and one is planned"
            ))
            .hint("write the one that is meant into a file of its own")
            .into());
        }
    };
    let read = operator::read_workload(one);
    Ok(read.map_err(|why| Problem::new(format!("{shown}: {why}")))?)
}

fn named(ask: &WorkloadAsk) -> String {
    let space = ask.namespace.as_str();
    if space.is_empty() {
        ask.name.clone()
    } else {
        format!("{space}/{}", ask.name)
    }
}

/// What the operator would decide now, and what it has decided where that is something else.
fn head(asked: &Asked, now: &Decided) -> String {
    let cost = |cost: Option<&String>| cost.map_or(String::new(), |cost| format!(", {cost}/h"));
    let mut text = format!(
        "GpuWorkload {}: {}{}\n  {}\n",
        named(&asked.ask),
        now.words(),
        cost(now.cost_per_hour.as_ref()),
        now.why
    );
    if let Some(old) = asked
        .decided
        .as_ref()
        .filter(|old| old.words() != now.words())
    {
        let plan = &old.plan;
        let cost = cost(old.cost_per_hour.as_ref());
        let words = old.words();
        let line = format!("  it has {words}{cost} (plan {plan}): {}\n", old.why);
        text.push_str(&line);
    }
    text.push('\n');
    text
}
