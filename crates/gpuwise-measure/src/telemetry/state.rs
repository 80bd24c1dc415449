//! What is being watched: a row for each GPU, slice and holder, and one for each replica of an engine.

use super::{
    serving::ReplicaTrack,
    track::{Arrival, Track},
};
use gpuwise_domain::telemetry::{
    MetricType, Missing, Quantity, ReadingValue, Subject, Telemetry, Topology,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Engine, model and replica.
pub type ReplicaKey = (String, Option<String>, String);

/// What was wrong with samples so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Anomalies {
    /// Older than one that had come before.
    pub late: u64,
    /// Of the same time as another, with another value.
    pub duplicate: u64,
    /// No number, or none that can be.
    pub not_a_number: u64,
    /// Counters that began again.
    pub reset: u64,
}

/// A row: what it is, and what was read of it.
#[derive(Debug, Clone)]
pub struct Row {
    pub subject: Subject,
    tracks: Vec<(Quantity, Track)>,
    missing: Vec<(Quantity, Missing)>,
    /// The time of its newest reading, by the source's clock.
    pub seen: f64,
    /// When a source last spoke of it, by ours: the two clocks may differ.
    pub heard: f64,
}

impl Row {
    /// The track of a quantity, where one was ever known.
    pub fn track(&self, quantity: Quantity) -> Option<&Track> {
        self.tracks
            .iter()
            .find(|(of, _)| *of == quantity)
            .map(|(_, track)| track)
    }

    /// The newest value of a quantity.
    pub fn last(&self, quantity: Quantity) -> Option<f64> {
        self.track(quantity)?.last()
    }

    /// Why a quantity is not known, where the source says it.
    pub fn missing(&self, quantity: Quantity) -> Option<Missing> {
        self.missing
            .iter()
            .find(|(of, _)| *of == quantity)
            .map(|(_, why)| *why)
    }

    pub fn tracks(&self) -> impl Iterator<Item = (Quantity, &Track)> {
        self.tracks
            .iter()
            .map(|(quantity, track)| (*quantity, track))
    }

    /// Whether this is a process's share, which has no row of its own in tables.
    pub fn is_process(&self) -> bool {
        self.subject.holder.process.is_some()
    }

    fn track_mut(&mut self, quantity: Quantity) -> &mut Track {
        let known = self.tracks.iter().position(|(of, _)| *of == quantity);
        let place = known.unwrap_or_else(|| {
            self.tracks.push((quantity, Track::default()));
            self.tracks.len() - 1
        });
        // `place` was found or pushed just above.
        &mut self.tracks[place].1
    }
}

/// Everything that is watched.
#[derive(Debug, Clone)]
pub struct State {
    window: f64,
    rows: Vec<Row>,
    places: FxHashMap<Subject, usize>,
    replicas: BTreeMap<ReplicaKey, ReplicaTrack>,
    /// How the machine's parts are connected, where a source said it.
    pub topology: Option<Topology>,
    pub anomalies: Anomalies,
}

impl State {
    /// Nothing yet; figures will be of this many seconds before now.
    pub fn new(window: f64) -> Self {
        Self {
            window,
            rows: Vec::new(),
            places: FxHashMap::default(),
            replicas: BTreeMap::new(),
            topology: None,
            anomalies: Anomalies::default(),
        }
    }

