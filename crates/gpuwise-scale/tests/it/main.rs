//! Forecasts: each hard case of what series do, and what is promised of ranges.

mod forecasts;
mod series;
