//! Who has which colour, and what marks mean.

use super::{LEFT, LINE, RIGHT, mark, paint};
use crate::{
    figures,
    fleet::{Scene, Use},
    svg::canvas::{Anchor, Canvas, colour, cut, short, text_width},
};
use gpuwise_domain::placement::{Holding, Part};
use std::collections::{BTreeMap, BTreeSet};

/// Colours of tenants; orange and vermilion are those of states.
const COLOURS: [&str; 5] = [
    colour::BLUE,
    colour::GREEN,
    colour::PINK,
    colour::SKY,
    "#F0E442",
];
/// Of all who have no colour of their own.
const OTHERS: &str = "#8a929b";

/// Tenants by what they hold, the largest first.
pub(super) struct Tenants {
    held: Vec<(String, u64)>,
}

impl Tenants {
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let mut held: BTreeMap<&str, u64> = BTreeMap::new();
        for holding in &scene.moment().holdings {
            let milli = match holding.part {
                Part::Whole => 1000,
                Part::Fraction { milli, .. } => u64::from(milli),
                Part::Slice { shape, .. } => {
                    let board = scene.kind(holding.gpu).and_then(|kind| kind.mig.as_ref());
                    board.map_or(0, |board| {
                        let compute = board.shape(shape).map_or(0, |row| u64::from(row.compute));
                        compute * 1000 / u64::from(board.compute_slices.max(1))
                    })
                }
            };
            *held.entry(name(holding)).or_default() += milli;
        }
        let mut held: Vec<(String, u64)> = held
            .into_iter()
            .map(|(name, milli)| (name.to_owned(), milli))
            .collect();
        held.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Self { held }
    }

    /// The colour of who holds this.
    pub(super) fn colour(&self, holding: &Holding) -> &'static str {
        let own = name(holding);
        let at = self
            .held
            .iter()
            .take(COLOURS.len())
            .position(|(name, _)| name == own);
        at.and_then(|at| COLOURS.get(at)).copied().unwrap_or(OTHERS)
    }

    /// Who holds most.
    pub(super) fn sentence(&self) -> String {
        let most: Vec<String> = self
            .held
            .iter()
            .take(COLOURS.len())
            .map(|(name, milli)| format!("{name} {}", gpus(*milli)))
            .collect();
        match most.as_slice() {
            [] => "Nothing is held.".into(),
            most => format!("GPUs held, most first: {}.", most.join(", ")),
        }
    }
}

/// Who is named for a holding: the tenant, or the job where there is none.
fn name(holding: &Holding) -> &str {
    if holding.tenant.is_empty() {
        &holding.name
    } else {
        &holding.tenant
    }
}

fn gpus(milli: u64) -> String {
    figures::number(milli as f64 / 1000.0)
}

/// Draws the key below a height; gives the height below it.
pub(super) fn draw(canvas: &mut Canvas, scene: &Scene<'_>, tenants: &Tenants, top: f64) -> f64 {
    let mut entries: Vec<(Swatch, String)> = tenants
        .held
        .iter()
        .zip(COLOURS)
        .map(|((name, milli), colour)| (Swatch::Held(colour), format!("{name}, {}", gpus(*milli))))
        .collect();
    let more = tenants.held.iter().skip(COLOURS.len());
    let (others, rest) = more.fold((0_u64, 0_u64), |(count, sum), (_, milli)| {
        (count + 1, sum + milli)
    });
    if others > 0 {
        entries.push((
            Swatch::Held(OTHERS),
            format!("{} others, {}", figures::count(others), gpus(rest)),
        ));
    }
    let used: BTreeSet<Use> = scene
        .placed()
        .map(|(_, node, gpu)| scene.use_of(gpu, node.health))
        .collect();
    for state in used {
        if matches!(
            state,
            Use::Free | Use::Draining | Use::Maintenance | Use::Lost
        ) {
            entries.push((Swatch::State(state), state.word().to_owned()));
        }
    }
    let (mut x, mut y) = (LEFT, top + LINE);
    for (swatch, text) in &entries {
        let text = cut(text, RIGHT - LEFT - 18.0);
        let wide = 18.0 + text_width(&text) + 14.0;
        if x > LEFT && x + wide > RIGHT {
            x = LEFT;
            y += LINE;
        }
        swatch.draw(canvas, (x, y - 10.0));
        canvas.text(x + 16.0, y, Anchor::Start, "", &text);
        x += wide;
    }
    y + 10.0
}

enum Swatch {
    Held(&'static str),
    State(Use),
}

impl Swatch {
    fn draw(&self, canvas: &mut Canvas, at: (f64, f64)) {
        let square = format!("M{} {}h11v11h-11Z", short(at.0), short(at.1));
        match self {
            Self::Held(colour) => canvas.shapes(&square, &format!("fill=\"{colour}\"")),
            Self::State(state) => {
                canvas.shapes(&square, "class=\"g\"");
                canvas.shapes(&mark(*state, at, 11.0), &paint(*state));
            }
        }
    }
}
