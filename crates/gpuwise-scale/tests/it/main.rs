//! Forecasts and controllers: each hard case of what demand, replicas and metrics do, and what is promised of them.

mod arbitrate;
mod cold;
mod controller;
mod cover;
mod engines;
mod extremes;
mod forecasts;
mod machines;
mod peers;
mod pools;
mod series;
mod step;
mod variants;
