//! Diffusion, vision and embedding models: rows of the list, and one part by part.

use crate::{catalogue::Loaded, commands::gpus::source};
use gpuwise_domain::network::{InputSize, Part, PartRole, Walk};
use gpuwise_read::catalogue::NetworkEntry;
use gpuwise_size::media::walk::walk;
use gpuwise_units::{Bytes, Parameters};
use gpuwise_view::{
    figures,
    table::{Cell, Column, Table},
};

/// Bytes of an activation: 16 bits.
const ACTIVATION_BYTES: u64 = 2;

pub(super) fn usual(loaded: &Loaded, entry: &NetworkEntry) -> anyhow::Result<(InputSize, Walk)> {
    let network = loaded.networks.resolve(&entry.id, &loaded.models)?;
    let walked = walk(&network, &InputSize::default())?;
    Ok((network.usual, walked))
}

/// A row of the list of models: what it has of those columns.
pub(super) fn row(loaded: &Loaded, entry: &NetworkEntry) -> Vec<Cell> {
    let mut row = vec![Cell::text(&entry.id)];
    match usual(loaded, entry) {
        Ok((_, walked)) => {
            let parameters = walked.parameters();
            row.push(Cell::new(Parameters(parameters).to_string(), parameters));
        }
        Err(_) => row.push(Cell::missing()),
    }
    row.extend((0..5).map(|_| Cell::missing()));
    row.extend([
        source(&entry.source),
        Cell::text(entry.aliases.join("; ")),
        Cell::text(&entry.task),
        Cell::missing(),
    ]);
    row
}

/// One network, part by part, at its usual input.
pub(super) fn parts(loaded: &Loaded, entry: &NetworkEntry) -> anyhow::Result<Table> {
    let (input, walked) = usual(loaded, entry)?;
    let mut table = Table::new(vec![
        Column::left("part", "part").wrap(14),
        Column::left("role", "role").wrap(10),
        Column::right("parameters", "parameters"),
        Column::right("passes", "passes"),
        Column::right("flops_per_pass", "a pass"),
        Column::right("flops", "all passes"),
        Column::right("live_elements", "live elements").priority(80),
    ]);
    for part in &walked.parts {
        table.push(cells(part));
    }
    if walked.parts.len() > 1 {
        table.push(vec![
            Cell::text("all"),
            Cell::missing(),
            exact(walked.parameters()),
            Cell::missing(),
            Cell::missing(),
            work(walked.flops()),
            Cell::missing(),
        ]);
    }
    let task = if entry.task.is_empty() {
        String::new()
    } else {
        format!(", {}", entry.task)
    };
    table.footnote(format!("{}{task}: for {}.", entry.id, described(&input)));
    table.footnote(
        "Products only, a multiply-add being two; live elements are activations of one input at 16 bits.",
    );
    for assumption in &walked.assumptions {
        table.footnote(format!("Assumed: {assumption}."));
    }
    table.footnote(format!("Source: {}.", entry.source));
    Ok(table)
}

fn cells(part: &Part) -> Vec<Cell> {
    let live = Bytes::new(part.live_elements.saturating_mul(ACTIVATION_BYTES));
    let runs = !part.operations.is_empty();
    let only = |cell: Cell| if runs { cell } else { Cell::missing() };
    vec![
        Cell::text(&part.name),
        Cell::text(role(part.role)),
        exact(part.parameters),
        only(Cell::number(part.passes)),
        only(work(part.flops() as f64)),
        only(work(part.passes * part.flops() as f64)),
        only(Cell::new(figures::bytes(live), part.live_elements)),
    ]
}

fn exact(count: u64) -> Cell {
    Cell::new(figures::count(count), count)
}

/// Floating-point operations with a prefix.
fn work(flops: f64) -> Cell {
    let prefixes = [
        (1e18, "E"),
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
    ];
    let (unit, prefix) = prefixes
        .into_iter()
        .find(|(unit, _)| flops >= *unit)
        .unwrap_or((1.0, ""));
    Cell::new(
        format!("{} {prefix}FLOP", figures::number(flops / unit)),
        flops,
    )
}

fn role(role: PartRole) -> &'static str {
    match role {
        PartRole::TextEncoder => "text encoder",
        PartRole::Denoiser => "denoiser",
        PartRole::ImageDecoder => "latents to pixels",
        PartRole::ImageEncoder => "pixels to latents",
        PartRole::Encoder => "encoder",
        PartRole::Decoder => "decoder",
        PartRole::Backbone => "whole",
        PartRole::Tables => "tables",
        PartRole::Head => "layers",
    }
}

fn described(input: &InputSize) -> String {
    let mut words = Vec::new();
    if let (Some(width), Some(height)) = (input.width, input.height) {
        words.push(format!("{width} × {height} pixels"));
    }
    let counted = [
        (input.frames, "frames"),
        (input.steps, "steps"),
        (input.text_tokens, "tokens of text"),
        (input.written_tokens, "tokens written"),
    ];
    for (count, what) in counted {
        words.extend(count.map(|count| format!("{} {what}", figures::count(count))));
    }
    words.extend(input.seconds.map(|seconds| format!("{seconds} s of audio")));
    match input.guided {
        Some(true) => words.push("guidance by a second pass".into()),
        Some(false) => words.push("no second pass for guidance".into()),
        None => {}
    }
    if words.is_empty() {
        return "one input of the size it was made for".into();
    }
    words.join(", ")
}
