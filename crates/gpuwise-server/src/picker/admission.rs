//! Who is let through to a pool that has more to do than it can: by priority, at once, later or not at all.

use super::{
    Picked, Picker, Picking,
    exchange::{PickAsk, Refused},
    line::Line,
    objectives::{HIDDEN, Objectives},
    pool::Pool,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// Names of objectives that are not known and were said, at most: they come from who asks.
const STRANGERS: usize = 64;

/// How requests wait in a picker.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueSettings {
    /// Requests that wait at most; 0: none, and a full pool refuses those below priority 0 alone.
    pub most: usize,
    /// How long one waits at most.
    pub patience: Duration,
}

/// Tells whoever runs the picker.
pub(super) type Say = dyn Fn(&str) + Send + Sync;

pub(super) struct Admission {
    pool: Arc<Pool>,
    objectives: Objectives,
    settings: QueueSettings,
    line: Mutex<Line<Waiting>>,
    strangers: Mutex<BTreeSet<String>>,
    say: Arc<Say>,
}

struct Waiting {
    ask: PickAsk,
    answer: oneshot::Sender<Result<Picked, Refused>>,
}

impl Admission {
    pub(super) fn new(
        pool: Arc<Pool>,
        objectives: Objectives,
        settings: QueueSettings,
        say: Arc<Say>,
    ) -> Self {
        Self {
            pool,
            objectives,
            settings,
            line: Mutex::new(Line::new(settings.most)),
            strangers: Mutex::default(),
            say,
        }
    }

    fn line(&self) -> MutexGuard<'_, Line<Waiting>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait, by priority.
    pub(super) fn waiting(&self) -> Vec<(i64, usize)> {
        self.line().waiting().collect()
    }

    pub(super) fn objectives(&self) -> &Objectives {
        &self.objectives
    }

    fn picked(&self, ask: &PickAsk) -> Result<Picked, Refused> {
        self.pool.pick(ask).map(|(endpoints, held)| Picked {
            endpoints,
            hidden: &HIDDEN,
            held: Box::new(held),
        })
    }

    /// Lets through who may go now.
    pub(super) fn drain(&self) {
        loop {
            let full = self.pool.is_full(None, true);
            let next = {
                let mut line = self.line();
                line.retain(|one| !one.answer.is_closed());
                line.take(|one| match one.ask.subset.as_deref() {
                    None => !full,
                    only => !self.pool.is_full(only, true),
                })
            };
            let Some(next) = next else { return };
            // Who went away in between is over at once.
            let _ = next.answer.send(self.picked(&next.ask));
        }
    }

    /// Lets through whoever may go, whenever that may have changed.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            self.pool.changed().await;
            self.drain();
        }
    }

    async fn admitted(&self, ask: PickAsk) -> Result<Picked, Refused> {
        let standing = self.objectives.standing(&ask.headers);
        if let Some(name) = &standing.unknown {
            self.say_once(name);
        }
        let priority = standing.priority;
        let full = self.pool.is_full(ask.subset.as_deref(), false);
        if self.settings.most == 0 {
            return if full && priority < 0 {
                Err(saturated(format!(
                    "every endpoint has as much as it can do, and priority {priority} is below 0"
                )))
            } else {
                self.picked(&ask)
            };
        }
        let waits = full || self.line().is_before(priority);
        if !waits {
            return self.picked(&ask);
        }
        let (answer, told) = oneshot::channel();
        let left = {
            let mut line = self.line();
            line.retain(|one| !one.answer.is_closed());
            line.push(priority, &standing.flow, Waiting { ask, answer })
        };
        if let Some(left) = left {
            let many = self.settings.most;
            let why = saturated(format!("{many} requests wait that go before it"));
            let _ = left.answer.send(Err(why));
        }
        // What kept it from going may be over by now.
        self.drain();
        self.waited(told).await
    }

    async fn waited(
        &self,
        told: oneshot::Receiver<Result<Picked, Refused>>,
    ) -> Result<Picked, Refused> {
        let patience = self.settings.patience;
        match tokio::time::timeout(patience, told).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(saturated("the picker ends".into())),
            Err(_) => Err(Refused {
                code: "waited".into(),
                detail: format!("no endpoint had room for it within {patience:?}"),
                dropped: Some("rejected-ttl-expired"),
                ..saturated(String::new())
            }),
        }
    }

    fn say_once(&self, name: &str) {
        let mut said = self
            .strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if said.len() < STRANGERS && said.insert(name.to_owned()) {
            (self.say)(&format!(
                "▲ no InferenceObjective is named {name:?}: requests for it have priority 0"
            ));
        }
    }
}

fn saturated(detail: String) -> Refused {
    Refused {
        status: 429,
        code: "saturated".into(),
        detail,
        dropped: Some("rejected-saturated"),
    }
}

impl Picker for Admission {
    fn pick(&self, ask: PickAsk) -> Picking<'_> {
        Box::pin(self.admitted(ask))
    }
}
