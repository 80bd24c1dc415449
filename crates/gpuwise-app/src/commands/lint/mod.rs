//! `gpuwise lint`: does a saved plan hold together?

use super::{Context, Exit, place};
use crate::{catalogue, error::Problem, fleet, policy::Rules, questions::read_text, settings};
use gpuwise_domain::placement::JobId;
use gpuwise_sched::lint::{Limits, Note, lint, lint_world};
use gpuwise_view::placement::{NoteRow, notes};
use gpuwise_wire::plan_from_json;
use std::collections::BTreeMap;

pub fn run(context: &Context, flags: &settings::Lint) -> anyhow::Result<Exit> {
    let text = read_text(&flags.plan)?;
    let shown = flags.plan.display();
    let file = plan_from_json(&text).map_err(|error| {
        Problem::new(format!("{shown} is no saved plan"))
            .because(error)
            .hint("`gpuwise place … --save FILE` writes one")
    })?;
    let (noun, world) = if let (Some(fleet), Some(jobs)) = (&flags.fleet, &flags.jobs) {
        let estate = place::estate(&context.app, fleet, jobs, &[], Rules::default())?;
        (estate.fleet, estate.world)
    } else {
        let state = file.state().ok_or_else(|| {
            Problem::new(format!("{shown} does not say what it was made for"))
                .hint("name the files: --fleet fleet.toml --jobs jobs.toml")
        })?;
        let loaded = catalogue::load(&context.app.overrides)?;
        let texts = fleet::Texts {
            fleet: &state.fleet,
            jobs: &state.jobs,
            fabric: state.fabric.as_deref(),
        };
        fleet::of_texts(&shown.to_string(), &texts, &loaded.catalogue)?
    };
    let names: BTreeMap<&str, JobId> = world
        .jobs()
        .map(|(id, state)| (&*state.job.name, id))
        .collect();
    let find = |name: &str| names.get(name).copied();
    let plan = file
        .plan(&noun, &find)
        .map_err(|error| Problem::new(format!("{shown} does not fit its fleet")).because(error))?;
    let limits = Limits {
        disrupted: flags.max_disruptions,
        lost: flags.max_lost,
    };
    let mut found = lint_world(&world);
    found.extend(lint(&world, &plan, limits));
    context.table(&notes(&rows(&found)))?;
    Ok(if found.is_empty() {
        Exit::Yes
    } else {
        Exit::No
    })
}

fn rows(found: &[Note]) -> Vec<NoteRow> {
    let row = |note: &Note| NoteRow {
        severity: note.severity.name(),
        rule: note.rule.name(),
        action: note.action.map(|at| at + 1),
        what: note.what.clone(),
    };
    found.iter().map(row).collect()
}
