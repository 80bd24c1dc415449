//! Controllers beside one another on one service: for each the cheapest target that keeps the objective.

use crate::{
    controller::variants::Single,
    controller::{Controller, Gpuwise, Rules},
    fluid::{Demand, Outcome, Service, run},
    peers::{Dynamo, Foreseeing, Hpa, Kpa, Metric, Static, Trend, Wva},
    step::{self, Fleet, Form, Lengths, StepOutcome, Tenant},
    variant::{Price, Variant},
};
use gpuwise_domain::scale::ScaleSample;
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    Static,
    Hpa,
    /// The same by requests that run or wait.
    #[serde(rename = "hpa-concurrency")]
    HpaConcurrency,
    Keda,
    Kpa,
    Dynamo,
    Wva,
    Trend,
    Gpuwise,
    Perfect,
}

/// All of them, in the order in which they are shown.
pub const POLICIES: [Policy; 10] = [
    Policy::Static,
    Policy::Hpa,
    Policy::HpaConcurrency,
    Policy::Keda,
    Policy::Kpa,
    Policy::Dynamo,
    Policy::Wva,
    Policy::Trend,
    Policy::Gpuwise,
    Policy::Perfect,
];

/// Shares of a replica's rate that are tried as targets.
const TARGETS: [f64; 16] = [
    0.95, 0.90, 0.85, 0.80, 0.75, 0.70, 0.65, 0.60, 0.55, 0.50, 0.45, 0.40, 0.35, 0.30, 0.25, 0.20,
];

impl Policy {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Hpa => "hpa",
            Self::HpaConcurrency => "hpa-concurrency",
            Self::Keda => "keda",
            Self::Kpa => "kpa",
            Self::Dynamo => "dynamo",
            Self::Wva => "wva",
            Self::Trend => "trend",
            Self::Gpuwise => "gpuwise",
            Self::Perfect => "perfect",
        }
    }

    /// Targets that are tried, from the highest. Static replicas may be fewer than the highest rate needs.
    fn targets(self) -> impl Iterator<Item = f64> {
        let beyond: &[f64] = if self == Self::Static {
            &[4.0, 3.0, 2.5, 2.0, 1.75, 1.5, 1.25, 1.1, 1.0]
        } else {
            &[]
        };
        beyond.iter().chain(&TARGETS).copied()
    }

    /// Whether it is told a target that its users sweep; ours is told the objective.
    const fn has_target(self) -> bool {
        !matches!(self, Self::Gpuwise | Self::Wva)
    }

    /// The controller, aiming at a share of what a replica serves.
    pub fn controller(
        self,
        demand: &Demand,
        service: &Service,
        objective: f64,
        target: f64,
    ) -> Box<dyn Controller> {
        let rate = service.rate * target;
        let runs = rate * service.service;
        let start = seconds(service.start);
        match self {
            Self::Static => {
                let highest = demand.rates.iter().copied().fold(0.0, f64::max);
                Box::new(Static((highest / rate).ceil().max(1.0) as u32))
            }
            Self::Hpa => Box::new(Hpa::new(Metric::Rate, rate)),
            Self::HpaConcurrency => Box::new(Hpa::new(Metric::Concurrency, runs)),
            Self::Keda => Box::new(Hpa::keda(Metric::Rate, rate)),
            Self::Kpa => Box::new(Kpa::new(runs)),
            Self::Dynamo => Box::new(Dynamo::new(rate, service.wait)),
            Self::Wva => Box::new(Wva::new(service.rate * service.service)),
            Self::Trend => Box::new(Trend::new(rate, start)),
            Self::Gpuwise => Box::new(Gpuwise::new(rules(service, objective))),
            Self::Perfect => Box::new(Foreseeing::new(demand.clone(), rate, start)),
        }
    }
}

fn seconds(seconds: f64) -> Nanoseconds {
    Nanoseconds((seconds * 1e9) as u64)
}

/// What our controller is told of a service.
pub fn rules(service: &Service, objective: f64) -> Rules {
    Rules {
        rate: service.rate,
        objective,
        wait: seconds(service.wait),
        start: seconds(service.start),
        wake: seconds(service.wake),
        warm_cost: service.warm_cost,
        min: service.min,
        idle: seconds(service.idle),
        ..Rules::default()
    }
}

/// What a policy came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// The share of a replica's rate that it aimed at.
    pub target: Option<f64>,
    pub outcome: Outcome,
}

