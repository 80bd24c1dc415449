//! Whether more came than was served: lines through what is in flight and what requests wait.

use super::timeline::Timeline;
use gpuwise_domain::run::{Saturation, Slope};

/// Points that a line is laid through, and at least.
const POINTS: usize = 24;
const FEWEST: usize = 8;

/// Signs of saturation between two times; `None` where it is too short to tell.
pub(super) fn signs(timeline: &Timeline, from: u64, to: u64) -> Option<Saturation> {
    let points = timeline.trend(from, to, POINTS);
    if points.len() < FEWEST {
        return None;
    }
    let times: Vec<f64> = points.iter().map(|(time, ..)| time / 1e9).collect();
    let concurrent: Vec<f64> = points
        .iter()
        .map(|(_, concurrent, _)| *concurrent)
        .collect();
    let ttft: Vec<f64> = points.iter().map(|(.., wait)| wait / 1e9).collect();
    let span = (to - from) as f64 / 1e9;
    let (flight, flight_mean) = slope(&times, &concurrent)?;
    let (wait, wait_mean) = slope(&times, &ttft)?;
    // A queue that grows from nothing rises by twice its mean over the window; one that only swings
    // rises by far less.
    let grows = |slope: &Slope, mean: f64| slope.rises() && slope.per_second * span > mean * 0.5;
    Some(Saturation {
        saturated: grows(&flight, flight_mean) && grows(&wait, wait_mean),
        concurrent: flight,
        ttft: wait,
    })
}

/// The line of least squares with the 95 % interval of its slope, widened where neighbours are alike,
/// and the mean of the values.
fn slope(times: &[f64], values: &[f64]) -> Option<(Slope, f64)> {
    let count = times.len() as f64;
    let mean = |list: &[f64]| list.iter().sum::<f64>() / count;
    let (time, value) = (mean(times), mean(values));
    let spread: f64 = times.iter().map(|t| (t - time) * (t - time)).sum();
    let together: f64 = times
        .iter()
        .zip(values)
        .map(|(t, v)| (t - time) * (v - value))
        .sum();
    if spread <= 0.0 || count < 3.0 {
        return None;
    }
    let per_second = together / spread;
    let rest: Vec<f64> = times
        .iter()
        .zip(values)
        .map(|(t, v)| v - value - per_second * (t - time))
        .collect();
    let squares: f64 = rest.iter().map(|r| r * r).sum();
    let neighbours: f64 = rest
        .iter()
        .zip(rest.iter().skip(1))
        .map(|(a, b)| a * b)
        .sum();
    let alike = if squares > 0.0 {
        (neighbours / squares).clamp(0.0, 0.9)
    } else {
        0.0
    };
    let freedom = count - 2.0;
    let error = libm::sqrt(squares / freedom / spread * (1.0 + alike) / (1.0 - alike));
    // Student's t at 97.5 %, within 2 % from six degrees of freedom up.
    let wide = 1.96 + 2.37 / freedom + 2.8 / (freedom * freedom);
    let slope = Slope {
        per_second,
        low: per_second - wide * error,
        high: per_second + wide * error,
    };
    Some((slope, value))
}
