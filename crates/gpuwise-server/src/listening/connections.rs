//! The connections that there are, and which of them makes room for another.

use super::ConnectionBounds;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Why a connection was closed, or not taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closed {
    /// There was no room, and all others served requests.
    Refused,
    /// It waited longest when another came.
    MadeRoom,
    /// Its request did not come in time.
    Head,
    Body,
    /// No request came.
    Idle,
    /// Nothing of an answer was taken.
    Write,
}

impl Closed {
    const ALL: [Self; 6] = [
        Self::Refused,
        Self::MadeRoom,
        Self::Head,
        Self::Body,
        Self::Idle,
        Self::Write,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::MadeRoom => "made_room",
            Self::Head => "head",
            Self::Body => "body",
            Self::Idle => "idle",
            Self::Write => "write",
        }
    }
}

/// Where a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Head,
    Body,
    /// So many requests are being answered.
    Serving(u32),
}

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Held {
    from: IpAddr,
    /// It carries several requests side by side, whose parts are not told apart here.
    streams: bool,
    phase: Mutex<(Phase, Instant)>,
    read: AtomicU64,
    pub(super) closed: AtomicBool,
    pub(super) close: Arc<Notify>,
}

/// Bytes with which a connection of HTTP/2 begins: its preface and an empty frame of settings.
const PREFACE: u64 = 33;

impl Held {
    fn phase(&self) -> MutexGuard<'_, (Phase, Instant)> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_read(&self, bytes: usize) {
        let all = self.read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let mut now = self.phase();
        match now.0 {
            Phase::Idle if self.streams && all >= PREFACE => now.1 = Instant::now(),
            Phase::Head if self.streams && all >= PREFACE => *now = (Phase::Idle, Instant::now()),
            Phase::Idle => *now = (Phase::Head, Instant::now()),
            _ => {}
        }
    }

    /// Why its time is over; `None`: it is not.
    fn over(&self, bounds: &ConnectionBounds, now: Instant) -> Option<Closed> {
        let (phase, since) = *self.phase();
        let (limit, why) = match phase {
            Phase::Idle => (bounds.idle, Closed::Idle),
            Phase::Head => (bounds.head, Closed::Head),
            // Where it is waited for, that is said before.
            Phase::Body => (bounds.body + Duration::from_secs(5), Closed::Body),
            Phase::Serving(_) => return None,
        };
        (now.saturating_duration_since(since) > limit).then_some(why)
    }

    /// Since when it waits; `None`: it serves.
    fn waits(&self) -> Option<Instant> {
        match *self.phase() {
            (Phase::Serving(_), _) => None,
            (_, since) => Some(since),
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.close.notify_one();
    }
}

/// A connection, for whoever answers its requests.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(super) held: Arc<Held>,
    pub(super) bounds: ConnectionBounds,
}

/// A request that is being answered, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Serving(Arc<Held>);

impl Connection {
    /// The head of a request is whole, and its body is read.
    pub(super) fn body(&self) {
        let mut now = self.held.phase();
        if !matches!(now.0, Phase::Serving(_)) {
            *now = (Phase::Body, Instant::now());
        }
    }

    /// A request is whole.
    pub(crate) fn serves(&self) -> Serving {
        let mut now = self.held.phase();
        let others = match now.0 {
            Phase::Serving(others) => others,
            _ => 0,
        };
        *now = (Phase::Serving(others + 1), now.1);
        drop(now);
        Serving(Arc::clone(&self.held))
    }

    /// How long the body of a request may take.
    pub(crate) const fn patience(&self) -> Duration {
        self.bounds.body
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let mut now = self.0.phase();
        *now = match now.0 {
            Phase::Serving(more) if more > 1 => (Phase::Serving(more - 1), now.1),
            _ => (Phase::Idle, Instant::now()),
        };
    }
}

#[derive(Debug)]
struct Inner {
    bounds: ConnectionBounds,
    open: Mutex<BTreeMap<u64, Arc<Held>>>,
    next: AtomicU64,
    closed: [AtomicU64; Closed::ALL.len()],
}

/// All connections of a process that listens; several listeners may share them.
#[derive(Debug, Clone)]
pub(crate) struct Connections(Arc<Inner>);

/// A place among them, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    pub(super) connection: Connection,
    all: Connections,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.open().remove(&self.number);
    }
}

impl Place {
    pub(super) fn count(&self, why: Closed) {
        self.all.count(why);
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self::new(ConnectionBounds::default())
    }
}

