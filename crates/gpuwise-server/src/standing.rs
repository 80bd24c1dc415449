//! How a daemon stands: what it answers before it writes, and while it cannot.

use crate::{clock::ClockError, http::Shared, serve::Said};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// A log that cannot be written is said at most so often, however often it comes and goes.
const BETWEEN: Duration = Duration::from_mins(1);

/// A writer asks its database every second; one that has had no answer for so long is not ready.
const UNHEARD: Duration = Duration::from_secs(4);

/// How it stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    Starts,
    /// Another writes the log.
    Waits,
    Writes,
    /// The log cannot be written now: why.
    Troubled(String),
    /// The machine's clock is not believed: nothing happens meanwhile.
    Mistimed(ClockError),
    Stops,
}

/// Where a daemon says what becomes of it.
pub(crate) type Say = Arc<dyn Fn(&Said) + Send + Sync>;

/// Written by whoever writes the log, read by whoever answers.
#[derive(Clone)]
pub(crate) struct Standing {
    now: Arc<Mutex<Known>>,
    say: Say,
}

#[derive(Debug)]
struct Known {
    stage: Stage,
    /// Since when the log cannot be written.
    troubled: Option<Instant>,
    /// When the log was last found to be writable.
    written: Instant,
    /// Since when the machine's clock is not believed.
    mistimed: Option<Instant>,
    /// Whether that was said, and when it was last.
    said: bool,
    last: Option<Instant>,
}

impl fmt::Debug for Standing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Standing").field(&self.now).finish()
    }
}

impl Standing {
    pub(crate) fn new(say: Say) -> Self {
        let known = Known {
            stage: Stage::Starts,
            troubled: None,
            written: Instant::now(),
            mistimed: None,
            said: false,
            last: None,
        };
        Self {
            now: Arc::new(Mutex::new(known)),
            say,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what has nothing to do with how it stands.
    pub(crate) fn tell(&self, said: &Said) {
        (self.say)(said);
    }

    pub(crate) fn set(&self, stage: Stage) {
        let mut known = self.lock();
        // Whatever else happens, it stops.
        if known.stage == Stage::Stops {
            return;
        }
        if stage == Stage::Writes {
            known.written = Instant::now();
        }
        let said = known.becomes(&stage, Instant::now());
        known.stage = stage;
        drop(known);
        if let Some(said) = said {
            (self.say)(&said);
        }
    }

    /// The log can be written now.
    pub(crate) fn written(&self) {
        self.lock().written = Instant::now();
    }

    /// Why it is not ready: a kind of problem, and what it is; `None`: it is.
    pub(crate) fn problem(&self) -> Option<(&'static str, String)> {
        let known = self.lock();
        match &known.stage {
            Stage::Writes => {
                let silent = known.written.elapsed();
                let what = format!(
                    "for {:.0} s the log was not found to be writable: its database does not answer, or the broker \
                     is busy",
                    silent.as_secs_f64()
                );
                (silent > UNHEARD).then_some(("store", what))
            }
            Stage::Starts => Some(("starting", "the broker reads its log".into())),
            Stage::Waits => {
                let what = "another broker writes this log; this one waits until it is silent";
                Some(("waiting", what.into()))
            }
            Stage::Troubled(why) => Some(("store", format!("the log cannot be written: {why}"))),
            Stage::Mistimed(error) => {
                let what = format!(
                    "{error}: set it right, and the broker goes on; or start it anew with --accept-clock"
                );
                Some(("clock", what))
            }
            Stage::Stops => Some(("stopping", "the broker is stopping".into())),
        }
    }
}

impl Known {
    /// What is to be said of a stage that comes now.
    fn becomes(&mut self, stage: &Stage, now: Instant) -> Option<Said> {
        match stage {
            Stage::Troubled(why) => {
                let since = *self.troubled.get_or_insert(now);
                let lately = self.last.is_some_and(|last| now - last < BETWEEN);
                if self.said || lately {
                    return None;
                }
                self.said = true;
                self.last = Some(now);
                Some(Said::Troubled {
                    why: why.clone(),
                    since: now - since,
                })
            }
            Stage::Mistimed(error) => {
                let is_new = self.mistimed.is_none();
                self.mistimed.get_or_insert(now);
                is_new.then_some(Said::Mistimed { error: *error })
            }
            Stage::Writes if self.mistimed.is_some() => {
                let since = self.mistimed.take()?;
                let after = now - since;
                Some(Said::Timed { after })
            }
            Stage::Writes => {
                let since = self.troubled.take()?;
                let said = std::mem::take(&mut self.said);
                said.then(|| Said::Well { after: now - since })
            }
            _ => None,
        }
    }
}

/// What stands between HTTP and the broker: closed until there is a state to answer from.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) standing: Standing,
    shared: OnceLock<Arc<Shared>>,
}

impl Gate {
    pub(crate) const fn new(standing: Standing) -> Self {
        Self {
            standing,
            shared: OnceLock::new(),
        }
    }

    /// Opens it, once.
    pub(crate) fn open(&self, shared: Arc<Shared>) {
        let _ = self.shared.set(shared);
    }

    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        self.shared.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_said_when_it_comes_and_when_it_is_over_and_not_again_within_a_minute() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&heard);
        let standing = Standing::new(Arc::new(move |said| {
            told.lock().expect("is held by nobody").push(said.clone());
        }));
        standing.set(Stage::Writes);
        for _ in 0..100 {
            standing.set(Stage::Troubled("the disk is full".into()));
        }
        for _ in 0..100 {
            standing.set(Stage::Writes);
            standing.set(Stage::Troubled("the disk is full".into()));
        }
        let heard = heard.lock().expect("is held by nobody");
        assert!(
            matches!(heard.as_slice(), [Said::Troubled { why, .. }, Said::Well { .. }] if why == "the disk is full"),
            "{heard:?}"
        );
        // What lasts is said once the minute is over.
        let mut known = standing.lock();
        let later = Instant::now() + BETWEEN;
        let said = known.becomes(&Stage::Troubled("still".into()), later);
        assert!(
            matches!(said, Some(Said::Troubled { since, .. }) if since > Duration::from_secs(50))
        );
    }

    #[test]
    fn a_database_that_no_longer_answers_is_not_ready_though_nothing_was_refused() {
        let standing = Standing::new(Arc::new(|_| ()));
        standing.set(Stage::Writes);
        assert_eq!(standing.problem(), None);
        standing.lock().written -= UNHEARD * 2;
        assert!(matches!(standing.problem(), Some(("store", _))));
        standing.written();
        assert_eq!(standing.problem(), None);
    }
}
