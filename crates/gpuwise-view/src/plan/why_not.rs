//! Why a GPU is not among the deployments.

use super::words;
use crate::{launch::quoted, rejected};
use crate::{markup::escape_markdown, style::Style};
use gpuwise_domain::deployment::{Dropped, Sizing};
use std::fmt::Write as _;

/// Everything that was tried with a GPU (its name or a part of it) and how it failed; where it is
/// among the deployments, at which rank.
pub fn why_not(sizing: &Sizing, gpu: &str, style: Style) -> String {
    let (head, list) = findings(sizing, gpu);
    let mut out = style.wrap(&head, 2) + "\n";
    if !list.is_empty() {
        let _ = write!(out, "\n{}", rejected::table(list).to_text(style));
    }
    out
}

/// The same in Markdown.
pub fn why_not_markdown(sizing: &Sizing, gpu: &str) -> String {
    let (head, list) = findings(sizing, gpu);
    let mut out = format!(
        "## Why not {}\n\n{}\n",
        escape_markdown(gpu),
        escape_markdown(&head)
    );
    if !list.is_empty() {
        let _ = write!(out, "\n{}", rejected::table(list).to_markdown());
    }
    out
}

fn findings<'a>(sizing: &'a Sizing, gpu: &str) -> (String, Vec<&'a Dropped>) {
    let wanted = gpu.to_lowercase();
    let named = |name: &str| name.to_lowercase().contains(&wanted);
    let ranks: Vec<String> = sizing
        .ranked
        .iter()
        .enumerate()
        .filter(|(_, deployment)| named(&words::device(deployment)))
        .map(|(index, deployment)| format!("{} ({})", index + 1, words::deployment(deployment)))
        .collect();
    let list: Vec<&Dropped> = sizing
        .nearest()
        .into_iter()
        .filter(|d| named(&d.gpu) || named(&d.label))
        .collect();
    let head = if !ranks.is_empty() {
        format!("{gpu} is among the deployments: {}.", ranks.join(", "))
    } else if let Some(first) = list.first() {
        let fix = first
            .fixes
            .first()
            .map_or_else(String::new, |fix| format!(" It would fit with {fix}."));
        format!(
            "{gpu} is not among the deployments. Nearest: {} fails {}: {}.{fix}",
            first.label,
            first.test.name(),
            first.shortfall
        )
    } else {
        format!(
            "{gpu} was not among the {} candidates looked at; `gpuwise gpus {}` shows what the catalogue has.",
            crate::figures::count(sizing.considered),
            quoted(gpu)
        )
    };
    (head, list)
}
