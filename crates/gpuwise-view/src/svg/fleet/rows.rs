//! Few nodes: a row each, with the names of jobs on what they hold.

use super::{Group, LEFT, LINE, RIGHT, key::Tenants, mark, paint};
use crate::{
    fleet::{Scene, Use},
    svg::canvas::{Anchor, Canvas, cut, short, text_width},
};
use gpuwise_domain::placement::{GpuId, Health, Holding, Home, JobId, Node, Part};

/// Where GPUs begin: the name of a GPU stands left of it.
const GPUS: f64 = 136.0;
/// Height of a GPU, and of a row.
const HIGH: f64 = 27.0;
const ROW: f64 = 36.0;
const INSET: f64 = 6.0;
/// Width of a GPU at most: the name of a MIG profile fits on half of it.
const WIDEST: f64 = 96.0;

/// Draws racks with their nodes, then pools; gives the height below.
pub(super) fn draw(
    canvas: &mut Canvas,
    scene: &Scene<'_>,
    tenants: &Tenants,
    groups: &[Group<'_>],
    top: f64,
) -> f64 {
    let mut y = top;
    let most = groups.iter().flat_map(|group| &group.nodes);
    let most = most.map(|(id, _)| scene.gpus_of(*id).count()).max();
    let wide = ((RIGHT - INSET - GPUS) / most.unwrap_or(1).max(1) as f64).min(WIDEST);
    for group in groups {
        let boxed = group.name.is_some();
        let head = if boxed { 20.0 } else { 4.0 };
        let below: Vec<Vec<String>> = (group.nodes.iter())
            .map(|(id, _)| slices(scene, &scene.gpus_of(*id).collect::<Vec<_>>(), wide))
            .collect();
        let lines: usize = below.iter().map(Vec::len).sum();
        let height = head + group.nodes.len() as f64 * ROW + lines as f64 * LINE + 2.0;
        if let Some(name) = &group.name {
            frame(canvas, (LEFT, y), (RIGHT - LEFT, height));
            let name = cut(name, RIGHT - LEFT - 2.0 * INSET);
            canvas.text(LEFT + INSET, y + 14.0, Anchor::Start, "m", &name);
        }
        let mut top = y + head;
        for ((id, node), below) in group.nodes.iter().zip(&below) {
            let gpus: Vec<GpuId> = scene.gpus_of(*id).collect();
            let row = Row {
                node,
                gpus,
                top,
                wide,
            };
            row.draw(canvas, scene, tenants);
            top += ROW;
            for line in below {
                let text = cut(line, RIGHT - GPUS - INSET);
                canvas.text(GPUS, top + 8.0, Anchor::Start, "m", &text);
                top += LINE;
            }
        }
        y += height + 8.0;
    }
    for (at, pool) in scene.fleet.pools.iter().enumerate() {
        let attached = &scene.moment().attached;
        let waiting = (0..).map(GpuId).zip(&scene.fleet.gpus);
        let waiting = waiting.filter(|(id, gpu)| {
            matches!(gpu.home, Home::Pool(pool) if pool.index() == at)
                && !attached.iter().any(|(other, _)| other == id)
        });
        let gpus: Vec<GpuId> = waiting.map(|(id, _)| id).collect();
        let node = Node {
            name: format!("pool {}", pool.name),
            ..Node::default()
        };
        let wide = wide.min((RIGHT - INSET - GPUS) / gpus.len().max(1) as f64);
        let row = Row {
            node: &node,
            gpus,
            top: y,
            wide,
        };
        row.draw(canvas, scene, tenants);
        y += ROW;
    }
    y
}

fn frame(canvas: &mut Canvas, (x, y): (f64, f64), (width, height): (f64, f64)) {
    canvas.shapes(
        &format!(
            "M{} {}h{}v{}h-{}Z",
            short(x),
            short(y),
            short(width),
            short(height),
            short(width)
        ),
        "class=\"g\"",
    );
}

struct Row<'a> {
    node: &'a Node,
    gpus: Vec<GpuId>,
    top: f64,
    /// Width of a GPU.
    wide: f64,
}

