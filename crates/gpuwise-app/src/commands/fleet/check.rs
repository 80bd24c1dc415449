//! `gpuwise fleet check`: is a fleet file right, and what does it describe?

use super::{Context, Exit};
use crate::{
    catalogue, fleet,
    made::made,
    settings::{FleetCheck, Format},
    write::Pending,
};
use gpuwise_domain::placement::Job;
use gpuwise_sched::world::Phase;
use gpuwise_view::fleet::{Scene, kinds, nodes, page, summary};
use serde_json::json;
use std::fmt::Write as _;

pub(super) fn run(context: &Context, flags: &FleetCheck) -> anyhow::Result<Exit> {
    let loaded = catalogue::load(&context.app.overrides)?;
    let mut file = fleet::read(&flags.fleet, &loaded.catalogue)?;
    let jobs = match &flags.jobs {
        Some(path) => Some(fleet::read_jobs(path, &mut file.fleet, &loaded.catalogue)?),
        None => None,
    };
    let svg = flags.svg.as_deref().map(Pending::new).transpose()?;
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let world = fleet::world(&file, jobs.as_ref())?;
    let moment = fleet::moment(&world);
    let scene = Scene::new(&file.fleet, &moment);
    if let Some(target) = svg {
        target.finish(&gpuwise_view::svg::fleet(&scene, "fleet").to_svg())?;
    }
    if let Some(target) = html {
        let made = made();
        let waiting: Vec<Job> = (world.jobs())
            .filter(|(_, state)| matches!(state.phase, Phase::Waiting { .. }))
            .map(|(_, state)| state.job.to_job())
            .collect();
        let waiting: Vec<&Job> = waiting.iter().collect();
        target.finish(&page(&scene, &waiting, &file.doubts, &made))?;
    }
    show(context, &scene, &file.doubts)?;
    Ok(Exit::Yes)
}

fn show(context: &Context, scene: &Scene<'_>, doubts: &[String]) -> anyhow::Result<()> {
    let style = context.form.style;
    match context.form.format {
        Format::Csv => context.data(&nodes(scene, false).to_csv()),
        Format::Json => context.json(&json!({
            "fleet": scene.fleet.name,
            "nodes": nodes(scene, false).to_json(),
            "kinds": kinds(scene).to_json(),
            "doubts": doubts,
        })),
        Format::Md => {
            let mut text = format!(
                "{}\n\n{}\n{}",
                summary(scene),
                nodes(scene, true).to_markdown(),
                kinds(scene).to_markdown()
            );
            for doubt in doubts {
                let _ = write!(text, "\n- {}", gpuwise_view::escape_markdown(doubt));
            }
            context.data(&format!("{}\n", text.trim_end()))
        }
        Format::Table => {
            let mut text = format!("{}\n\n", style.wrap(&summary(scene), 0));
            let _ = write!(
                text,
                "{}\n{}",
                nodes(scene, true).to_text(style),
                kinds(scene).to_text(style)
            );
            if !doubts.is_empty() {
                text.push('\n');
            }
            for doubt in doubts {
                text += &style.wrap(&format!("▲ {doubt}"), 2);
                text.push('\n');
            }
            context.data(&style.finish(text))
        }
    }
}
