//! Asks for measurements beside the loop, which never waits for them.

use super::{
    watches::Change,
    workloads::{AuditAsk, Audited, Meter, MeterAsk},
};
use crate::tiers::SloSeen;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval},
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
#[derive(Debug)]
pub(super) struct Measured {
    /// Counts up: what was counted once is not counted again.
    pub number: u64,
    /// By uid.
    pub slos: BTreeMap<String, SloSeen>,
    pub replicas: BTreeMap<String, Result<u32, String>>,
    /// The last audit, and the number of the measurement that it came with; `None`: there was none.
    pub audit: Option<(u64, Result<Vec<Audited>, String>)>,
}

/// Measures what is wanted for as long as somebody listens; nothing where nothing is.
pub(super) async fn measure(
    measures: Measures,
    wanted: watch::Receiver<Arc<Wanted>>,
    send: mpsc::Sender<Change>,
) {
    let mut due = interval(measures.every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut audited: Option<Instant> = None;
    let mut number = 0;
    loop {
        due.tick().await;
        let asks = Arc::clone(&wanted.borrow());
        let again = audited.is_none_or(|at| at.elapsed() >= measures.audit);
        let audit = asks.audit.clone().filter(|_| again);
        if asks.workloads.is_empty() && audit.is_none() {
            continue;
        }
        if audit.is_some() {
            audited = Some(Instant::now());
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
            audit: audit.map(|ask| (number, meter.audit(&ask))),
        });
        let Ok(found) = found.await else { return };
        if send.send(Change::Measured(Box::new(found))).await.is_err() {
            return;
        }
    }
}
