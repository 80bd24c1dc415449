//! Entries, held to be unambiguous.

use super::{LENT_WHOLE, Metered, PriceEntry, Window};
use crate::{
    period::{DAY, Interval},
    usage::Grid,
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeSet;

/// Price entries of which at most one applies to anything at any moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct PriceBook {
    entries: Vec<PriceEntry>,
}

/// Why entries make no price book.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    #[error("price `{0}` stands twice in the book: give each entry an id of its own")]
    Twice(String),
    #[error(
        "price `{0}` is for a quantity of 0: say how many nanoseconds, tokens or millijoules it is for"
    )]
    PerNothing(String),
    #[error("price `{0}` is negative: what is given back is a correction, not a price")]
    Negative(String),
    #[error("price `{0}` is valid for no time: its end must be after its start")]
    NeverValid(String),
    #[error(
        "price `{0}` has a window that is no time of the week: days are 1 to 127, minutes 0 to 1440"
    )]
    Window(String),
    #[error("price `{0}` has a minimum or steps, which gpu-time alone can have: leave them 0")]
    Steps(String),
    #[error("price `{0}` gives a lender more than is paid: the share is 0 to 1000 thousandths")]
    Lent(String),
    #[error(
        "prices `{0}` and `{1}` apply to the same and are valid at the same time: end one where the other begins, or say more closely what one of them is for"
    )]
    Ambiguous(String, String),
}

impl PriceBook {
    /// # Errors
    /// When an entry is no price, or two could apply to the same with equal closeness.
    pub fn new(mut entries: Vec<PriceEntry>) -> Result<Self, BookError> {
        let mut ids = BTreeSet::new();
        for entry in &entries {
            fault(entry)?;
            if !ids.insert(entry.id.as_str()) {
                return Err(BookError::Twice(entry.id.clone()));
            }
        }
        // The closest first; of one closeness, those of some hours before those of all.
        entries.sort_by(|a, b| {
            let key = |entry: &PriceEntry| (entry.applies.closeness(), entry.window.is_some());
            key(b).cmp(&key(a)).then_with(|| a.id.cmp(&b.id))
        });
        for (place, entry) in entries.iter().enumerate() {
            for other in &entries[place + 1..] {
                if entry.applies.closeness() != other.applies.closeness() {
                    break;
                }
                if clash(entry, other) {
                    return Err(BookError::Ambiguous(entry.id.clone(), other.id.clone()));
                }
            }
        }
        Ok(Self { entries })
    }

    /// The closest first.
    pub fn entries(&self) -> &[PriceEntry] {
        &self.entries
    }

    /// Whether any entry is for this.
    pub fn has(&self, metered: Metered) -> bool {
        self.entries.iter().any(|entry| entry.metered == metered)
    }

    /// By its name.
    pub fn entry(&self, id: &str) -> Option<&PriceEntry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The moments at which a price begins or ends, for the meter to keep amounts apart.
    pub fn grid(&self) -> Grid {
        let mut grid = Grid::default();
        for entry in &self.entries {
            grid.cut(entry.valid.start);
            if entry.valid.end.0 != u64::MAX {
                grid.cut(entry.valid.end);
            }
            for after_midnight in entry.window.into_iter().flat_map(Window::daily) {
                grid.cut_daily(after_midnight);
            }
        }
        grid
    }

    /// The moments within an interval at which one of these entries begins or ends, and its own two.
    pub(super) fn moments(entries: &[&PriceEntry], within: Interval) -> Vec<Nanoseconds> {
        let mut moments = BTreeSet::from([within.start, within.end]);
        let mut add = |at: u64| {
            if within.contains(Nanoseconds(at)) {
                moments.insert(Nanoseconds(at));
            }
        };
        for entry in entries {
            add(entry.valid.start.0);
            add(entry.valid.end.0);
            for after_midnight in entry.window.into_iter().flat_map(Window::daily) {
                let mut at = (within.start.0 / DAY * DAY).saturating_add(after_midnight);
                while at < within.end.0 {
                    add(at);
                    at = at.saturating_add(DAY);
                }
            }
        }
        moments.into_iter().collect()
    }
}

fn fault(entry: &PriceEntry) -> Result<(), BookError> {
    let steps = entry.minimum_ns != 0 || entry.granularity_ns > 1;
    let error = if entry.per == 0 {
        BookError::PerNothing
    } else if entry.amount.micros < 0 {
        BookError::Negative
    } else if entry.valid.is_empty() {
        BookError::NeverValid
    } else if entry.window.is_some_and(|window| !window.is_possible()) {
        BookError::Window
    } else if steps && entry.metered != Metered::GpuTime {
        BookError::Steps
    } else if entry.lent_milli > LENT_WHOLE {
        BookError::Lent
    } else {
        return Ok(());
    };
    Err(error(entry.id.clone()))
}

fn clash(one: &PriceEntry, other: &PriceEntry) -> bool {
    one.metered == other.metered
        && one.applies.meets(&other.applies)
        && one.valid.overlaps(other.valid)
        && match (one.window, other.window) {
            (None, None) => true,
            // Within the windows the one that has them goes first.
            (None, Some(_)) | (Some(_), None) => false,
            (Some(one), Some(other)) => windows_meet(one, other),
        }
}

/// Whether some minute of a week is in both.
fn windows_meet(one: Window, other: Window) -> bool {
    let week = [one, other];
    let moments = week.iter().flat_map(|window| window.daily());
    moments
        .flat_map(|at| (0..7).map(move |day| Nanoseconds(7 * DAY + day * DAY + at)))
        .any(|at| one.contains(at) && other.contains(at))
}
