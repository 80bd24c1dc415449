//! Proposals are remembered, and a later look says what became of them.

use super::{Context, Exit, Flags};
use crate::schemas::AnswerName;
use crate::{commands::runs::store::now_ns, error::Problem};
use anyhow::Context as _;
use gpuwise_domain::usage::{
    Fleet,
    proposal::Judgement,
    remembered::{Outcome, Remembered, State},
};
use gpuwise_measure::{
    audit::Market,
    proof::{outcome, remember},
};
use gpuwise_store::{RunId, Store, StoredProposal};
use gpuwise_view::audit::{ProofRow, proof_table};
use gpuwise_wire::proposal::{proposal_document, read_proposal};
use std::collections::{BTreeMap, BTreeSet};

/// With `--proof`, says what became of what was proposed before; without, remembers what is proposed.
pub(super) fn follow(
    context: &Context,
    flags: &Flags,
    fleet: &Fleet,
    said: &[Judgement],
    market: &Market<'_>,
) -> anyhow::Result<Option<Exit>> {
    let store = flags.database.open()?;
    let known = known(&store)?;
    if flags.proof {
        let mut rows = Vec::new();
        let mut settled = Vec::new();
        for (stored, of) in known {
            let outcome = outcome(&of, fleet, market);
            let state = outcome.state;
            rows.push(row(&of, state, Some(outcome)));
            // A look elsewhere does not change what is known of it.
            if state != State::Elsewhere && stored.state != state.name() {
                let at = (state != State::Open).then(now_ns);
                settled.push(StoredProposal {
                    state: state.name().into(),
                    settled_at_ns: at,
                    ..stored
                });
            }
        }
        store.remember(&settled)?;
        show(context, rows)?;
        return Ok(Some(Exit::Yes));
    }
    let open: BTreeMap<String, State> = known
        .iter()
        .filter_map(|(stored, _)| Some((stored.id.clone(), State::named(&stored.state)?)))
        .collect();
    let mut new = Vec::new();
    for (usage, said) in fleet.workloads.iter().zip(said) {
        let Some(of) = remember(usage, said, fleet, market) else {
            continue;
        };
        let stored = stored(&of)?;
        // What was proposed before and is still open keeps its first day.
        if open.get(&stored.id) != Some(&State::Open) {
            new.push(stored);
        }
    }
    store.remember(&new)?;
    Ok(None)
}

/// What was remembered, without another look at the fleet.
pub(super) fn list(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let store = flags.database.open()?;
    let rows = known(&store)?
        .into_iter()
        .map(|(stored, of)| {
            row(
                &of,
                State::named(&stored.state).unwrap_or(State::Untold),
                None,
            )
        })
        .collect();
    show(context, rows)?;
    Ok(Exit::Yes)
}

/// Namespaces of what was proposed: what is declared there is asked for, GPUs or not.
pub(super) fn namespaces(flags: &Flags) -> anyhow::Result<BTreeSet<String>> {
    let known = known(&flags.database.open()?)?.into_iter();
    Ok(known
        .map(|(_, of)| of.holder.namespace)
        .filter(|namespace| !namespace.is_empty())
        .collect())
}

fn known(store: &Store) -> anyhow::Result<Vec<(StoredProposal, Remembered)>> {
    let mut out = Vec::new();
    for stored in store.proposals()? {
        let of = read_proposal(&stored.document)
            .map_err(anyhow::Error::new)
            .with_context(|| Problem::new(format!("proposal {} of the database", stored.id)))?;
        out.push((stored, of));
    }
    Ok(out)
}

fn name(of: &Remembered) -> String {
    if of.holder.namespace.is_empty() {
        of.holder.name.clone()
    } else {
        format!("{}/{}", of.holder.namespace, of.holder.name)
    }
}

fn stored(of: &Remembered) -> anyhow::Result<StoredProposal> {
    // The same change to the same workload as it was is one proposal.
    let identity = format!(
        "{:?} {:?} {} {} {:?}",
        of.scope, of.holder, of.kind, of.title, of.before
    );
    Ok(StoredProposal {
        id: RunId::of(identity.as_bytes()).to_string(),
        workload: format!("{} ({})", name(of), of.holder.kind),
        tenant: of.tenant.clone(),
        made_at_ns: of.made_at.saturating_mul(1_000_000_000),
        state: State::Open.name().into(),
        settled_at_ns: None,
        document: proposal_document(of)?,
    })
}

fn row(of: &Remembered, state: State, outcome: Option<Outcome>) -> ProofRow {
    let (gpus, saved, after, why) = match outcome {
        Some(outcome) => (outcome.gpus, outcome.saved, outcome.latency, outcome.why),
        None => (
            None,
            None,
            None,
            "as of the last look: add --prometheus for another".into(),
        ),
    };
    ProofRow {
        workload: name(of),
        proposal: of.title.clone(),
        made_at: of.made_at,
        state: state.title(),
        predicted: of.predicted,
        proven: saved,
        predicted_gpus: of.predicted_gpus,
        proven_gpus: gpus,
        latency: (of.latency, after),
        why,
    }
}

fn show(context: &Context, mut rows: Vec<ProofRow>) -> anyhow::Result<()> {
    // Proven first; of equals the dearest first.
    let order = |title: &str| State::ALL.iter().position(|state| state.title() == title);
    rows.sort_by(|a, b| {
        let worth = |row: &ProofRow| row.predicted.map_or(0, |money| money.micros);
        order(a.state)
            .cmp(&order(b.state))
            .then(worth(b).cmp(&worth(a)))
            .then_with(|| a.workload.cmp(&b.workload))
    });
    if context.form.format == crate::settings::Format::Table && !rows.is_empty() {
        let sum = |of: fn(&ProofRow) -> Option<gpuwise_units::Money>| {
            rows.iter()
                .filter_map(of)
                .map(gpuwise_units::Money::as_f64)
                .sum::<f64>()
        };
        let count = |state: State| rows.iter().filter(|row| row.state == state.title()).count();
        context.data(&format!(
            "Proven   {} of {} proposals; {} USD an hour came of {} proposed; {} not applied, {} cannot be told, {} out of scope\n\n",
            count(State::Proven),
            rows.len(),
            gpuwise_view::figures::amount(sum(|row| row.proven)),
            gpuwise_view::figures::amount(sum(|row| row.predicted)),
            count(State::Open),
            count(State::Untold),
            count(State::Elsewhere)
        ))?;
    }
    context
        .answering(AnswerName::AuditProof)
        .table(&proof_table(&rows))
}
