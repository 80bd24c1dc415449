//! Services on variants under our controller: each alone, and all of them beside one another.

use super::{decisions::Log, engines::Built};
use crate::progress;
use gpuwise_domain::scale::{
    ScaleGrant, ScaleLoss, ScaleMachines, ScaleMix, ScaleMixPart, ScaleMixSample, ScaleReason,
};
use gpuwise_scale::{
    arbitrate::GrantedBy,
    controller::Rules,
    controller::variants::{MixDecision, MixRules, Mixed},
    fluid::{Demand, Service},
    step::{Fleet, Form, Machines, Shared, StepOutcome, Tenant, Told, run_on},
    variant::Variant,
};
use gpuwise_sim::fleet::KernelMachines;
use gpuwise_units::{Currency, HourlyPrice, Money, Nanoseconds};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds of the 30 days that a cost is said for.
const MONTH: f64 = 30.0 * 86_400.0;
const HOUR: f64 = 3600.0;

/// What is run: variants on a fleet, and what a service is to keep.
pub(super) struct Asked<'a> {
    pub(super) variants: &'a [Variant],
    pub(super) gpus: &'a [(String, u32)],
    /// The most that it may cost an hour.
    pub(super) per_hour: Option<f64>,
    pub(super) currency: Currency,
    pub(super) form: Form,
    /// Replicas as engines.
    pub(super) engines: Option<&'a Built>,
    /// Machines that replicas stand on, and how they are lost.
    pub(super) machines: (&'a [ScaleMachines], &'a [ScaleLoss]),
    pub(super) seed: u64,
}

/// A service: its series, its demand, and what it is to keep.
pub(super) struct Asking<'a> {
    pub(super) name: &'a str,
    pub(super) demand: &'a Demand,
    pub(super) service: &'a Service,
    pub(super) objective: f64,
    pub(super) guaranteed: Vec<(String, u32)>,
    pub(super) budget: Option<f64>,
}

fn seconds(seconds: f64) -> Nanoseconds {
    Nanoseconds((seconds * 1e9) as u64)
}

