//! Replicas that follow demand. Data only.

use alloc::{string::String, vec::Vec};
use gpuwise_units::{HourlyPrice, Money, Nanoseconds};

/// Controllers along series of demand, beside one another.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleReplay {
    /// Where demand is from.
    pub source: String,
    pub service: ScaleService,
    pub seed: u64,
    /// Whether requests were run one by one, and not as a flow.
    pub by_request: bool,
    pub runs: Vec<ScaleRun>,
    /// Services on variants, each alone and all of them beside one another.
    pub mixes: Vec<ScaleMix>,
    /// What was set right in the demand, in words.
    pub notes: Vec<String>,
}

/// A replica of the service, and what starting one takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleService {
    /// Requests a second that it serves within the SLO.
    pub rate: f64,
    /// Seconds that a request runs, and that one may wait.
    pub service: f64,
    pub wait: f64,
    /// Seconds from warm until it serves.
    pub wake: f64,
    /// What a warm one costs beside one that serves; `None`: none can be.
    pub warm_cost: Option<f64>,
    /// Variance of arrivals over their mean.
    pub dispersion: f64,
    /// Replicas of ours that serve at least; 0: none once nothing has come for so many seconds.
    pub min: u32,
    pub idle: f64,
}

/// A controller on a series.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleRun {
    pub series: String,
    pub policy: &'static str,
    /// From nothing until a replica serves.
    pub start: Nanoseconds,
    /// Share of requests that are to be in time, and that were.
    pub objective: f64,
    pub kept: f64,
    /// The share of a replica's rate that it aimed at: the cheapest that keeps the objective.
    pub target: Option<f64>,
    pub requests: f64,
    /// Replica-hours that served or started, that were warm, and that those would have been who follow the rate
    /// exactly.
    pub serving_hours: f64,
    pub warm_hours: f64,
    pub bound_hours: f64,
    /// Replica-hours, the warm ones at their cost, over the bound.
    pub ratio: f64,
    /// Times that the number of replicas was changed.
    pub changes: u32,
    /// What was there, every reading.
    pub samples: Vec<ScaleSample>,
}

/// What was there at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleSample {
    pub at: Nanoseconds,
    /// Requests a second.
    pub rate: f64,
    pub serving: u32,
    pub warm: u32,
}

impl ScaleRun {
    /// Whether as many requests were in time as are to be.
    pub fn keeps(&self) -> bool {
        self.kept >= self.objective
    }
}

/// How a deployment is to be scaled, and what that saves.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalePlan {
    pub model: String,
    pub gpu: String,
    /// GPUs of a replica, and what it costs an hour.
    pub gpus: u32,
    pub per_hour: Option<HourlyPrice>,
    pub source: String,
    pub series: String,
    pub objective: f64,
    pub service: ScaleService,
    pub start: Nanoseconds,
    /// Whether the start was stated, and not found from bytes and published stages.
    pub start_stated: bool,
    /// How long it takes from each state: at the median, at p90 and at p99.
    pub states: Vec<ColdState>,
    /// Replicas that serve: the fewest, the most, and the requests a second of one that ours comes to in the mean.
    pub least: u32,
    pub most: u32,
    pub target: Option<f64>,
    /// Warm replicas: the median and the most.
    pub warm: u32,
    pub warm_most: u32,
    /// Hours of the day.
    pub hours: Vec<ScaleHour>,
    /// Static, the usual autoscaler, ours, and the bound.
    pub costs: Vec<ScaleCost>,
    /// The deployments that may stand beside one another, this one first; none where it stands alone.
    pub variants: Vec<ScaleVariant>,
    /// What the cheapest mix of them costs in 30 days.
    pub mixed_per_month: Option<Money>,
    /// Each of them alone under our controller, and all of them beside one another.
    pub mixes: Vec<ScaleMix>,
    pub samples: Vec<ScaleSample>,
    pub notes: Vec<String>,
}

/// A deployment that may serve beside others.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleVariant {
    pub gpu: String,
    pub gpus: u32,
    /// Requests a second of a replica, and what it costs an hour.
    pub rate: f64,
    pub per_hour: HourlyPrice,
    /// What 30 days cost where it serves alone, and how many there are of it in the mix, in the mean.
    pub alone_per_month: Money,
    pub mixed: f64,
}

/// How long a replica takes until it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColdState {
    pub state: &'static str,
    /// Starts that were seen.
    pub seen: u64,
    pub median: Nanoseconds,
    pub p90: Nanoseconds,
    pub p99: Nanoseconds,
    /// What it costs to be in it; `None`: no price is known.
    pub held_per_hour: Option<HourlyPrice>,
}

/// An hour of the day, over the days of the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleHour {
    pub hour: u8,
    /// Requests a second in the mean.
    pub rate: f64,
    /// Replicas that serve, in the mean and at most, and warm ones in the mean.
    pub serving: f64,
    pub serving_most: u32,
    pub warm: f64,
}

/// What one way of scaling comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleCost {
    pub policy: &'static str,
    pub kept: f64,
    pub keeps: bool,
    /// Replicas in the mean, warm ones at their cost.
    pub replicas: f64,
    pub ratio: f64,
    pub changes: u32,
    /// For 30 days at the price of a replica.
    pub per_month: Option<Money>,
}

