//! How fast classes of jobs are on kinds of GPU, alone and side by side.

use std::collections::BTreeMap;

/// A speed alone: kind of GPU, program, GPUs, steps per second.
pub type SoloSpeed = (String, String, u32, f64);
/// Speeds side by side: kind of GPU, first and second program, GPUs, steps per second of each.
pub type PairSpeed = (String, String, String, u32, (f64, f64));
/// The class of each program and number of GPUs.
pub type Classes = BTreeMap<(String, u32), usize>;

/// Jobs that are alike: one program on so many GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    pub name: String,
    pub gpus: u32,
}

/// Steps per second of classes on kinds of GPU; 0 where a class does not run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Speeds {
    kinds: usize,
    classes: Vec<Class>,
    alone: Vec<f64>,
    /// For each class and kind those who can be beside it, by class.
    beside: Vec<Vec<(usize, (f64, f64))>>,
}

impl Speeds {
    /// No classes yet, for so many kinds of GPU.
    pub fn new(kinds: usize) -> Self {
        Self {
            kinds,
            ..Self::default()
        }
    }

    /// What was measured, as tables, for these kinds of GPU; others are passed over.
    pub fn measured(
        kinds: &[String],
        alone: &[SoloSpeed],
        beside: &[PairSpeed],
    ) -> (Self, Classes) {
        let kind_of = |name: &String| kinds.iter().position(|kind| kind == name);
        let mut rows: BTreeMap<(String, u32), Vec<f64>> = BTreeMap::new();
        for (kind, program, gpus, speed) in alone {
            if let Some(kind) = kind_of(kind) {
                let row = rows.entry((program.clone(), *gpus));
                row.or_insert_with(|| vec![0.0; kinds.len()])[kind] = *speed;
            }
        }
        let mut speeds = Self::new(kinds.len());
        let mut classes = Classes::new();
        for ((name, gpus), row) in rows {
            let class = Class {
                name: name.clone(),
                gpus,
            };
            classes.insert((name, gpus), speeds.add(class, &row));
        }
        for (kind, one, other, gpus, both) in beside {
            let class = |program: &String| classes.get(&(program.clone(), *gpus)).copied();
            if let (Some(kind), Some(one), Some(other)) = (kind_of(kind), class(one), class(other))
            {
                speeds.pair(kind, one, other, *both);
            }
        }
        (speeds, classes)
    }

    /// Adds a class with its speed on each kind and gives its place. Speeds that are no positive number
    /// count as 0, missing ones too.
    pub fn add(&mut self, class: Class, alone: &[f64]) -> usize {
        self.classes.push(class);
        let speeds = alone.iter().map(|speed| sound(*speed));
        let filled = speeds.chain(std::iter::repeat(0.0)).take(self.kinds);
        self.alone.extend(filled);
        self.beside.resize(self.alone.len(), Vec::new());
        self.classes.len() - 1
    }

    /// What two classes reach side by side on the GPUs of one job, on one kind. Told in one order, it
    /// holds in the other.
    pub fn pair(&mut self, kind: usize, first: usize, second: usize, speeds: (f64, f64)) {
        let (one, two) = (sound(speeds.0), sound(speeds.1));
        if one > 0.0 && two > 0.0 {
            self.put(kind, first, second, (one, two), true);
            self.put(kind, second, first, (two, one), false);
        }
    }

    fn put(&mut self, kind: usize, first: usize, second: usize, both: (f64, f64), told: bool) {
        let Some(row) = self.beside.get_mut(first * self.kinds + kind) else {
            return;
        };
        match row.binary_search_by_key(&second, |(partner, _)| *partner) {
            Ok(at) if told => row[at].1 = both,
            Ok(_) => {}
            Err(at) => row.insert(at, (second, both)),
        }
    }

    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// How many kinds of GPU.
    pub const fn kinds(&self) -> usize {
        self.kinds
    }

    /// GPUs of a job of a class; at least 1.
    pub fn gpus(&self, class: usize) -> u32 {
        self.classes.get(class).map_or(1, |class| class.gpus.max(1))
    }

    /// Steps per second of a job alone on its GPUs.
    pub fn alone(&self, class: usize, kind: usize) -> f64 {
        let at = class * self.kinds + kind;
        self.alone.get(at).copied().unwrap_or(0.0)
    }

    pub fn row(&self, class: usize) -> &[f64] {
        let from = class * self.kinds;
        self.alone.get(from..from + self.kinds).unwrap_or(&[])
    }

    /// Steps per second of both side by side; `None`: they do not fit, or nobody has measured it.
    pub fn beside(&self, kind: usize, first: usize, second: usize) -> Option<(f64, f64)> {
        let row = self.partners(kind, first);
        let at = row
            .binary_search_by_key(&second, |(partner, _)| *partner)
            .ok()?;
        row.get(at).map(|(_, both)| *both)
    }

    /// Those who can be beside a class on a kind, and the speeds of both.
    pub fn partners(&self, kind: usize, class: usize) -> &[(usize, (f64, f64))] {
        let row = self.beside.get(class * self.kinds + kind);
        row.map_or(&[], Vec::as_slice)
    }

    /// How much more GPUs do with both than with one alone: the sum of both speeds, each as a part of
    /// its speed alone. `None`: they cannot share.
    pub fn gain(&self, kind: usize, first: usize, second: usize) -> Option<f64> {
        let (one, two) = self.beside(kind, first, second)?;
        let (alone, other) = (self.alone(first, kind), self.alone(second, kind));
        (alone > 0.0 && other > 0.0).then(|| one / alone + two / other)
    }

    /// The best speed on any kind.
    pub fn best(&self, class: usize) -> f64 {
        self.row(class).iter().copied().fold(0.0, f64::max)
    }

    /// The speed on a GPU drawn from a supply.
    pub fn mean(&self, class: usize, supply: &[u32]) -> f64 {
        let total: f64 = supply.iter().map(|count| f64::from(*count)).sum();
        let sum: f64 = self
            .row(class)
            .iter()
            .zip(supply)
            .map(|(speed, count)| speed * f64::from(*count))
            .sum();
        if total > 0.0 { sum / total } else { 0.0 }
    }
}

fn sound(speed: f64) -> f64 {
    if speed.is_finite() && speed > 0.0 {
        speed
    } else {
        0.0
    }
}
