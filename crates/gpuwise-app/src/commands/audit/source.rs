//! Where usage comes from: a Prometheus server, or tables.

use super::Flags;
use crate::{App, error::Problem, progress, prometheus::problem};
use gpuwise_domain::usage::{Declared, Fleet, Scope, Window, rules::Rules, vocabulary::Vocabulary};
use gpuwise_probe::usage::{Depends, Settings, collect};
use gpuwise_read::usage::read_usage;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use std::{
    collections::BTreeSet,
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The fleet, with what is declared in these namespaces also where nothing there holds a GPU; exact
/// percentiles of those workloads alone of which something depends on them.
pub(super) fn fleet(
    app: &App,
    flags: &Flags,
    (names, rules): (&Vocabulary, &Rules),
    namespaces: BTreeSet<String>,
    depends: Depends<'_>,
) -> anyhow::Result<Fleet> {
    let window = window(flags)?;
    if !flags.files.is_empty() {
        return tables(flags, window);
    }
    let Some(address) = &flags.server.prometheus else {
        return Err(Problem::new("nothing says where usage comes from")
            .hint("gpuwise audit --prometheus http://prometheus:9090")
            .hint("gpuwise audit usage.csv; `gpuwise example usage.csv` prints such a table")
            .into());
    };
    let client = flags.server.client(address, app.offline)?;
    let settings = Settings {
        window,
        matchers: flags.only.clone(),
        tenant_label: flags.tenant_label.clone(),
        at_once: usize::from(flags.at_once),
        namespaces,
        idle_below: rules.idle_below,
    };
    let asked = AtomicUsize::new(0);
    let fleet = collect(&client, names, &settings, depends, &|what| {
        let number = asked.fetch_add(1, Ordering::Relaxed) + 1;
        progress::doing(&format!("query {number}: {what}"));
    });
    progress::doing("");
    fleet.map_err(|error| problem(&error).into())
}

fn tables(flags: &Flags, window: Window) -> anyhow::Result<Fleet> {
    let of_servers = [
        ("--prometheus", flags.server.prometheus.is_some()),
        ("--only", flags.only.is_some()),
        ("--tenant-label", flags.tenant_label.is_some()),
    ];
    if let Some((flag, _)) = of_servers.iter().find(|(_, given)| *given) {
        return Err(Problem::new(format!("{flag} asks a server, and usage comes from tables"))
            .hint("give either tables or --prometheus; a table has the columns `tenant` and `namespace`")
            .into());
    }
    let mut fleet = Fleet {
        scope: Scope {
            source: "tables".into(),
            matchers: None,
        },
        // A row may have been left out: what is not in a table may still be there.
        declared: Declared::default(),
        window,
        workloads: Vec::new(),
        unheld_devices: 0,
        notes: Vec::new(),
    };
    for path in &flags.files {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| Problem::new(format!("cannot read {shown}")).because(error))?;
        let (mut workloads, unread) = read_usage(&shown, &text)?;
        if !unread.is_empty() {
            fleet.notes.push(format!(
                "{shown}: columns that are not read: {}",
                unread.join(", ")
            ));
        }
        for usage in &mut workloads {
            if usage.hours == 0.0 {
                // A table without hours is one of the whole window.
                usage.hours = window.hours() as f64;
            }
        }
        let declared = workloads
            .iter()
            .map(|usage| (usage.holder.clone(), usage.asked.replicas));
        fleet.declared.replicas.extend(declared);
        fleet.workloads.append(&mut workloads);
    }
    fleet.workloads.sort_by(|a, b| a.holder.cmp(&b.holder));
    Ok(fleet)
}

/// The days that are looked at, to the last whole hour.
fn window(flags: &Flags) -> anyhow::Result<Window> {
    let end = match &flags.end {
        Some(text) => time(text).ok_or_else(|| {
            Problem::new(format!("--end {text:?} is no time"))
                .hint("2026-11-21, 2026-11-21T12:00Z or seconds since 1970")
        })?,
        None => Timestamp::now().as_second(),
    };
    let end = end - end.rem_euclid(3600);
    Ok(Window {
        start: end - i64::from(flags.days) * 86_400,
        end,
    })
}

/// Seconds since 1970 of a time in UTC.
fn time(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<i64>() {
        return (0..=253_402_300_799).contains(&seconds).then_some(seconds);
    }
    // A civil time with the name of a zone would be read without it.
    let utc = || {
        let civil = text.trim_end_matches('Z');
        let civil: DateTime = (!text.contains('[')).then(|| civil.parse().ok())??;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let at = text.parse().ok().or_else(utc).map(Timestamp::as_second)?;
    (at >= 0).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_in_several_spellings() {
        for (text, at) in [
            ("1763726400", Some(1_763_726_400)),
            ("2025-11-21T12:00Z", Some(1_763_726_400)),
            ("2025-11-21 12:00:30", Some(1_763_726_430)),
            ("2025-11-21T14:00+02:00", Some(1_763_726_400)),
            ("2025-11-21T12:00[Europe/Paris]", None),
            ("2000-02-29", Some(951_782_400)),
            ("2025-02-29", None),
            ("2025-11-31", None),
            ("yesterday", None),
            ("-5", None),
        ] {
            assert_eq!(time(text), at, "{text}");
        }
    }
}
