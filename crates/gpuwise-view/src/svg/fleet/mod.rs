//! A fleet as people want to see it: racks, nodes, GPUs and slices as nested boxes in their real order,
//! coloured by who uses it, each state with a mark of its own.
//!
//! Few nodes are drawn one to a row, with names on what is held; many as a square for each GPU; very
//! many as a square for some nodes each, filled as far as they are held.

mod key;
mod rows;
mod squares;

use super::canvas::{Anchor, Canvas, FONT, Picture, WIDTH, cut};
use crate::{
    figures,
    fleet::{Scene, Use, summary},
};
use gpuwise_domain::placement::{DomainId, Level, Node, NodeId};
use key::Tenants;

const LEFT: f64 = 8.0;
const RIGHT: f64 = WIDTH - 8.0;
/// Nodes that are drawn a row each.
const ROWS: usize = 48;
/// GPUs that are drawn a square each.
const SQUARES: usize = 15_000;

pub fn fleet(scene: &Scene<'_>, id: &str) -> Picture {
    let tenants = Tenants::of(scene);
    let mut canvas = Canvas::default();
    let gpus = scene.placed().count();
    let held: u64 = scene
        .placed()
        .map(|(_, _, gpu)| u64::from(scene.held_milli(gpu)))
        .sum();
    let title = if scene.fleet.name.is_empty() {
        "The fleet".to_owned()
    } else {
        scene.fleet.name.clone()
    };
    canvas.text(LEFT, 20.0, Anchor::Start, "b", &cut(&title, 210.0));
    let holding = format!(
        "{} of {} GPUs held",
        figures::number(held as f64 / 1000.0),
        figures::count(gpus as u64)
    );
    canvas.text(RIGHT, 20.0, Anchor::End, "m", &holding);
    let racks = by_rack(scene);
    let bottom = if scene.fleet.nodes.len() <= ROWS {
        rows::draw(&mut canvas, scene, &tenants, &racks, 30.0)
    } else {
        let each = gpus <= SQUARES;
        squares::draw(&mut canvas, scene, &tenants, &racks, each, 30.0)
    };
    let bottom = key::draw(&mut canvas, scene, &tenants, bottom + 8.0);
    let description = format!("{}. {}", summary(scene), tenants.sentence());
    canvas.finish(id, title, description, bottom)
}

/// Nodes of one rack, or of none, in their order.
struct Group<'a> {
    /// The rack's name, with what it is in.
    name: Option<String>,
    nodes: Vec<(NodeId, &'a Node)>,
}

/// Nodes by rack, racks in order of their first node.
fn by_rack<'a>(scene: &Scene<'a>) -> Vec<Group<'a>> {
    let mut out: Vec<(Option<DomainId>, Group<'a>)> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for (id, node) in (0..).map(NodeId).zip(&scene.fleet.nodes) {
        let at = *places.entry(node.domain).or_insert_with(|| {
            out.push((
                node.domain,
                Group {
                    name: node.domain.map(|domain| path(scene, domain)),
                    nodes: Vec::new(),
                },
            ));
            out.len() - 1
        });
        if let Some((_, group)) = out.get_mut(at) {
            group.nodes.push((id, node));
        }
    }
    out.into_iter().map(|(_, group)| group).collect()
}

/// `rack r1, block b2`.
fn path(scene: &Scene<'_>, domain: DomainId) -> String {
    let mut parts = Vec::new();
    let mut next = Some(domain);
    while let Some(one) = next.and_then(|id| scene.fleet.domains.get(id.index())) {
        parts.push(format!("{} {}", one.level.name(), one.name));
        next = one.parent.filter(|parent| Some(*parent) < next);
        if one.level == Level::Zone {
            break;
        }
    }
    parts.join(", ")
}

/// The outline of a mark within a square: a cross, a triangle, a rhombus.
fn mark(state: Use, (x, y): (f64, f64), size: f64) -> String {
    use super::canvas::short;
    let (half, inset) = (size / 2.0, size * 0.18);
    let (left, right) = (short(x + inset), short(x + size - inset));
    let (top, bottom) = (short(y + inset), short(y + size - inset));
    let (across, down) = (short(x + half), short(y + half));
    match state {
        Use::Lost => format!("M{left} {top}L{right} {bottom}M{right} {top}L{left} {bottom}"),
        Use::Draining => format!("M{across} {top}L{right} {bottom}L{left} {bottom}Z"),
        Use::Maintenance => {
            format!("M{across} {top}L{right} {down}L{across} {bottom}L{left} {down}Z")
        }
        Use::Free | Use::Whole | Use::Shared | Use::Cut => String::new(),
    }
}

/// How a mark is painted.
fn paint(state: Use) -> String {
    use super::canvas::colour;
    match state {
        Use::Lost => format!(
            "fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"",
            colour::VERMILION
        ),
        _ => format!("fill=\"{}\"", colour::ORANGE),
    }
}

/// Height of a line of text.
const LINE: f64 = FONT * 1.4;
