//! How long an engine may be silent before what was asked of it is given up.

use crate::endpoints::{Health, Replica};
use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::sync::watch;

/// How long engines may be silent, and how they are asked whether they are well once they are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnginePatience {
    /// From when a request is sent until the first byte of its answer.
    pub first: Duration,
    /// Between two pieces of an answer.
    pub between: Duration,
    /// Between two questions whether a replica is well.
    pub every: Duration,
    /// How long the answer to that may take.
    pub within: Duration,
    /// Questions in a row without a good answer, after which a replica gets no requests.
    pub failures: u32,
    /// After so long in which no replica of a lease was well it ends; `None`: it stays.
    pub ends: Option<Duration>,
}

impl Default for EnginePatience {
    fn default() -> Self {
        Self {
            first: Duration::from_mins(10),
            between: Duration::from_mins(1),
            every: Duration::from_secs(5),
            within: Duration::from_secs(5),
            failures: 3,
            ends: None,
        }
    }
}

/// Why an engine is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nothing of an answer came.
    First(Duration),
    /// Nothing more of it came.
    Between(Duration),
    /// It does not say that it is well, and nothing came meanwhile.
    Unwell(String),
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First(limit) => {
                write!(
                    f,
                    "nothing of an answer came within {} s",
                    limit.as_secs_f64()
                )
            }
            Self::Between(limit) => {
                write!(
                    f,
                    "nothing more of the answer came for {} s",
                    limit.as_secs_f64()
                )
            }
            Self::Unwell(why) => write!(f, "it is not well: {why}"),
        }
    }
}

/// Until an engine has been silent for too long from now on.
pub(super) type Silent = Pin<Box<dyn Future<Output = Silence> + Send>>;

impl EnginePatience {
    pub(super) fn until_first(self, replica: &Arc<Replica>) -> Silent {
        self.until(replica, Silence::First(self.first), self.first)
    }

    pub(super) fn until_next(self, replica: &Arc<Replica>) -> Silent {
        self.until(replica, Silence::Between(self.between), self.between)
    }

    fn until(self, replica: &Arc<Replica>, late: Silence, limit: Duration) -> Silent {
        let health = replica.health();
        Box::pin(async move {
            tokio::select! {
                () = tokio::time::sleep(limit) => late,
                why = unwell(health, self.within) => Silence::Unwell(why),
            }
        })
    }
}

/// Until a replica has not been well for as long as a good answer may take: one that is slow to say that it is well,
/// and goes on answering, is not given up.
async fn unwell(mut health: watch::Receiver<Health>, within: Duration) -> String {
    loop {
        if health
            .wait_for(|health| health.unwell().is_some())
            .await
            .is_err()
        {
            // There is no such replica any more, and nobody who asks it.
            return std::future::pending().await;
        }
        tokio::time::sleep(within).await;
        if let Some((_, why)) = health.borrow().unwell() {
            return why.to_owned();
        }
    }
}
