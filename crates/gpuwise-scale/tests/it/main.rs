//! Forecasts and controllers: each hard case of what demand, replicas and metrics do, and what is promised of them.

mod cold;
mod controller;
mod forecasts;
mod mix;
mod peers;
mod series;