impl Asked<'_> {
    /// Seconds that a request may wait.
    fn wait(&self, asking: &Asking<'_>) -> f64 {
        let engines = self.engines.map(|engines| engines.wait);
        engines.unwrap_or(asking.service.wait)
    }

    fn rules(&self, asking: &Asking<'_>, variants: &[Variant]) -> MixRules {
        let rules = Rules {
            objective: asking.objective,
            wait: seconds(self.wait(asking)),
            min: asking.service.min,
            idle: seconds(asking.service.idle),
            tokens: self.engines.and_then(|engines| engines.tokens),
            ..Rules::default()
        };
        MixRules {
            per_hour: self.per_hour,
            ..MixRules::new(rules, variants.to_vec())
        }
    }

    fn tenant(&self, asking: &Asking<'_>, variants: &[Variant]) -> Tenant {
        Tenant {
            name: asking.name.to_owned(),
            demand: asking.demand.clone(),
            variants: variants.to_vec(),
            controller: Box::new(Mixed::new(self.rules(asking, variants))),
            wait: self.wait(asking),
            objective: asking.objective,
            dispersion: asking.service.dispersion,
            guaranteed: asking.guaranteed.clone(),
            budget: asking.budget,
            engines: self.engines.map(|engines| engines.of(variants)),
        }
    }

    /// Services on the same fleet, each with these variants.
    fn run(
        &self,
        name: &str,
        asking: &[Asking<'_>],
        variants: &[Variant],
        log: &mut Log,
    ) -> Vec<ScaleMix> {
        log.begin();
        let fleet = Fleet {
            gpus: self.gpus.to_vec(),
            form: self.form,
            seed: self.seed,
        };
        let rules = asking.iter().map(|one| self.rules(one, variants));
        let rules: Vec<MixRules> = rules.collect();
        let mut tenants: Vec<Tenant> = asking
            .iter()
            .map(|one| self.tenant(one, variants))
            .collect();
        let mut said = vec![Said::default(); asking.len()];
        let (machines, losses) = self.machines;
        // They were made once when the file was read, and are the same every time.
        let mut machines = (!machines.is_empty())
            .then(|| KernelMachines::new(machines, losses, self.seed).ok())
            .flatten();
        let machines = machines.as_mut().map(|one| one as &mut dyn Machines);
        let out = run_on(&fleet, machines, &mut tenants, |told| {
            if let Some(said) = said.get_mut(told.tenant) {
                said.take(told.decision, told.shares);
                if let Some(of) = asking.get(told.tenant) {
                    said.sample(told, of.demand);
                }
            }
            if let (Some(rules), Some(of)) = (rules.get(told.tenant), asking.get(told.tenant)) {
                log.write(of.name, rules, told);
            }
        });
        let each = out.iter().zip(asking).zip(said);
        each.map(|((out, asking), said)| self.row(name, asking, variants, out, said))
            .collect()
    }

    fn row(
        &self,
        name: &str,
        asking: &Asking<'_>,
        variants: &[Variant],
        out: &StepOutcome,
        said: Said,
    ) -> ScaleMix {
        let length = asking.demand.length();
        let money = |amount: f64| Money {
            micros: (amount * 1e6).round() as i64,
            currency: self.currency,
        };
        let parts = variants
            .iter()
            .zip(&out.variants)
            .map(|(one, of)| ScaleMixPart {
                variant: one.name.clone(),
                pool: one.pool.clone(),
                per_hour: HourlyPrice(money(one.price(Nanoseconds(0)))),
                rate: one.rate,
                serving: of.serving * HOUR / length,
                warm: of.warm * HOUR / length,
                starts: of.starts,
                per_month: money(of.cost / length * MONTH),
            });
        ScaleMix {
            series: asking.name.to_owned(),
            name: name.to_owned(),
            objective: asking.objective,
            kept: out.kept(),
            per_month: money(out.cost / length * MONTH),
            ratio: out.cost / out.bound.max(f64::MIN_POSITIVE),
            of_single: None,
            changes: out.changes,
            interrupted: out.interrupted,
            restarted: out.restarted,
            refused: out.refused,
            variants: parts.collect(),
            reasons: said
                .reasons
                .into_iter()
                .map(|(reason, decisions)| ScaleReason { reason, decisions })
                .collect(),
            grants: said
                .grants
                .into_iter()
                .map(|((pool, by), got)| got.mean(pool, by))
                .collect(),
            samples: said.samples,
        }
    }

    /// A service on each variant alone, and on all of them, whose decisions are logged.
    pub(super) fn rows(&self, asking: &Asking<'_>, log: &mut Log) -> Vec<ScaleMix> {
        let mut unlogged = Log::default();
        let mut rows = Vec::new();
        let one = std::slice::from_ref(asking);
        if self.variants.len() > 1 {
            for variant in self.variants {
                progress::doing(&format!("{}: {} alone", asking.name, variant.name));
                let alone = std::slice::from_ref(variant);
                rows.extend(self.run(&variant.name, one, alone, &mut unlogged));
            }
        }
        progress::doing(&format!("{}: mix", asking.name));
        let mut mix = self.run("mix", one, self.variants, log);
        let keeping = rows.iter().filter(|row| row.keeps());
        let least = keeping.map(|row| row.per_month.as_f64()).reduce(f64::min);
        for row in &mut mix {
            row.of_single = least.map(|least| row.per_month.as_f64() / least);
        }
        rows.extend(mix);
        rows
    }

    /// Services that share the fleet.
    pub(super) fn shared(&self, asking: &[Asking<'_>], log: &mut Log) -> Vec<ScaleMix> {
        progress::doing("services on one fleet");
        self.run("mix", asking, self.variants, log)
    }
}

/// What was said of decisions.
#[derive(Debug, Clone, Default)]
struct Said {
    reasons: BTreeMap<String, u32>,
    /// By pool, and the rule.
    grants: BTreeMap<(String, &'static str), Sums>,
    samples: Vec<ScaleMixSample>,
}

/// Decisions, and GPUs that were asked for and got in them.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    decisions: u32,
    asked: u64,
    gpus: u64,
}

impl Sums {
    fn mean(self, pool: String, by: &str) -> ScaleGrant {
        let decisions = f64::from(self.decisions.max(1));
        ScaleGrant {
            pool,
            by: by.to_owned(),
            decisions: self.decisions,
            asked: self.asked as f64 / decisions,
            got: self.gpus as f64 / decisions,
        }
    }
}

impl Said {
    /// What was there, once a reading.
    fn sample(&mut self, told: &Told<'_>, demand: &Demand) {
        let now = told.seen.now.seconds().get();
        if now < self.samples.len() as f64 * demand.period {
            return;
        }
        self.samples.push(ScaleMixSample {
            at: told.seen.now,
            rate: demand.at(now),
            serving: told.seen.variants.iter().map(|one| one.ready).collect(),
            per_hour: told.decision.per_hour,
        });
    }

    fn take(&mut self, decision: &MixDecision, shares: &[Shared]) {
        let short = shares.iter().any(|share| share.grant.short > 0);
        let by = shares.iter().filter_map(|share| by(share.grant.by));
        let by: BTreeSet<String> = by.map(|by| format!("by {by}")).collect();
        let words = words(decision).into_iter().chain(by);
        for word in words.chain(short.then(|| "short of GPUs".to_owned())) {
            *self.reasons.entry(word).or_default() += 1;
        }
        for share in shares.iter().filter(|share| share.ask.wants > 0) {
            let rule = by_rule(share.grant.by);
            let got = self.grants.entry((share.pool.clone(), rule)).or_default();
            got.decisions += 1;
            got.asked += u64::from(share.ask.wants);
            got.gpus += u64::from(share.grant.gpus);
        }
    }
}

/// The rule by which a service got GPUs that others ask for as well.
const fn by(rule: GrantedBy) -> Option<&'static str> {
    match rule {
        GrantedBy::Nothing => None,
        GrantedBy::Guarantee => Some("guarantee"),
        GrantedBy::AtRisk => Some("SLO at risk"),
        GrantedBy::Need => Some("need"),
        GrantedBy::Budget => Some("budget"),
    }
}

fn by_rule(rule: GrantedBy) -> &'static str {
    by(rule).unwrap_or("nothing")
}

/// The reasons of a decision: the amount's, what limited it, and each variant's that changed.
fn words(decision: &MixDecision) -> Vec<String> {
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let said = |value: &dyn Fn() -> serde_json::Result<serde_json::Value>| {
        word(value().unwrap_or_default())
    };
    let mut words = vec![said(&|| {
        serde_json::to_value(decision.need.decision.because)
    })];
    if let Some(limit) = decision.limit {
        words.push(said(&|| serde_json::to_value(limit)));
    }
    for one in &decision.wanted {
        let by = said(&|| serde_json::to_value(one.by));
        if by != "kept" && !words.contains(&by) {
            words.push(by);
        }
    }
    words
}
