//! Asks for measurements beside the loop, which never waits for them.

use super::{
    watches::Change,
    workloads::{AuditAsk, Audited, Following, Meter, MeterAsk},
};
use crate::tiers::SloSeen;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{Interval, MissedTickBehavior, interval},
};

/// Who measures, and how often.
#[derive(Clone)]
pub struct Measures {
    pub meter: Arc<dyn Meter>,
    /// Between two looks at SLOs and rates.
    pub every: Duration,
    /// Between two audits.
    pub audit: Duration,
}

/// What is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub workloads: Vec<MeterAsk>,
    /// `None`: nobody needs an audit.
    pub audit: Option<AuditAsk>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Counts up: what was counted once is not counted again.
    pub number: u64,
    /// By uid.
    pub slos: BTreeMap<String, SloSeen>,
    pub replicas: BTreeMap<String, Result<Following, String>>,
    /// The last audit, and its number, which counts up too; `None`: there was none.
    pub audit: Option<(u64, Result<Vec<Audited>, String>)>,
}

/// Measures what is wanted for as long as somebody listens; nothing where nothing is.
pub(super) async fn measure(
    measures: Measures,
    wanted: watch::Receiver<Arc<Wanted>>,
    send: mpsc::Sender<Change>,
) {
    let mut due = ticks(measures.every);
    let mut number = 0;
    loop {
        due.tick().await;
        let asks = Arc::clone(&wanted.borrow());
        if asks.workloads.is_empty() {
            continue;
        }
        number += 1;
        let meter = Arc::clone(&measures.meter);
        let found = tokio::task::spawn_blocking(move || Measured {
            number,
            slos: asks
                .workloads
                .iter()
                .map(|ask| (ask.uid.clone(), meter.slo(ask)))
                .collect(),
            replicas: meter.replicas(&asks.workloads),
            audit: None,
        });
        let Ok(found) = found.await else { return };
        if send.send(Change::Measured(Box::new(found))).await.is_err() {
            return;
        }
    }
}

/// Audits for as long as somebody listens, where anybody needs that. An audit of weeks takes its time: replicas and
/// SLOs do not wait for it.
pub(super) async fn audit(
    measures: Measures,
    mut wanted: watch::Receiver<Arc<Wanted>>,
    send: mpsc::Sender<Change>,
) {
    let mut due = ticks(measures.audit);
    let mut number = 0;
    loop {
        due.tick().await;
        // Who asks for the first time need not wait for the next one's time.
        let asked = wanted.wait_for(|wanted| wanted.audit.is_some()).await;
        let Ok(ask) = asked.map(|wanted| wanted.audit.clone()) else {
            return;
        };
        let Some(ask) = ask else { continue };
        number += 1;
        let meter = Arc::clone(&measures.meter);
        let Ok(found) = tokio::task::spawn_blocking(move || meter.audit(&ask)).await else {
            return;
        };
        let found = Box::new((number, found));
        if send.send(Change::Audited(found)).await.is_err() {
            return;
        }
    }
}

fn ticks(every: Duration) -> Interval {
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    due
}
