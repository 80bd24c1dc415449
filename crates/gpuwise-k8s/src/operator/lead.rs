//! One operator leads: a Lease of `coordination.k8s.io`, as other controllers use it.
//!
//! Times of other machines are never compared with ours: a lease is over when nobody has renewed it for as long
//! as it holds, by our own clock, counted from when we saw it. Who leads stops to write before others may begin.

use super::{clock, metrics::Metrics};
use crate::manifests::LEASE;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// A write that takes longer has failed, however long a lease holds.
const LONGEST: Duration = Duration::from_secs(4);

/// A time in which we lead.
#[derive(Debug, Clone)]
pub struct Term {
    /// How often the lease has changed hands: no two terms have the same.
    pub number: i32,
    began: Instant,
    /// Until when it holds, in nanoseconds after it began.
    until: Arc<AtomicU64>,
    /// How long a write may take that begins under it: it is over before another may lead.
    pub longest: Duration,
}

impl Term {
    /// Whether something may still be written under it.
    pub fn holds(&self) -> bool {
        let until = Duration::from_nanos(self.until.load(Ordering::Acquire));
        self.began.elapsed() < until
    }

    fn prolong(&self, until: Instant) {
        let until = until.saturating_duration_since(self.began).as_nanos();
        self.until
            .store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Release);
    }

    fn end(&self) {
        self.until.store(0, Ordering::Release);
    }
}

/// Who wants to lead.
pub struct Lead {
    api: Api<Lease>,
    namespace: String,
    identity: String,
    holds: Duration,
    terms: watch::Sender<Option<Term>>,
    /// What others' lease said, and when we first saw that.
    seen: Option<(Option<MicroTime>, Option<String>, Instant)>,
}

impl Lead {
    /// `holds`: how long a lease counts that nobody renews. No two processes have the same identity, whatever they
    /// are called: who is started anew waits until the lease of the one before is over, as anybody else does, since
    /// that one may be alive.
    pub fn new(
        client: Client,
        namespace: &str,
        identity: &str,
        holds: Duration,
    ) -> (Self, watch::Receiver<Option<Term>>) {
        let (terms, receiver) = watch::channel(None);
        let lead = Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            identity: format!("{identity}_{:016x}", RandomState::new().hash_one(identity)),
            holds,
            terms,
            seen: None,
        };
        (lead, receiver)
    }

    /// Leads and follows until told to end, and then lets go of the lease.
    pub async fn run(mut self, mut ends: watch::Receiver<bool>, metrics: Arc<Metrics>) {
        // As client-go: 15 s, 10 s, 2 s.
        let retry = self.holds * 2 / 15;
        loop {
            let began = Instant::now();
            let term = self.terms.borrow().clone();
            let asked = timeout(self.holds / 3, self.ask(term.as_ref())).await;
            match asked {
                Ok(Ok(Some(number))) => {
                    let until = began + self.holds * 2 / 3;
                    if let Some(term) = term.as_ref().filter(|term| term.number == number) {
                        term.prolong(until);
                    } else {
                        self.lost(term);
                        let term = Term {
                            number,
                            began,
                            until: Arc::default(),
                            longest: (self.holds / 4).min(LONGEST),
                        };
                        term.prolong(until);
                        self.terms.send_replace(Some(term));
                    }
                }
                Ok(Ok(None)) => self.lost(term),
                // Nobody knows; the term ends by itself.
                Ok(Err(_)) | Err(_) => {
                    if term.as_ref().is_some_and(|term| !term.holds()) {
                        self.lost(term);
                    }
                }
            }
            metrics.leads(self.terms.borrow().is_some());
            tokio::select! {
                () = tokio::time::sleep(retry) => {}
                _ = ends.wait_for(|end| *end) => break,
            }
        }
        let term = self.terms.borrow().clone();
        if let Some(term) = term {
            self.lost(Some(term));
            let _ = timeout(Duration::from_secs(1), self.release()).await;
        }
    }

    fn lost(&self, term: Option<Term>) {
        if let Some(term) = term {
            term.end();
            self.terms.send_replace(None);
        }
    }

    /// Takes the lease or renews it: the number of our term, or `None` where another leads.
    async fn ask(&mut self, term: Option<&Term>) -> Result<Option<i32>, kube::Error> {
        let Some(lease) = self.api.get_opt(LEASE).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(LEASE.into()),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(0, None)),
            };
            return match self.api.create(&PostParams::default(), &lease).await {
                Ok(_) => Ok(Some(0)),
                Err(kube::Error::Api(error)) if error.code == 409 => Ok(None),
                Err(error) => Err(error),
            };
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().filter(|name| !name.is_empty());
        let number = spec.lease_transitions.unwrap_or_default();
        let ours = holder.as_deref() == Some(&self.identity);
        if ours && let Some(term) = term.filter(|term| term.number == number) {
            return self
                .write(lease, self.spec(term.number, spec.acquire_time))
                .await;
        }
        if !ours && holder.is_some() && !self.is_over(&spec) {
            return Ok(None);
        }
        // One of ours that another term has is one that we lost: a new term, too.
        self.write(lease, self.spec(number.saturating_add(1), None))
            .await
    }

    /// Whether nobody has renewed it for as long as it holds.
    fn is_over(&mut self, spec: &LeaseSpec) -> bool {
        let now = Instant::now();
        let (time, holder) = (spec.renew_time.clone(), spec.holder_identity.clone());
        let holds = spec
            .lease_duration_seconds
            .and_then(|s| u64::try_from(s).ok());
        let holds = Duration::from_secs(holds.unwrap_or(15));
        match &self.seen {
            Some((then, who, at)) if *then == time && *who == holder => {
                now.duration_since(*at) >= holds
            }
            _ => {
                self.seen = Some((time, holder, now));
                false
            }
        }
    }

    fn spec(&self, number: i32, acquired: Option<MicroTime>) -> LeaseSpec {
        let now = MicroTime(clock::now());
        let seconds = i32::try_from(self.holds.as_secs().max(1)).unwrap_or(i32::MAX);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds),
            acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(number),
            ..LeaseSpec::default()
        }
    }

    /// Writes it if nobody was faster.
    async fn write(&self, mut lease: Lease, spec: LeaseSpec) -> Result<Option<i32>, kube::Error> {
        let number = spec.lease_transitions;
        lease.spec = Some(spec);
        lease.metadata.managed_fields = None;
        match self
            .api
            .replace(LEASE, &PostParams::default(), &lease)
            .await
        {
            Ok(_) => Ok(number),
            Err(kube::Error::Api(error)) if error.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn release(&self) -> Result<(), kube::Error> {
        let lease = self.api.get(LEASE).await?;
        let Some(mut spec) = lease.spec.clone() else {
            return Ok(());
        };
        if spec.holder_identity.as_deref() == Some(&self.identity) {
            spec.holder_identity = Some(String::new());
            self.write(lease, spec).await?;
        }
        Ok(())
    }
}
