//! Demand of which it is known whose it is: the largest clients are forecast one by one, the rest together, and what
//! they come to is one more word on the whole.
//!
//! Of ServeGen's services ten clients are 63 to 93 % of the load (arXiv:2505.09999), each with a way of its own.

use super::{Forecast, Forecaster, Settings};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Clients that are forecast one by one, at most.
pub const APART: usize = 10;
/// Clients of which readings are kept, at most.
const KNOWN: usize = 64;
/// Readings that are kept of each, at most: a forecaster of a client that becomes large learns of them.
const KEPT: usize = 2016;
/// How much larger than the smallest that is apart one must be to take its place.
const LARGER: f64 = 1.2;
const DAY: u64 = 86_400_000_000_000;

/// Learns demand with whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ByClient {
    whole: Forecaster,
    /// Readings of clients, the newest last; what is not known of the whole is not known of them.
    readings: BTreeMap<String, VecDeque<Option<f64>>>,
    /// Of the whole.
    all: VecDeque<Option<f64>>,
    apart: BTreeMap<String, Forecaster>,
    rest: Option<Forecaster>,
    /// Readings of a day, and how many came since clients were last chosen.
    day: usize,
    since: usize,
}

impl ByClient {
    pub fn new(settings: Settings) -> Self {
        let day = DAY / settings.period.0.max(1);
        Self {
            whole: Forecaster::new(settings),
            readings: BTreeMap::new(),
            all: VecDeque::new(),
            apart: BTreeMap::new(),
            rest: None,
            day: usize::try_from(day).unwrap_or(usize::MAX).clamp(1, KEPT),
            since: 0,
        }
    }

    /// The forecaster of the whole.
    pub const fn whole(&self) -> &Forecaster {
        &self.whole
    }

    /// Clients that are forecast one by one.
    pub fn apart(&self) -> impl Iterator<Item = &str> {
        self.apart.keys().map(String::as_str)
    }

    /// The reading of a period, and what of it came of whom; who is not named sent nothing.
    pub fn observe<'a>(
        &mut self,
        reading: Option<f64>,
        clients: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        let reading = reading.filter(|value| value.is_finite() && *value >= 0.0);
        let of: BTreeMap<&str, f64> = clients
            .into_iter()
            .filter(|(_, value)| value.is_finite() && *value > 0.0)
            .collect();
        self.keep(reading, &of);
        let mut rest = reading;
        for (name, forecaster) in &mut self.apart {
            let sent = of.get(name.as_str()).copied().unwrap_or(0.0);
            forecaster.observe(reading.map(|_| sent));
            rest = rest.map(|rest| (rest - sent).max(0.0));
        }
        if let Some(forecaster) = &mut self.rest {
            forecaster.observe(rest);
        }
        self.since += 1;
        if self.since >= self.day {
            self.since = 0;
            self.choose();
        }
        let said = self.said();
        self.whole.observe_beside(reading, &said);
    }

    pub fn forecasts(&self) -> Vec<Forecast> {
        self.whole.forecasts()
    }

    fn keep(&mut self, reading: Option<f64>, of: &BTreeMap<&str, f64>) {
        for name in of.keys() {
            if self.readings.len() < KNOWN && !self.readings.contains_key(*name) {
                // Before, it had sent nothing.
                let none = self.all.iter().map(|all| all.map(|_| 0.0));
                self.readings.insert((*name).to_owned(), none.collect());
            }
        }
        push(&mut self.all, reading);
        for (name, readings) in &mut self.readings {
            let sent = of.get(name.as_str()).copied().unwrap_or(0.0);
            push(readings, reading.map(|_| sent));
        }
    }

    /// What clients one by one and the rest come to, at each horizon; nothing before a day is over.
    fn said(&self) -> Vec<f64> {
        let Some(rest) = &self.rest else {
            return Vec::new();
        };
        let mut sums: Vec<f64> = rest.forecasts().iter().map(|one| one.point).collect();
        for forecaster in self.apart.values() {
            for (sum, one) in sums.iter_mut().zip(forecaster.forecasts()) {
                *sum += one.point;
            }
        }
        sums
    }

    /// Chooses who is forecast apart by what each sent in the last day; who is new has learned of what is kept.
    fn choose(&mut self) {
        let day = self.day;
        let sent = |readings: &VecDeque<Option<f64>>| -> f64 {
            readings.iter().rev().take(day).flatten().sum()
        };
        let mut ranked: Vec<(f64, String)> = (self.readings.iter())
            .map(|(name, readings)| {
                let stays = if self.apart.contains_key(name) {
                    LARGER
                } else {
                    1.0
                };
                (sent(readings) * stays, name.clone())
            })
            .filter(|(sent, _)| *sent > 0.0)
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        // Who is small makes room for who may come.
        for (_, name) in ranked.split_off(ranked.len().min(KNOWN / 2)) {
            self.readings.remove(&name);
        }
        self.readings.retain(|_, readings| sent(readings) > 0.0);
        let chosen: Vec<String> = ranked
            .into_iter()
            .take(APART)
            .map(|(_, name)| name)
            .collect();
        if chosen.is_empty() {
            (self.apart, self.rest) = (BTreeMap::new(), None);
            return;
        }
        let same = chosen.len() == self.apart.len()
            && chosen.iter().all(|name| self.apart.contains_key(name));
        if same && self.rest.is_some() {
            return;
        }
        let settings = self.whole.settings().clone();
        let learned = |readings: &mut dyn Iterator<Item = Option<f64>>| {
            let mut forecaster = Forecaster::new(settings.clone());
            readings.for_each(|reading| forecaster.observe(reading));
            forecaster
        };
        let mut apart = BTreeMap::new();
        let mut rest: Vec<Option<f64>> = self.all.iter().copied().collect();
        for name in chosen {
            let Some(readings) = self.readings.get(&name) else {
                continue;
            };
            for (rest, sent) in rest.iter_mut().zip(readings) {
                *rest = rest.zip(*sent).map(|(rest, sent)| (rest - sent).max(0.0));
            }
            let known = self.apart.remove(&name);
            let forecaster = known.unwrap_or_else(|| learned(&mut readings.iter().copied()));
            apart.insert(name, forecaster);
        }
        self.rest = Some(learned(&mut rest.into_iter()));
        self.apart = apart;
    }
}

fn push(readings: &mut VecDeque<Option<f64>>, reading: Option<f64>) {
    readings.push_back(reading);
    if readings.len() > KEPT {
        readings.pop_front();
    }
}