    /// Takes what a source said; `now` is the time of samples that carry none.
    pub fn take(&mut self, said: &Telemetry, now: f64) {
        let places: Vec<usize> = said
            .subjects
            .iter()
            .map(|subject| self.place(subject))
            .collect();
        for reading in &said.readings {
            let Some(row) = places
                .get(reading.subject as usize)
                .and_then(|place| self.rows.get_mut(*place))
            else {
                continue;
            };
            let at = reading.at.unwrap_or(now);
            row.seen = row.seen.max(at);
            match reading.value {
                ReadingValue::Known(value) => {
                    let counter = reading.quantity.course() == MetricType::Counter;
                    row.missing.retain(|(of, _)| *of != reading.quantity);
                    match row.track_mut(reading.quantity).take(at, value, counter) {
                        Arrival::Taken | Arrival::Same => {}
                        Arrival::Late => self.anomalies.late += 1,
                        Arrival::Duplicate => self.anomalies.duplicate += 1,
                        Arrival::Reset => self.anomalies.reset += 1,
                    }
                }
                ReadingValue::Unknown(why) => {
                    if matches!(why, Missing::NotANumber | Missing::OutOfRange) {
                        self.anomalies.not_a_number += 1;
                    }
                    if row.missing(reading.quantity).is_none() {
                        row.missing.push((reading.quantity, why));
                    }
                }
            }
        }
        for place in places {
            if let Some(row) = self.rows.get_mut(place) {
                row.heard = row.heard.max(now);
                // Some are only listed, without a reading.
                if row.seen <= f64::MIN {
                    row.seen = now;
                }
            }
        }
        for sample in &said.serving {
            let key = (
                sample.engine.clone(),
                sample.model.clone(),
                sample.replica.clone(),
            );
            let at = sample.at.unwrap_or(now);
            let replica = self.replicas.entry(key).or_default();
            self.anomalies.reset += replica.take(sample, at);
            replica.heard = replica.heard.max(now);
        }
        if let Some(topology) = &said.topology {
            self.topology = Some(topology.clone());
        }
    }

    fn place(&mut self, subject: &Subject) -> usize {
        if let Some(place) = self.places.get(subject) {
            return *place;
        }
        let place = self.rows.len();
        self.places.insert(subject.clone(), place);
        self.rows.push(Row {
            subject: subject.clone(),
            tracks: Vec::new(),
            missing: Vec::new(),
            // Its first reading says when.
            seen: f64::MIN,
            heard: f64::MIN,
        });
        place
    }

    /// Forgets samples that are older than the window, by the source's clock; all of what no source spoke
    /// of for a window, replicas whole; and rows of which none did for ten.
    pub fn forget(&mut self, now: f64) {
        let window = self.window;
        for row in &mut self.rows {
            let before = if row.heard >= now - window {
                row.seen - window
            } else {
                f64::MAX
            };
            for (_, track) in &mut row.tracks {
                track.forget(before);
            }
        }
        self.replicas
            .retain(|_, replica| replica.heard >= now - window);
        for replica in self.replicas.values_mut() {
            replica.forget(replica.newest().unwrap_or(now) - window);
        }
        let gone = now - 10.0 * window;
        if self.rows.iter().any(|row| row.heard < gone) {
            self.rows.retain(|row| row.heard >= gone);
            self.places = self
                .rows
                .iter()
                .enumerate()
                .map(|(place, row)| (row.subject.clone(), place))
                .collect();
        }
    }

    /// Rows in the order in which they came.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Replicas of serving engines, in order of engine, model and replica.
    pub fn replicas(&self) -> impl Iterator<Item = (&ReplicaKey, &ReplicaTrack)> {
        self.replicas.iter()
    }

    /// The time of the newest sample.
    pub fn newest(&self) -> Option<f64> {
        self.rows.iter().map(|row| row.seen).reduce(f64::max)
    }

    /// Seconds that figures are of.
    pub fn window(&self) -> f64 {
        self.window
    }

    pub fn instances_of<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(|other| {
            other.subject.instance.is_some()
                && !other.is_process()
                && same_gpu(&other.subject, &row.subject)
        })
    }

    /// Processes on the GPU or slice of a row.
    pub fn processes_of<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(|other| {
            other.is_process()
                && same_gpu(&other.subject, &row.subject)
                && (row.subject.instance.is_none()
                    || other.subject.instance == row.subject.instance)
        })
    }
}

/// Whether two subjects are of the same GPU, by UUID where both tell it, else by host and number.
fn same_gpu(a: &Subject, b: &Subject) -> bool {
    match (&a.gpu.uuid, &b.gpu.uuid) {
        (Some(a), Some(b)) => a == b,
        _ => a.gpu.host == b.gpu.host && a.gpu.index.is_some() && a.gpu.index == b.gpu.index,
    }
}