/// The cheapest that keeps so large a share of requests in time, or where no target does, what keeps most.
pub fn compare(
    policy: Policy,
    demand: &Demand,
    service: &Service,
    kept: f64,
    seed: u64,
) -> Compared {
    let at = |target: f64| {
        let mut controller = policy.controller(demand, service, kept, target);
        run(demand, service, &mut *controller, seed, |_, _| {})
    };
    let mut best = Compared {
        target: None,
        outcome: at(1.0),
    };
    if !policy.has_target() {
        return best;
    }
    let (mut kept_by, targets) = (0, policy.targets());
    for target in targets {
        let one = Compared {
            target: Some(target),
            outcome: at(target),
        };
        let (was, is) = (best.outcome, one.outcome);
        let better = if is.kept() >= kept {
            was.kept() < kept || is.cost < was.cost
        } else {
            is.kept() > was.kept()
        };
        if better {
            best = one;
        }
        // A lower target has more replicas: once two in a row keep the objective, cheaper ones do not follow.
        kept_by = if is.kept() >= kept { kept_by + 1 } else { 0 };
        if kept_by == 2 {
            break;
        }
    }
    best
}

/// The same where each request is run by itself: with the cheapest target that keeps the objective then, which need not
/// be that of the flow.
pub fn compare_by_request(
    policy: Policy,
    demand: &Demand,
    service: &Service,
    kept: f64,
    seed: u64,
) -> (Option<f64>, StepOutcome) {
    let at = |target: f64| {
        let controller = policy.controller(demand, service, kept, target);
        by_request(demand, service, controller, seed)
    };
    if !policy.has_target() {
        return (None, at(1.0));
    }
    let flow = compare(policy, demand, service, kept, seed);
    let from = flow.target.unwrap_or(1.0);
    let (above, below): (Vec<f64>, Vec<f64>) = policy.targets().partition(|one| *one > from);
    let mut best = (flow.target, at(from));
    if best.1.kept() >= kept {
        // Higher targets have fewer replicas.
        for target in above.into_iter().rev() {
            let out = at(target);
            if out.kept() < kept {
                break;
            }
            if out.cost <= best.1.cost {
                best = (Some(target), out);
            }
        }
        return best;
    }
    for target in below.into_iter().filter(|one| *one < from) {
        let out = at(target);
        if out.kept() > best.1.kept() {
            best = (Some(target), out);
        }
        if best.1.kept() >= kept {
            break;
        }
    }
    best
}

/// The same service with its requests one by one, at a price of 1 an hour.
pub fn by_request(
    demand: &Demand,
    service: &Service,
    controller: Box<dyn Controller>,
    seed: u64,
) -> StepOutcome {
    let variant = Variant {
        name: "replica".into(),
        pool: "gpu".into(),
        gpus: 1,
        rate: service.rate,
        service: service.service,
        prices: vec![Price {
            from: Nanoseconds(0),
            per_hour: 1.0,
        }],
        start: seconds(service.start),
        wake: seconds(service.wake),
        warm_cost: service.warm_cost,
        spot: None,
    };
    let tenant = Tenant {
        name: String::new(),
        demand: demand.clone(),
        variants: vec![variant],
        controller: Box::new(Single(controller)),
        wait: service.wait,
        // Nobody shares anything here.
        objective: 1.0,
        dispersion: service.dispersion,
        guaranteed: Vec::new(),
        budget: None,
        engines: None,
    };
    let fleet = Fleet {
        gpus: Vec::new(),
        form: Form::Requests(Lengths::Exponential),
        seed,
    };
    let out = step::run(&fleet, &mut [tenant], |_| {});
    out.into_iter().next().unwrap_or_default()
}

/// The same run once more, with what was there each period of the demand.
pub fn sampled(
    policy: Policy,
    demand: &Demand,
    service: &Service,
    objective: f64,
    best: &Compared,
    seed: u64,
) -> Vec<ScaleSample> {
    let mut controller = policy.controller(demand, service, objective, best.target.unwrap_or(1.0));
    let mut samples = Vec::new();
    run(
        demand,
        service,
        &mut *controller,
        seed,
        |asked, decision| {
            let now = asked.now.seconds().get();
            if now >= samples.len() as f64 * demand.period {
                samples.push(ScaleSample {
                    at: asked.now,
                    rate: demand.at(now),
                    serving: decision.wanted.replicas,
                    warm: decision.wanted.warm,
                });
            }
        },
    );
    samples
}
