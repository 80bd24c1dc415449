//! What starting a replica of a saved deployment takes, where nobody stated it: from bytes and published stages, and
//! from starts of the model on its class of nodes that were seen.

use crate::{error::Problem, questions::read_text};
use gpuwise_domain::{deployment::Deployment, scale::ColdState};
use gpuwise_read::traffic::{SeenStart, read_starts};
use gpuwise_scale::cold::{ColdStart, Level, Machine, STATES, State};
use gpuwise_units::{Bytes, HourlyPrice, Nanoseconds};
use std::{collections::BTreeSet, path::Path};

/// Starts that were seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    rows: Vec<(SeenStart, State)>,
    node: Node,
}

/// The class of nodes that is asked about.
#[derive(Debug, Clone, Default)]
enum Node {
    /// That of the deployment's GPU, or the only one there is.
    #[default]
    Usual,
    Named(String),
    /// That of its GPU alone.
    Gpu,
}

impl Seen {
    /// # Errors
    /// When the file cannot be read, or a state is none.
    pub(super) fn read(file: &Path, node: Option<&str>) -> anyhow::Result<Self> {
        let wrong = |why: String| Problem::new(format!("--starts {}: {why}", file.display()));
        let rows = read_starts(&read_text(file)?).map_err(|error| wrong(error.to_string()))?;
        let mut known = Vec::new();
        for row in rows {
            let state = if row.state.is_empty() {
                Some(State::Nothing)
            } else {
                State::named(&row.state)
            };
            let state = state.ok_or_else(|| {
                let names = STATES.map(State::name).join(", ");
                wrong(format!(
                    "line {}: state {:?}; expected one of {names}",
                    row.line, row.state
                ))
            })?;
            known.push((row, state));
        }
        Ok(Self {
            rows: known,
            node: node.map_or(Node::Usual, |node| Node::Named(node.to_owned())),
        })
    }

    /// The same for deployments on other GPUs: only starts on theirs count.
    pub(super) fn beside(&self) -> Self {
        Self {
            node: Node::Gpu,
            ..self.clone()
        }
    }

    /// The class of nodes of a deployment: what was asked about, its GPU, or the only one there is.
    fn node(&self, of: &Deployment) -> anyhow::Result<Option<&str>> {
        let ours = self.rows.iter().filter(|(row, _)| row.model == of.model);
        let classes: BTreeSet<&str> = ours.map(|(row, _)| row.node.as_str()).collect();
        if let Node::Named(node) = &self.node {
            if classes.contains(node.as_str()) || classes.is_empty() {
                return Ok(Some(node));
            }
            let list: Vec<&str> = classes.into_iter().collect();
            return Err(Problem::new(format!(
                "--node {node}: no start of {} was seen on it",
                of.model
            ))
            .hint(format!("there are {}", list.join(", ")))
            .into());
        }
        if let Some(gpu) = classes.get(of.gpu.as_str()) {
            return Ok(Some(gpu));
        }
        if matches!(self.node, Node::Gpu) {
            return Ok(None);
        }
        let mut all = classes.iter();
        match (all.next(), all.next()) {
            (None, _) => Ok(None),
            (Some(only), None) => Ok(Some(only)),
            (Some(_), Some(_)) => {
                let list: Vec<&str> = classes.into_iter().collect();
                Err(Problem::new(format!(
                    "--starts: {} was seen on several classes of nodes",
                    of.model
                ))
                .hint(format!("choose one by --node: {}", list.join(", ")))
                .into())
            }
        }
    }

    /// A start from a state: what is known beforehand, moved by what was seen.
    fn of(&self, of: &Deployment, state: State) -> anyhow::Result<ColdStart> {
        let node = self.node(of)?;
        let mut cold = ColdStart::prior(weights(of), state, &Machine::default());
        let theirs = self.rows.iter().filter(|(row, from)| {
            *from == state && row.model == of.model && Some(row.node.as_str()) == node
        });
        for (row, _) in theirs {
            cold.learn(Nanoseconds((row.seconds * 1e9) as u64));
        }
        Ok(cold)
    }

    /// Nine of ten starts take no longer: from nothing, and from asleep.
    pub(super) fn usual(&self, of: &Deployment) -> anyhow::Result<(Nanoseconds, Nanoseconds)> {
        let p90 = |state| anyhow::Ok(self.of(of, state)?.at(Level::P90));
        Ok((p90(State::Nothing)?, p90(State::Asleep)?))
    }

    /// What a start takes from each state, and what it costs to be in it: a node that is held is paid for, and what
    /// does not serve is lent for all but `warm_cost` of that, where it can be.
    pub(super) fn states(
        &self,
        of: &Deployment,
        price: Option<HourlyPrice>,
        warm_cost: Option<f64>,
    ) -> anyhow::Result<Vec<ColdState>> {
        let held = |state| {
            let share = match state {
                State::Nothing => 0.0,
                State::Hot => 1.0,
                _ => warm_cost.unwrap_or(1.0),
            };
            price.map(|price| HourlyPrice(price.0.times((share * 1000.0).round() as i64, 1000)))
        };
        let each = STATES.into_iter().map(|state| {
            let cold = self.of(of, state)?;
            Ok(ColdState {
                state: state.name(),
                seen: cold.observed(),
                median: cold.at(Level::Median),
                p90: cold.at(Level::P90),
                p99: cold.at(Level::P99),
                held_per_hour: held(state),
            })
        });
        each.collect()
    }
}

/// Bytes of the weights of a replica.
fn weights(deployment: &Deployment) -> Bytes {
    let parts = deployment.memory.weights.iter();
    let device: u64 = parts.map(|part| part.bytes.count()).sum();
    Bytes::new(device * u64::from(deployment.layout.replica_gpus()))
}
