//! Many nodes: a square for each GPU, or for some nodes each.

use super::{Group, LEFT, RIGHT, key::Tenants, mark, paint};
use crate::{
    fleet::{Scene, Use},
    svg::canvas::{Anchor, Canvas, cut, short},
};
use gpuwise_domain::placement::{GpuId, Holding, Node, NodeId};
use std::{collections::BTreeMap, fmt::Write as _};

/// Side of a square, and room between nodes.
const SIDE: f64 = 6.0;
const GAP: f64 = 3.0;
/// Height of a line of squares.
const STEP: f64 = 9.0;
/// Racks that are named.
const NAMED: usize = 80;
/// Squares that stand for several nodes, at most.
const MOST: usize = 12_000;

/// `64 × H100 SXM5 80GB, 16 × L40S`.
fn kinds(scene: &Scene<'_>, group: &Group<'_>) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for gpu in group.nodes.iter().flat_map(|(id, _)| scene.gpus_of(*id)) {
        let name = scene.kind(gpu).map_or("?", |kind| kind.name.as_str());
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let named: Vec<String> = (counts.iter())
        .map(|(name, count)| format!("{count} × {name}"))
        .collect();
    if named.is_empty() {
        return "no GPUs".into();
    }
    named.join(", ")
}

/// Outlines and fills, gathered by their look.
#[derive(Default)]
struct Ink {
    outlines: String,
    fills: BTreeMap<&'static str, String>,
    marks: BTreeMap<Use, String>,
}

/// Draws all nodes; gives the height below.
pub(super) fn draw(
    canvas: &mut Canvas,
    scene: &Scene<'_>,
    tenants: &Tenants,
    groups: &[Group<'_>],
    each: bool,
    top: f64,
) -> f64 {
    let mut ink = Ink::default();
    let mut pen = (LEFT, top);
    let named = groups.len() <= NAMED;
    let bundle = if each {
        1
    } else {
        scene.fleet.nodes.len().div_ceil(MOST)
    };
    for group in groups {
        if let Some(name) = group.name.as_ref().filter(|_| named) {
            pen = (LEFT, next_line(pen, top) + 4.0);
            let name = cut(&format!("{name}: {}", kinds(scene, group)), RIGHT - LEFT);
            canvas.text(LEFT, pen.1 + 11.0, Anchor::Start, "m", &name);
            pen.1 += 16.0;
        }
        if each {
            for (id, node) in &group.nodes {
                strip(&mut ink, scene, tenants, (*id, node), &mut pen);
            }
        } else {
            for nodes in group.nodes.chunks(bundle) {
                let gpus: Vec<GpuId> = nodes
                    .iter()
                    .flat_map(|(id, _)| scene.gpus_of(*id))
                    .collect();
                room(&mut pen, SIDE);
                together(&mut ink, scene, tenants, &gpus, pen);
                pen.0 += SIDE + 1.0;
            }
        }
    }
    let mut bottom = pen.1 + STEP;
    ink.lay(canvas);
    if !each {
        let what = match bundle {
            1 => "a square is a node".to_owned(),
            many => format!("a square is {many} nodes"),
        };
        bottom += 14.0;
        let text = format!("{what}, filled as far as it is held");
        canvas.text(LEFT, bottom, Anchor::Start, "m", &text);
    }
    bottom
}

/// The next line's height, unless nothing is on this one yet.
fn next_line(pen: (f64, f64), top: f64) -> f64 {
    if pen.0 > LEFT || pen.1 > top {
        pen.1 + STEP
    } else {
        pen.1
    }
}

/// Goes to the next line where there is no room for so much.
fn room(pen: &mut (f64, f64), wide: f64) {
    if pen.0 > LEFT && pen.0 + wide > RIGHT {
        *pen = (LEFT, pen.1 + STEP);
    }
}

/// One node: its GPUs side by side.
fn strip(
    ink: &mut Ink,
    scene: &Scene<'_>,
    tenants: &Tenants,
    (id, node): (NodeId, &Node),
    pen: &mut (f64, f64),
) {
    let gpus: Vec<GpuId> = scene.gpus_of(id).collect();
    room(pen, gpus.len() as f64 * SIDE);
    for gpu in gpus {
        room(pen, SIDE);
        let state = scene.use_of(gpu, node.health);
        let largest = scene.holdings(gpu).iter().max_by_key(|one| share(one));
        let held = f64::from(scene.held_milli(gpu)) / 1000.0;
        ink.square(*pen, largest.map(|one| tenants.colour(one)), held, state);
        pen.0 += SIDE;
    }
    pen.0 += GAP;
}

fn share(holding: &Holding) -> u32 {
    use gpuwise_domain::placement::Part;
    match holding.part {
        Part::Whole => 1000,
        Part::Fraction { milli, .. } => milli,
        Part::Slice { shape, .. } => u32::from(shape),
    }
}

/// Several nodes as one square.
fn together(ink: &mut Ink, scene: &Scene<'_>, tenants: &Tenants, gpus: &[GpuId], at: (f64, f64)) {
    let held: u64 = gpus
        .iter()
        .map(|gpu| u64::from(scene.held_milli(*gpu)))
        .sum();
    let mut by: BTreeMap<&'static str, u64> = BTreeMap::new();
    for gpu in gpus {
        for holding in scene.holdings(*gpu) {
            *by.entry(tenants.colour(holding)).or_default() += u64::from(share(holding));
        }
    }
    let largest = by.into_iter().max_by_key(|(_, milli)| *milli);
    let share = held as f64 / (gpus.len().max(1) as f64 * 1000.0);
    ink.square(at, largest.map(|(colour, _)| colour), share, Use::Free);
}

impl Ink {
    /// One square, filled from below as far as it is held.
    fn square(&mut self, (x, y): (f64, f64), colour: Option<&'static str>, held: f64, state: Use) {
        let side = SIDE - 1.0;
        let (left, top) = (short(x), short(y));
        let _ = write!(self.outlines, "M{left} {top}h{side}v{side}h-{side}Z");
        if let Some(colour) = colour
            && held > 0.0
        {
            let high = (held * side).max(0.6);
            let from = short(y + side - high);
            let high = short(high);
            let fill = self.fills.entry(colour).or_default();
            let _ = write!(fill, "M{left} {from}h{side}v{high}h-{side}Z");
        }
        if state >= Use::Draining {
            let marks = self.marks.entry(state).or_default();
            *marks += &mark(state, (x, y), side);
        }
    }

    fn lay(&self, canvas: &mut Canvas) {
        canvas.shapes(&self.outlines, "class=\"g\" stroke-width=\"0.6\"");
        for (colour, data) in &self.fills {
            canvas.shapes(data, &format!("fill=\"{colour}\""));
        }
        for (state, data) in &self.marks {
            canvas.shapes(data, &paint(*state));
        }
    }
}
