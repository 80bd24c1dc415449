//! Traffic of clients with rates, burstiness and lengths of their own: ServeGen's tables.

use super::traffic::time;
use crate::{
    error::Problem,
    settings::{ChangeFlags, TrafficFlags},
    workload,
};
use gpuwise_domain::{
    client::Client,
    workload::{Lengths as GivenLengths, Traffic, Workload},
};
use gpuwise_read::traffic::{LengthTable, RateTable, TrafficFile};
use gpuwise_sim::traffic::{Excerpt, Lengths, Source as _, Superposed, Traffic as Source};
use gpuwise_units::{Nanoseconds, PerSecond, significant};
use std::path::Path;

/// How much of two weeks is sent where nobody says it.
const USUAL: Nanoseconds = Nanoseconds(3_600_000_000_000);

/// Clients and the part of what was observed of them that is sent.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    list: Vec<Client>,
    excerpt: Excerpt,
    /// For those whose lengths are not known.
    otherwise: Option<Lengths>,
}

impl Clients {
    /// The requests under a seed, at `load` times the rate.
    pub(super) fn source(&self, seed: u64, load: f64) -> anyhow::Result<Source> {
        let excerpt = Excerpt {
            scale: self.excerpt.scale * load,
            ..self.excerpt
        };
        let made = Superposed::new(&self.list, excerpt, self.otherwise.as_ref(), seed);
        Ok(made
            .map_err(|error| Problem::new("the traffic cannot be made").because(error))?
            .boxed())
    }
}

/// The clients that flags ask for, with the workload in its means and the words for it.
pub(super) fn read(
    path: &Path,
    table: &RateTable,
    flags: &TrafficFlags,
    changes: &ChangeFlags,
    mut workload: Workload,
) -> anyhow::Result<(Clients, Workload, String)> {
    let lengths = changes.lengths.as_deref().map(lengths).transpose()?;
    let model = model(path, &table.models, changes.clients_of.as_deref())?;
    let clients = table.clients(model, lengths.as_ref());
    let start = changes
        .start
        .as_deref()
        .map_or(Ok(Nanoseconds(0)), |text| time("--start", text))?;
    let duration = changes
        .duration
        .as_deref()
        .map_or(Ok(USUAL), |text| time("--duration", text))?;
    let own = mean_rate(&clients, start, duration);
    if own <= 0.0 {
        return Err(Problem::new(format!(
            "{}: no client of {} sends anything from {start} on for {duration}",
            path.display(),
            table.models[model]
        ))
        .hint("say another --start or a longer --duration")
        .into());
    }
    let asked = match (&flags.rate, workload.traffic) {
        (Some(_), Traffic::Open { rate, .. }) => Some(rate.get()),
        _ => None,
    };
    let scale = asked.map_or(1.0, |rate| rate / own);
    let stated = flags.isl.is_some() && flags.osl.is_some();
    let otherwise = stated
        .then(|| Lengths::of(&workload.lengths))
        .transpose()
        .map_err(|error| Problem::new("the lengths cannot be").because(error))?;
    if lengths.is_none() && !stated {
        return Err(Problem::new(format!(
            "{} says when requests come, and not how long they are",
            path.display()
        ))
        .hint("add --lengths FILE (ServeGen's table of tokens), or --isl and --osl")
        .into());
    }
    workload.traffic = Traffic::Open {
        rate: PerSecond::new(own * scale),
        burstiness: 1.0,
    };
    if let Some(means) = means(&clients) {
        workload.lengths = means;
    }
    let words = format!(
        "{} clients of {}, from {start} on for {duration}, {} requests/s",
        clients.len(),
        table.models[model],
        significant(own * scale, 3)
    );
    let made = Clients {
        list: clients,
        excerpt: Excerpt {
            start,
            duration,
            scale,
        },
        otherwise,
    };
    Ok((made, workload, words))
}

fn lengths(path: &Path) -> anyhow::Result<LengthTable> {
    match workload::traffic_file(path)? {
        TrafficFile::Lengths(table) => Ok(table),
        _ => Err(Problem::new(format!(
            "--lengths: {} is no table of lengths by client",
            path.display()
        ))
        .hint("it has the columns category, model, client, t_s, field, mean, p50, p95, max")
        .into()),
    }
}

fn model(path: &Path, models: &[String], wanted: Option<&str>) -> anyhow::Result<usize> {
    let shown = path.display();
    let listed = || models.join(", ");
    match wanted {
        Some(wanted) => models
            .iter()
            .position(|name| name == wanted)
            .ok_or_else(|| {
                Problem::new(format!("--clients-of {wanted}: {shown} has no such model"))
                    .hint(format!("it has {}", listed()))
                    .into()
            }),
        None if models.len() == 1 => Ok(0),
        None => Err(
            Problem::new(format!("{shown} holds the clients of several models"))
                .hint(format!("pick one with --clients-of: {}", listed()))
                .into(),
        ),
    }
}

/// Requests a second of all clients, over an excerpt.
fn mean_rate(clients: &[Client], start: Nanoseconds, duration: Nanoseconds) -> f64 {
    let end = start + duration;
    let requests: f64 = clients
        .iter()
        .flat_map(|client| &client.windows)
        .map(|window| {
            let from = window.start.max(start);
            let to = (window.start + window.duration).min(end);
            window.rate.get() * to.0.saturating_sub(from.0) as f64 / 1e9
        })
        .sum();
    requests / duration.seconds().get().max(1e-9)
}

/// Mean lengths over clients, each counted alike.
fn means(clients: &[Client]) -> Option<GivenLengths> {
    let known: Vec<_> = clients.iter().flat_map(|client| &client.lengths).collect();
    if known.is_empty() {
        return None;
    }
    let law = |of: fn(&gpuwise_domain::client::ClientLengths) -> (f64, f64)| {
        let mean = known.iter().map(|lengths| of(lengths).0).sum::<f64>() / known.len() as f64;
        let longest = known
            .iter()
            .map(|lengths| of(lengths).1)
            .fold(0.0, f64::max);
        gpuwise_domain::workload::LengthDistribution {
            mean,
            variation: 1.0,
            longest: gpuwise_units::Tokens(longest as u64),
        }
    };
    Some(GivenLengths {
        input: law(|lengths| (lengths.input.mean, lengths.input.max)),
        output: law(|lengths| (lengths.output.mean, lengths.output.max)),
    })
}