/// A service under our controller, on one variant or on several.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleMix {
    pub series: String,
    /// `mix`, or the variant that it has to itself.
    pub name: String,
    pub objective: f64,
    pub kept: f64,
    /// For 30 days, and over the least that its requests cost on parts of replicas.
    pub per_month: Money,
    pub ratio: f64,
    /// What it costs over the cheapest variant alone that keeps the objective; `None`: none does.
    pub of_single: Option<f64>,
    pub changes: u32,
    /// Replicas that were taken away, requests that began anew, starts for which there were no GPUs.
    pub interrupted: u32,
    pub restarted: f64,
    pub refused: u32,
    pub variants: Vec<ScaleMixPart>,
    /// How often each reason was given.
    pub reasons: Vec<ScaleReason>,
    /// What it got of pools that other services ask as well, by the rule; none: it has them to itself.
    pub grants: Vec<ScaleGrant>,
    /// What was there, every reading.
    pub samples: Vec<ScaleMixSample>,
}

/// What a service on variants had at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleMixSample {
    pub at: Nanoseconds,
    /// Requests a second that came.
    pub rate: f64,
    /// Replicas of each variant that served.
    pub serving: Vec<u32>,
    /// What was wanted cost so much an hour.
    pub per_hour: f64,
}

/// GPUs of a pool that a service got by a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleGrant {
    pub pool: String,
    /// The rule by which it got the last of them.
    pub by: String,
    pub decisions: u32,
    /// GPUs in the mean: that it asked for, and that it got.
    pub asked: f64,
    pub got: f64,
}

impl ScaleMix {
    /// Whether as many requests were in time as are to be.
    pub fn keeps(&self) -> bool {
        self.kept >= self.objective
    }
}

/// What a service had of a variant.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleMixPart {
    pub variant: String,
    pub pool: String,
    /// What a replica costs an hour, at first.
    pub per_hour: HourlyPrice,
    pub rate: f64,
    /// Replicas in the mean: that served, started or drained, and that were warm.
    pub serving: f64,
    pub warm: f64,
    pub starts: u32,
    pub per_month: Money,
}

/// A reason, and how often it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleReason {
    pub reason: String,
    pub decisions: u32,
}

/// What replicas of services may be, and the machines that they share: a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScaleFleet {
    pub variants: Vec<ScaleOffer>,
    /// GPUs of pools; one that is not listed has as many as are asked for.
    pub pools: Vec<(String, u32)>,
    /// Services that share them; none: each series is run by itself.
    pub services: Vec<ScaleTenant>,
    /// The most that a service may cost an hour.
    pub per_hour: Option<HourlyPrice>,
    /// Machines of pools, one by one, and how they are lost.
    pub machines: Vec<ScaleMachines>,
    pub losses: Vec<ScaleLoss>,
}

/// Machines of a pool that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleMachines {
    pub pool: String,
    pub nodes: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// How many stand in a rack; `None`: nothing is said of racks.
    pub rack: Option<u32>,
}

/// How machines are lost.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleLoss {
    pub of: ScaleLossOf,
    /// Of this pool alone; `None`: of each.
    pub pool: Option<String>,
    pub when: ScaleLossWhen,
    /// Between being told and being gone, and from then until they are back.
    pub notice: Nanoseconds,
    pub outage: Nanoseconds,
}

/// What is lost together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleLossOf {
    Node,
    Rack,
    Pool,
}

/// When each of them is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScaleLossWhen {
    /// By chance, so often a day in the mean.
    ADay(f64),
    /// Once, so long after the beginning.
    At(Nanoseconds),
}

/// A kind of replica. What it does not say is that of its deployment, its offer, or the command.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleOffer {
    pub name: String,
    pub pool: Option<String>,
    /// A saved deployment, of which it is a replica.
    pub deployment: Option<String>,
    /// A row of the price list: provider, instance and region.
    pub offer: Option<String>,
    pub gpus: Option<u32>,
    pub rate: Option<f64>,
    pub service: Option<f64>,
    pub price: Option<HourlyPrice>,
    /// Other prices, from when on.
    pub later: Vec<(Nanoseconds, HourlyPrice)>,
    pub start: Option<Nanoseconds>,
    pub wake: Option<Nanoseconds>,
    /// `Some(None)`: it cannot be warm.
    pub warm_cost: Option<Option<f64>>,
    pub spot: Option<ScaleSpot>,
}

/// How machines of a spot pool are taken away.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleSpot {
    pub notice: Nanoseconds,
    /// The share of the pool's machines that goes at once.
    pub together: f64,
    pub a_day: f64,
    /// For how long none can be had afterwards.
    pub outage: Nanoseconds,
}

/// A service that shares a fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleTenant {
    pub name: String,
    /// The series of its demand; its name where it says none.
    pub series: Option<String>,
    pub objective: Option<f64>,
    /// GPUs of pools that are its own where it asks for them.
    pub guaranteed: Vec<(String, u32)>,
    /// What it may cost in all.
    pub budget: Option<Money>,
    /// Requests a second in the mean to which its demand is scaled.
    pub mean: Option<f64>,
}
