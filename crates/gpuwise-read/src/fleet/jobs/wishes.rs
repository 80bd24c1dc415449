//! How many workers, how near, how long, at what price stopped.

use super::{
    Field,
    tables::{Duration, JobTable, Preemptible, Within, Workers},
};
use crate::fleet::text::{duration as time_of, level};
use gpuwise_domain::placement::{DurationEstimate, Gang, Level, Preemption, Spread, TopologyWish};
use gpuwise_units::Nanoseconds;

/// Workers of a job at most.
const MOST_WORKERS: u32 = 1_000_000;

pub(super) fn time(field: &'static str, text: Option<&str>) -> Field<Option<Nanoseconds>> {
    text.map(|text| time_of(field, text))
        .transpose()
        .map_err(|problem| (field, problem))
}

pub(super) fn gang(table: &JobTable) -> Field<Gang> {
    let gang = match &table.workers {
        None => Gang::exactly(1),
        Some(Workers::Exactly(count)) => Gang::exactly(*count),
        Some(Workers::Range(range)) => {
            let preferred = range.preferred.or(range.max).unwrap_or(range.min);
            Gang {
                least: range.min,
                preferred,
                most: range.max.unwrap_or(preferred),
            }
        }
    };
    let ordered = gang.least <= gang.preferred && gang.preferred <= gang.most;
    if gang.least == 0 || !ordered || gang.most > MOST_WORKERS {
        let what = format!(
            "workers are at least {}, preferably {}, at most {}; expected 1 to {MOST_WORKERS}, in this order",
            gang.least, gang.preferred, gang.most
        );
        return Err(("workers", what));
    }
    Ok(gang)
}

pub(super) fn topology(table: &JobTable) -> Field<Option<TopologyWish>> {
    let wrong = |problem| ("within", problem);
    match &table.within {
        None => Ok(None),
        Some(Within::Required(word)) => Ok(Some(TopologyWish {
            within: level("within", word).map_err(wrong)?,
            required: true,
            penalty_milli: 0,
        })),
        Some(Within::Wished(wish)) => {
            if !(wish.slower > 0.0 && wish.slower <= 1.0) {
                return Err(wrong(format!(
                    "slower is {}; expected by which share it is slower outside, such as 0.2",
                    wish.slower
                )));
            }
            Ok(Some(TopologyWish {
                within: level("within", &wish.level).map_err(wrong)?,
                required: false,
                penalty_milli: (wish.slower * 1000.0 + 0.5) as u32,
            }))
        }
    }
}

pub(super) fn spread(table: &JobTable) -> Field<Option<Spread>> {
    let Some(spread) = &table.spread else {
        return Ok(None);
    };
    let over = level("spread", &spread.over).map_err(|problem| ("spread", problem))?;
    if over < Level::Node {
        let what = "workers are spread over nodes, racks, blocks or zones";
        return Err(("spread", what.into()));
    }
    let most = spread.most.unwrap_or(1);
    if most == 0 {
        let what = "spread: most is 0; each place has room for one worker at least";
        return Err(("spread", what.into()));
    }
    Ok(Some(Spread { over, most }))
}

pub(super) fn duration(table: &JobTable) -> Field<Option<DurationEstimate>> {
    let (text, spread) = match &table.duration {
        None => return Ok(None),
        Some(Duration::Known(text)) => (text, 0.0),
        Some(Duration::Believed(believed)) => (&believed.expected, believed.spread.unwrap_or(0.0)),
    };
    let wrong = |problem| ("duration", problem);
    let expected = time_of("duration", text).map_err(wrong)?;
    if expected.0 == 0 || !(0.0..=10.0).contains(&spread) {
        return Err(wrong(format!(
            "duration is {text:?} with a spread of {spread}; expected a time above 0, and a spread from 0 (known) to 10"
        )));
    }
    Ok(Some(DurationEstimate { expected, spread }))
}

pub(super) fn preemption(
    table: &JobTable,
    duration: Option<DurationEstimate>,
) -> Field<Preemption> {
    let field = "preemptible";
    let (checkpoint, restart) = match &table.preemptible {
        None | Some(Preemptible::Flag(false)) => return Ok(Preemption::Never),
        Some(Preemptible::Flag(true)) => (None, Nanoseconds(0)),
        Some(Preemptible::Table(table)) => (
            table.checkpoint.as_deref(),
            time_of("restart", &table.restart).map_err(|problem| (field, problem))?,
        ),
    };
    // Without checkpoints all of it is lost: on average half of its duration.
    let every = match (time("preemptible", checkpoint)?, duration) {
        (Some(Nanoseconds(0)), _) => {
            let what = "preemptible: checkpoint is a time of 0; say how long a checkpoint is after the one before, such as \"30min\"";
            return Err((field, what.into()));
        }
        (Some(every), _) => every,
        (None, Some(duration)) => duration.expected,
        (None, None) => {
            let what = "preemptible: what is lost cannot be told; say checkpoint = \"30min\", or the job's duration";
            return Err((field, what.into()));
        }
    };
    Ok(Preemption::Allowed {
        checkpoint_every: every,
        restart,
    })
}

/// How long a job may take to leave when it is told to; 0 where nothing is said.
pub(super) fn grace(table: &JobTable) -> Field<Nanoseconds> {
    let said = match &table.preemptible {
        Some(Preemptible::Table(table)) => table.grace.as_deref(),
        _ => None,
    };
    Ok(time("preemptible", said)?.unwrap_or_default())
}