impl Connections {
    pub(crate) fn new(bounds: ConnectionBounds) -> Self {
        Self(Arc::new(Inner {
            bounds,
            open: Mutex::default(),
            next: AtomicU64::new(0),
            closed: Default::default(),
        }))
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Held>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(crate) fn count_open(&self) -> usize {
        self.open().len()
    }

    /// How many of them serve a request.
    #[cfg(test)]
    pub(super) fn serving(&self) -> usize {
        self.open()
            .values()
            .filter(|held| held.waits().is_none())
            .count()
    }

    /// How many were closed, or not taken on, and why.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = Closed::ALL.iter().zip(&self.0.closed);
        counts.map(|(why, count)| (why.name(), count.load(Ordering::Relaxed)))
    }

    fn count(&self, why: Closed) {
        let counts = Closed::ALL.iter().zip(&self.0.closed);
        for (_, count) in counts.filter(|(one, _)| **one == why) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes a connection on; where there is no room, one that waits makes it. `None`: all serve.
    pub(super) fn admit(&self, from: IpAddr, streams: bool) -> Option<Place> {
        let (from, bounds) = (network(from), self.0.bounds);
        let mut open = self.open();
        let own = open.values().filter(|one| one.from == from).count();
        let made = if own >= bounds.each {
            make_room(&mut open, |held| held.from == from)
        } else if open.len() >= bounds.all {
            let most = with_most(&open);
            make_room(&mut open, |held| Some(held.from) == most) || make_room(&mut open, |_| true)
        } else {
            return Some(self.place(&mut open, from, streams));
        };
        if made {
            self.count(Closed::MadeRoom);
            return Some(self.place(&mut open, from, streams));
        }
        self.count(Closed::Refused);
        None
    }

    fn place(&self, open: &mut BTreeMap<u64, Arc<Held>>, from: IpAddr, streams: bool) -> Place {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let held = Arc::new(Held {
            from,
            streams,
            phase: Mutex::new((
                if streams { Phase::Head } else { Phase::Idle },
                Instant::now(),
            )),
            read: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            close: Arc::default(),
        });
        open.insert(number, Arc::clone(&held));
        Place {
            number,
            connection: Connection {
                held,
                bounds: self.0.bounds,
            },
            all: self.clone(),
        }
    }

    /// One that waits is closed: the machine has no more room.
    pub(super) fn one_less(&self) {
        let mut open = self.open();
        let most = with_most(&open);
        if make_room(&mut open, |held| Some(held.from) == most) {
            self.count(Closed::MadeRoom);
        }
    }

    /// Closes those whose time is over.
    pub(super) fn sweep(&self, now: Instant) {
        let over: Vec<(Arc<Held>, Closed)> = {
            let open = self.open();
            let still = open
                .values()
                .filter(|held| !held.closed.load(Ordering::SeqCst));
            let over = still.filter_map(|held| {
                let why = held.over(&self.0.bounds, now)?;
                Some((Arc::clone(held), why))
            });
            over.collect()
        };
        for (held, why) in over {
            self.count(why);
            held.close();
        }
    }

    /// Closes those whose time is over, for as long as there are connections or somebody who listens.
    pub(super) fn sweeps(&self) {
        let all: Weak<Inner> = Arc::downgrade(&self.0);
        let bounds = self.0.bounds;
        let shortest = bounds.head.min(bounds.body).min(bounds.idle);
        let step = (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(1));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(step).await;
                match all.upgrade() {
                    Some(inner) => Self(inner).sweep(Instant::now()),
                    None => return,
                }
            }
        });
    }
}

/// The address that has most connections.
fn with_most(open: &BTreeMap<u64, Arc<Held>>) -> Option<IpAddr> {
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for held in open.values() {
        *counts.entry(held.from).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(from, _)| from)
}

/// Closes the one that has waited longest; `false`: none waits. Its place is free at once: there are files for
/// connections that are being closed.
fn make_room(open: &mut BTreeMap<u64, Arc<Held>>, of: impl Fn(&Held) -> bool) -> bool {
    let waiting = open.iter().filter(|(_, held)| of(held));
    let waiting = waiting.filter_map(|(number, held)| Some((held.waits()?, *number)));
    let Some((_, number)) = waiting.min() else {
        return false;
    };
    if let Some(held) = open.remove(&number) {
        held.close();
    }
    true
}

/// Who has one address of IPv6 has all of its network.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            Ipv6Addr::from(network).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}
