//! What two runs spend on each operator or kernel.

use crate::{
    figures::percent,
    profile::{duration, kernel_name},
    record::{Fields, Record, Shown},
    table::Column,
};
use gpuwise_domain::profile::figures::TimedBy;

/// Characters of a name for people.
const NAME_WIDTH: usize = 34;

/// A name in both runs; times are of one step, or of the whole profile.
#[derive(Debug, Clone, PartialEq)]
pub struct DifferenceRow {
    pub by: TimedBy,
    /// None: all names that were not kept by themselves.
    pub name: Option<String>,
    /// `step`, `repeat` (of the kernels' sequence) or `profile` (all of it).
    pub basis: &'static str,
    pub before_ns: Option<f64>,
    pub after_ns: Option<f64>,
    pub calls_before: Option<u64>,
    pub calls_after: Option<u64>,
    pub change_ns: f64,
    /// Between which the change lies, at 95 % confidence.
    pub interval_ns: Option<(f64, f64)>,
    pub change_share: Option<f64>,
    /// Whether the interval leaves out no change at all.
    pub sure: bool,
}

impl DifferenceRow {
    fn line(&self) -> String {
        let Some(name) = &self.name else {
            return "(all other names)".into();
        };
        let name = match self.by {
            TimedBy::Kernel => kernel_name(name),
            TimedBy::Operator => name.clone(),
        };
        shortened(&name)
    }

    /// `+1.2 ms … +1.9 ms`.
    fn interval(&self) -> Shown {
        let shown = self.interval_ns;
        Shown::maybe(shown.map(|(low, high)| format!("{} … {}", signed(low), signed(high))))
    }
}

/// A name without its middle: what tells long names apart is often at their end.
fn shortened(name: &str) -> String {
    let count = name.chars().count();
    if count <= NAME_WIDTH {
        return name.into();
    }
    let head = NAME_WIDTH / 2;
    let tail = NAME_WIDTH - head - 1;
    let (start, end) = (name.chars().take(head), name.chars().skip(count - tail));
    start.chain(['…']).chain(end).collect()
}

/// A difference of times with its sign.
fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "" } else { "+" };
    format!("{sign}{}", duration(ns.round() as i64))
}

impl Record for DifferenceRow {
    const NAME: &'static str = "TimeDifference";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("by", |r| r.by.name().to_owned());
        let line = of.noun().map(DifferenceRow::line);
        of.column("name", "name", |r| r.name.clone())
            .seen(line.map(Shown::from));
        of.field("basis", |r| r.basis.to_owned());
        of.field("calls_before", |r| r.calls_before);
        of.field("calls_after", |r| r.calls_after);
        let time = |ns: f64| duration(ns.round() as i64);
        of.column("before_ns", "before", |r| r.before_ns)
            .said_of(time);
        of.column("after_ns", "after", |r| r.after_ns).said_of(time);
        of.column("change_ns", "change", |r| r.change_ns)
            .said_of(signed);
        of.field("change_low_ns", |r| r.interval_ns.map(|(low, _)| low));
        of.field("change_high_ns", |r| r.interval_ns.map(|(_, high)| high));
        of.shown(Column::right("", "95 % interval"), DifferenceRow::interval);
        of.column("change_share", "share", |r| r.change_share)
            .said_of(|share| {
                let sign = if share < 0.0 { "−" } else { "+" };
                format!("{sign}{}", percent(share.abs()))
            });
        of.column("sure", "sure", |r| r.sure).priority(1);
    }
}