impl Row<'_> {
    fn x(&self, at: usize) -> f64 {
        GPUS + at as f64 * self.wide
    }

    fn draw(&self, canvas: &mut Canvas, scene: &Scene<'_>, tenants: &Tenants) {
        let room = GPUS - LEFT - INSET - 8.0;
        let name = cut(&self.node.name, room);
        let (first, second) = (self.top + HIGH * 0.4, self.top + HIGH * 0.92);
        canvas.text(LEFT + INSET, first, Anchor::Start, "", &name);
        if self.gpus.is_empty() {
            canvas.text(GPUS, first, Anchor::Start, "m", "no GPU of its own");
            return;
        }
        let kinds = cut(&self.kinds(scene), room);
        canvas.text(LEFT + INSET, second, Anchor::Start, "m", &kinds);
        for (at, gpu) in self.gpus.iter().enumerate() {
            self.gpu(canvas, scene, tenants, at, *gpu);
        }
        self.links(canvas, scene);
        self.jobs(canvas, scene);
    }

    /// Its kinds of GPU, each once.
    fn kinds(&self, scene: &Scene<'_>) -> String {
        let mut names: Vec<&str> = Vec::new();
        for kind in self.gpus.iter().filter_map(|gpu| scene.kind(*gpu)) {
            if !names.contains(&kind.name.as_str()) {
                names.push(&kind.name);
            }
        }
        names.join(", ")
    }

    /// One GPU: what is held of it, and its mark.
    fn gpu(
        &self,
        canvas: &mut Canvas,
        scene: &Scene<'_>,
        tenants: &Tenants,
        at: usize,
        gpu: GpuId,
    ) {
        let (x, wide) = (self.x(at), self.wide - 2.0);
        let board = scene.kind(gpu).and_then(|kind| kind.mig.as_ref());
        let span = |shape: u8, start: u8| {
            let slices = board.map_or(8, |board| board.memory_slices.max(1));
            let size = board
                .and_then(|board| board.shape(shape))
                .map_or(1, |row| row.size);
            let of = |slices_in: u8| f64::from(slices_in) / f64::from(slices) * wide;
            (of(start), of(size))
        };
        let state = scene.use_of(gpu, self.node.health);
        canvas.rectangle(
            (x, self.top),
            (wide, HIGH),
            "class=\"g\" pointer-events=\"all\"",
            &self.hint(scene, gpu, state),
        );
        let mut from = 0.0;
        for holding in scene.holdings(gpu) {
            let (start, width) = match holding.part {
                Part::Whole => (0.0, wide),
                Part::Fraction { milli, .. } => {
                    let width = f64::from(milli) / 1000.0 * wide;
                    from += width;
                    (from - width, width)
                }
                Part::Slice { shape, start } => span(shape, start),
            };
            let fill = format!(
                "fill=\"{}\" stroke=\"var(--gw-ground)\" stroke-width=\"0.8\"",
                tenants.colour(holding)
            );
            let profile = profile(scene, holding).unwrap_or_default();
            canvas.rectangle(
                (x + start, self.top),
                (width, HIGH),
                &fill,
                &words(holding, profile),
            );
            label(canvas, profile, (x + start, self.top), width);
        }
        for (shape, start) in scene.idle(gpu) {
            let (start, width) = span(*shape, *start);
            let name = board.and_then(|board| board.shape(*shape));
            canvas.rectangle(
                (x + start + 0.8, self.top + 3.0),
                (width - 1.6, HIGH - 6.0),
                "class=\"h\" stroke-dasharray=\"2 2\"",
                &format!(
                    "{}, idle",
                    name.map_or("instance", |row| row.profile.as_str())
                ),
            );
            let name = name.map_or("", |row| row.profile.as_str());
            label(canvas, name, (x + start, self.top), width);
        }
        let size = wide.min(HIGH);
        let corner = (x + (wide - size) / 2.0, self.top + (HIGH - size) / 2.0);
        canvas.shapes(&mark(state, corner, size), &paint(state));
    }

    fn hint(&self, scene: &Scene<'_>, gpu: GpuId, state: Use) -> String {
        let kind = scene.kind(gpu).map_or("?", |kind| kind.name.as_str());
        let index = scene.gpu(gpu).map_or(0, |gpu| gpu.index);
        let xid = match scene.gpu(gpu).map(|gpu| gpu.health) {
            Some(Health::Lost { xid }) if xid > 0 => format!(" (XID {xid})"),
            _ => String::new(),
        };
        format!(
            "{} GPU {index}, {kind}: {}{xid}",
            self.node.name,
            state.word()
        )
    }

    /// A line below those that NVLink joins.
    fn links(&self, canvas: &mut Canvas, scene: &Scene<'_>) {
        let island = |at: usize| {
            let gpu = self.gpus.get(at)?;
            scene.gpu(*gpu)?.island
        };
        let mut at = 0;
        while at < self.gpus.len() {
            let own = island(at);
            let mut end = at + 1;
            while end < self.gpus.len() && own.is_some() && island(end) == own {
                end += 1;
            }
            if own.is_some() {
                let y = self.top + HIGH + 2.5;
                canvas.line((self.x(at), y), (self.x(end) - 2.0, y), "h", "");
            }
            at = end;
        }
    }

    /// The name of a job over the neighbours that it holds whole.
    fn jobs(&self, canvas: &mut Canvas, scene: &Scene<'_>) {
        let whole = |at: usize| -> Option<(&Holding, JobId)> {
            let held = scene.holdings(*self.gpus.get(at)?);
            let own = held.iter().find(|one| one.part == Part::Whole)?;
            Some((own, own.job))
        };
        let mut at = 0;
        while at < self.gpus.len() {
            let Some((holding, job)) = whole(at) else {
                at += 1;
                continue;
            };
            let mut end = at + 1;
            while whole(end).is_some_and(|(_, other)| other == job) {
                end += 1;
            }
            let width = (end - at) as f64 * self.wide - 8.0;
            if width >= text_width("mm") {
                let text = cut(&holding.name, width);
                let y = self.top + HIGH * 0.68;
                canvas.text(self.x(at) + 3.0, y, Anchor::Start, "", &text);
            }
            at = end;
        }
    }
}

