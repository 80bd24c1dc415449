//! A straight line through the last ten minutes, or what is there now where that is more: the usual predictive
//! autoscaler.

use crate::controller::{Controller, Decision, Observed};
use gpuwise_units::Nanoseconds;
use std::collections::VecDeque;

const PERIOD: Nanoseconds = Nanoseconds(15_000_000_000);
const SAMPLES: usize = 40;
const LATELY: usize = 4;
/// Fewer must have been enough for so many periods.
const HOLD: usize = 20;

#[derive(Debug, Clone)]
pub struct Trend {
    /// Requests a second of a replica that are aimed at.
    target: f64,
    start: Nanoseconds,
    rates: VecDeque<f64>,
    wanted: VecDeque<u32>,
}

impl Trend {
    pub const fn new(target: f64, start: Nanoseconds) -> Self {
        Self {
            target,
            start,
            rates: VecDeque::new(),
            wanted: VecDeque::new(),
        }
    }

    /// The line by least squares, so many periods ahead.
    fn ahead(&self, periods: f64) -> f64 {
        let count = self.rates.len() as f64;
        let (middle, mean) = ((count - 1.0) / 2.0, self.rates.iter().sum::<f64>() / count);
        let points = self.rates.iter().enumerate();
        let (products, squares) = points.fold((0.0, 0.0), |(products, squares), (at, rate)| {
            let off = at as f64 - middle;
            (products + off * (rate - mean), squares + off * off)
        });
        let slope = if squares > 0.0 {
            products / squares
        } else {
            0.0
        };
        mean + slope * (count - 1.0 - middle + periods)
    }
}

fn keep<T>(list: &mut VecDeque<T>, one: T, most: usize) {
    list.push_back(one);
    if list.len() > most {
        list.pop_front();
    }
}

impl Controller for Trend {
    fn period(&self) -> Nanoseconds {
        PERIOD
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        let Some(arrived) = seen.arrived else {
            return Decision::replicas(seen.ready + seen.starting);
        };
        keep(&mut self.rates, arrived / PERIOD.seconds().get(), SAMPLES);
        let count = self.rates.len().min(LATELY);
        let now = self.rates.iter().rev().take(count).sum::<f64>() / count as f64;
        let then = self.ahead(self.start.0 as f64 / PERIOD.0 as f64);
        let needs = (now.max(then) / self.target - 1e-9).ceil().max(1.0) as u32;
        keep(&mut self.wanted, needs, HOLD);
        Decision::replicas(self.wanted.iter().copied().max().unwrap_or(needs))
    }
}