/// Instances of GPUs that are too narrow for their names, a line for each GPU:
/// `7: 3g.40gb tune, 1g.10gb idle`.
fn slices(scene: &Scene<'_>, gpus: &[GpuId], wide: f64) -> Vec<String> {
    let of = |gpu: &GpuId| {
        let board = scene.kind(*gpu)?.mig.as_ref()?;
        let share = |size: u8| f64::from(size) / f64::from(board.memory_slices.max(1));
        let mut parts: Vec<(u8, u8, &str)> = (scene.holdings(*gpu).iter())
            .filter_map(|holding| match holding.part {
                Part::Slice { shape, start } => Some((start, shape, holding.name.as_str())),
                _ => None,
            })
            .collect();
        let idle = scene.idle(*gpu).iter();
        parts.extend(idle.map(|(shape, start)| (*start, *shape, "idle")));
        parts.sort_unstable();
        let mut narrow = false;
        let named: Vec<String> = parts
            .iter()
            .filter_map(|(_, shape, whose)| {
                let row = board.shape(*shape)?;
                let room = share(row.size) * (wide - 2.0);
                narrow |= !fits(&row.profile, room);
                Some(format!("{} {whose}", row.profile))
            })
            .collect();
        let index = scene.gpu(*gpu)?.index;
        narrow.then(|| format!("{index}: {}", named.join(", ")))
    };
    gpus.iter().filter_map(of).collect()
}

/// Whether the name of a profile fits on its instance.
fn fits(name: &str, width: f64) -> bool {
    width >= text_width(name) * 1.1 + 4.0
}

/// The MIG profile that is held.
fn profile<'a>(scene: &Scene<'a>, holding: &Holding) -> Option<&'a str> {
    let Part::Slice { shape, .. } = holding.part else {
        return None;
    };
    let board = scene.kind(holding.gpu)?.mig.as_ref()?;
    Some(board.shape(shape)?.profile.as_str())
}

/// The name of a profile where its instance is wide enough.
fn label(canvas: &mut Canvas, name: &str, (x, top): (f64, f64), width: f64) {
    if !name.is_empty() && fits(name, width) {
        canvas.text(x + width / 2.0, top + HIGH * 0.68, Anchor::Middle, "", name);
    }
}

/// `train (ann), 25 % by mps`, `train (ann), MIG 3g.20gb at slice 4`.
fn words(holding: &Holding, profile: &str) -> String {
    let whose = if holding.tenant.is_empty() {
        holding.name.clone()
    } else {
        format!("{} ({})", holding.name, holding.tenant)
    };
    match holding.part {
        Part::Whole => whose,
        Part::Fraction {
            milli, isolation, ..
        } => format!(
            "{whose}, {} by {}",
            crate::figures::percent(f64::from(milli) / 1000.0),
            isolation.name()
        ),
        Part::Slice { start, .. } => format!("{whose}, MIG {profile} at slice {start}"),
    }
}
