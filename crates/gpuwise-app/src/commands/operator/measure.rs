//! What Prometheus says of workloads: whether SLOs are kept, how many replicas follow what comes, what an audit makes
//! of them.

use super::size::{WARM_COST, book, by_name};
use crate::{
    app::App,
    catalogue,
    commands::audit::{self, Audited as Fleet},
    error::Problem,
    prometheus::{self, ServerFlags},
    settings,
};
use gpuwise_domain::{
    usage::{
        Usage,
        proposal::{Change, Judgement, Proposal, Verdict as Said},
    },
    workload::Target,
};
use gpuwise_k8s::{
    operator::{AuditAsk, Audited, Following, Measures, Meter, MeterAsk},
    resources::WorkloadTraffic,
    tiers::{SloSeen, Verdict},
};
use gpuwise_probe::prometheus::Client;
use gpuwise_read::{
    metrics::{Quantity, VOCABULARIES},
    workload::target,
};
use gpuwise_units::{Nanoseconds, significant};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// What the load may grow by before a new size breaks: as the broker's reviews have it.
const MARGIN: f64 = 1.05;

#[derive(Debug, clap::Args)]
pub(super) struct MeasureFlags {
    #[command(flatten, next_help_heading = "Prometheus")]
    server: ServerFlags,
    /// Between two looks at what is measured of GpuWorkloads
    #[arg(long, value_name = "TIME", default_value = "15s")]
    measure_every: String,
    /// Over which time SLOs are measured
    #[arg(long, value_name = "TIME", default_value = "5min")]
    slo_window: String,
    /// Between two audits of the cluster
    #[arg(long, value_name = "TIME", default_value = "1h")]
    audit_every: String,
    /// How many days an audit looks at
    #[arg(long, value_name = "N", default_value_t = 14, value_parser = clap::value_parser!(u16).range(1..=400))]
    audit_days: u16,
}

fn time(flag: &str, text: &str) -> anyhow::Result<Duration> {
    let time: Nanoseconds = text
        .parse()
        .map_err(|error| Problem::new(flag).because(anyhow::Error::new(error)))?;
    if time.0 < 1_000_000_000 {
        return Err(Problem::new(format!("{flag} {text}: expected 1 s or more")).into());
    }
    Ok(Duration::from_nanos(time.0))
}

impl MeasureFlags {
    /// Who measures; `None` without --prometheus.
    pub(super) fn measures(&self, app: &App) -> anyhow::Result<Option<Measures>> {
        let every = time("--measure-every", &self.measure_every)?;
        let audit = time("--audit-every", &self.audit_every)?;
        let window = time("--slo-window", &self.slo_window)?;
        let Some(address) = &self.server.prometheus else {
            return Ok(None);
        };
        let client = Arc::new(self.server.client(address, app.offline)?);
        let meter = Server {
            app: app.clone(),
            flags: self.server.clone(),
            days: self.audit_days,
            window: window.as_secs(),
            #[cfg(feature = "serve")]
            followed: follows(Arc::clone(&client), every),
            client,
        };
        Ok(Some(Measures {
            meter: Arc::new(meter),
            every,
            audit,
        }))
    }
}

#[cfg(feature = "serve")]
fn follows(client: Arc<Client>, every: Duration) -> gpuwise_server::Followed {
    let period = Nanoseconds(u64::try_from(every.as_nanos()).unwrap_or(u64::MAX));
    let source = move |query: &str| prometheus::value(&client, query);
    gpuwise_server::Followed::new(period, Arc::new(source))
}

struct Server {
    app: App,
    flags: ServerFlags,
    days: u16,
    /// Seconds over which SLOs are measured.
    window: u64,
    client: Arc<Client>,
    #[cfg(feature = "serve")]
    followed: gpuwise_server::Followed,
}

/// The pods of a workload's Deployment, and those that were warm before.
fn pods(namespace: &str, name: &str) -> String {
    format!("namespace=\"{namespace}\",pod=~\"{name}(-warm)?-[a-z0-9]+-[a-z0-9]+\"")
}

impl Server {
    /// One number; `None`: there is no series, or what it gives is no number.
    fn number(&self, query: &str) -> Result<Option<f64>, String> {
        let mut found = None;
        self.client
            .instant(query, None, |series| found = found.or(series.value()))
            .map_err(|error| prometheus::problem(&error).to_string())?;
        Ok(found.filter(|value| value.is_finite()))
    }

    /// What a target's quantity was of late, in seconds; `None`: nothing came, or its engine does not tell.
    fn latency(
        &self,
        ask: &MeterAsk,
        quantities: &[Quantity],
        bound: &Target,
    ) -> Result<Option<f64>, String> {
        let engine = ask.decided.engine.as_str();
        let spoken = VOCABULARIES
            .iter()
            .filter(|one| engine.is_empty() || one.engine == engine);
        let names: Vec<String> = spoken
            .flat_map(|one| {
                quantities
                    .iter()
                    .flat_map(|quantity| one.candidates(*quantity))
            })
            .collect();
        let pods = pods(&ask.namespace, &ask.name);
        for name in names {
            let rate = |part: &str| format!("rate({name}{part}{{{pods}}}[{}s])", self.window);
            let query = match bound.percentile {
                Some(percentile) => format!(
                    "histogram_quantile({}, sum by (le) ({}))",
                    percentile.fraction(),
                    rate("_bucket")
                ),
                None => format!("sum({}) / sum({})", rate("_sum"), rate("_count")),
            };
            if let Some(seconds) = self.number(&query)? {
                return Ok(Some(seconds));
            }
        }
        Ok(None)
    }

    fn seen(&self, ask: &MeterAsk) -> Result<SloSeen, String> {
        let bounds = [
            ("TTFT", &ask.slo.ttft, [Quantity::Ttft].as_slice()),
            (
                "TPOT",
                &ask.slo.tpot,
                [Quantity::Tpot, Quantity::Itl].as_slice(),
            ),
        ];
        let (mut words, mut missed, mut untold) = (Vec::new(), false, false);
        for (name, said, quantities) in bounds {
            let Some(said) = said else { continue };
            let bound = target(said).map_err(|error| error.to_string())?;
            match self.latency(ask, quantities, &bound)? {
                Some(seconds) => {
                    let at_most = bound.at_most.get();
                    missed |= seconds > at_most;
                    let sign = if seconds > at_most { ">" } else { "≤" };
                    let (found, limit) = (significant(seconds, 3), significant(at_most, 3));
                    words.push(format!("{name} {found} s {sign} {limit} s ({said})"));
                }
                None => untold = true,
            }
        }
        let words = words.join(", ");
        Ok(match (words.is_empty(), missed, untold) {
            (_, true, _) => SloSeen::Missed(words),
            (false, false, false) => SloSeen::Kept(words),
            (true, _, false) => SloSeen::Untold("it has no SLO".into()),
            (_, _, true) => SloSeen::Untold(format!(
                "no latencies of its pods in the last {} s",
                self.window
            )),
        })
    }

    /// The audit, as `gpuwise audit` makes it with these prices.
    fn fleet(&self, ask: &AuditAsk) -> anyhow::Result<Vec<Audited>> {
        let loaded = catalogue::load(&self.app.overrides)?;
        let products = by_name(&ask.products, &loaded.catalogue);
        let mut words = vec![format!("--days={}", self.days), "--forget".to_owned()];
        words.extend(products.keys().map(|gpu| format!("--gpu={gpu}")));
        let prices = ask.prices.as_ref();
        for (gpu, price) in prices
            .map(|given| book(given, &products))
            .unwrap_or_default()
        {
            // Audits count in US dollars; another currency's prices say nothing there.
            if price.0.currency == gpuwise_units::Currency::USD {
                words.push(format!("--price={gpu}={}USD", price.0.as_f64()));
            }
        }
        let mut flags: audit::Flags = settings::parse(words)?;
        flags.server = self.flags.clone();
        let found = audit::audit(&self.app, &flags)?;
        let Fleet {
            fleet, judgements, ..
        } = &found;
        let pairs = fleet.workloads.iter().zip(judgements);
        Ok(pairs
            .map(|(usage, said)| {
                let said = offered(said, ask.slices);
                self.audited(usage, &said, &loaded.catalogue)
            })
            .collect())
    }

    fn audited(
        &self,
        usage: &Usage,
        said: &Judgement,
        catalogue: &gpuwise_domain::catalogue::Catalogue,
    ) -> Audited {
        let holder = &usage.holder;
        let verdict = match said.verdict {
            Said::Idle => Verdict::Idle,
            Said::OverProvisioned => Verdict::TooLarge,
            Said::UnderProvisioned => Verdict::TooSmall,
            Said::RightSized => Verdict::Stays,
            Said::PartTime | Said::Starved | Said::TooEarly | Said::Unknown => Verdict::Untold,
        };
        let asks = matches!(verdict, Verdict::TooLarge | Verdict::TooSmall);
        Audited {
            namespace: holder.namespace.clone(),
            kind: holder.kind.clone(),
            name: holder.name.clone(),
            verdict,
            reason: format!("{}: {}", said.verdict.title(), said.reason),
            title: said.proposal.as_ref().map(|one| one.title.clone()),
            saving: said
                .proposal
                .as_ref()
                .and_then(|one| Some(one.saving.hourly?.micros)),
            patch: audit::patch(usage, said, catalogue),
            traffic: asks.then(|| self.traffic(usage)).flatten(),
        }
    }

    /// What came in the busiest hour of the days of an audit, with some room to grow.
    fn traffic(&self, usage: &Usage) -> Option<WorkloadTraffic> {
        let engine = usage.engine.as_ref()?;
        let spoken = VOCABULARIES
            .iter()
            .find(|one| one.engine == engine.engine)?;
        let pods = pods(&usage.holder.namespace, &usage.holder.name);
        let counts = [Quantity::EndToEnd, Quantity::Ttft];
        let mut names = counts.iter().flat_map(|one| spoken.candidates(*one));
        let busiest = names.find_map(|name| {
            let days = u32::from(self.days) * 24;
            let query = format!("max_over_time(sum(rate({name}_count{{{pods}}}[1h]))[{days}h:1h])");
            self.number(&query).ok().flatten()
        })?;
        let tokens = |mean: Option<f64>| mean.filter(|mean| *mean >= 1.0).map(|mean| mean as i64);
        (busiest > 0.0).then(|| WorkloadTraffic {
            rate: format!("{}/s", significant(busiest * MARGIN, 3)),
            input_tokens: tokens(engine.prompt_tokens),
            output_tokens: tokens(engine.answer_tokens),
        })
    }
}

/// The same with the first of its proposals that the cluster could carry out.
fn offered(said: &Judgement, mig: bool) -> Judgement {
    let fits = |change: &Change| {
        let sliced = |part: &Change| matches!(part, Change::Slice { .. });
        mig || !change.parts().iter().any(sliced)
    };
    let mut said = said.clone();
    said.proposal = said.proposal.and_then(|proposal| {
        if fits(&proposal.change) {
            return Some(proposal);
        }
        let other = proposal.alternatives.iter().find(|one| fits(&one.change));
        let other = other.cloned()?;
        Some(Proposal {
            change: other.change,
            title: other.title,
            saving: other.saving,
            risk: proposal.risk,
            alternatives: Vec::new(),
        })
    });
    said
}

impl Meter for Server {
    fn slo(&self, ask: &MeterAsk) -> SloSeen {
        self.seen(ask).unwrap_or_else(SloSeen::Untold)
    }

    #[cfg(feature = "serve")]
    fn replicas(&self, asks: &[MeterAsk]) -> BTreeMap<String, Result<Following, String>> {
        let mut found = BTreeMap::new();
        let mut uids = BTreeMap::new();
        let mut services = Vec::new();
        for ask in asks {
            match service(ask) {
                None => {}
                Some(Ok(one)) => {
                    uids.insert(one.object().to_owned(), ask.uid.clone());
                    services.push(one.with_warm(ask.warm).with_pods(ask.ready, ask.starting));
                }
                Some(Err(why)) => {
                    found.insert(ask.uid.clone(), Err(why));
                }
            }
        }
        match self.followed.decide(services) {
            Ok(decided) => {
                let named = decided
                    .into_iter()
                    .filter_map(|(name, wanted)| Some((uids.remove(&name)?, following(wanted))));
                found.extend(named);
            }
            Err(why) => found.extend(uids.into_values().map(|uid| (uid, Err(why.clone())))),
        }
        found
    }

    #[cfg(not(feature = "serve"))]
    fn replicas(&self, asks: &[MeterAsk]) -> BTreeMap<String, Result<Following, String>> {
        let scaled = asks.iter().filter(|ask| ask.scaling.is_some());
        let why = || Err("this build of gpuwise follows no rates".to_owned());
        scaled.map(|ask| (ask.uid.clone(), why())).collect()
    }

    fn audit(&self, ask: &AuditAsk) -> Result<Vec<Audited>, String> {
        self.fleet(ask).map_err(|error| format!("{error:#}"))
    }
}

#[cfg(feature = "serve")]
fn following(wanted: Result<gpuwise_server::Following, String>) -> Result<Following, String> {
    wanted.map(|one| Following {
        replicas: one.replicas,
        warm: one.warm,
        why: one.why,
    })
}

/// What a workload's replicas follow, in the words of a trigger; `None`: the operator does not write them.
#[cfg(feature = "serve")]
fn service(ask: &MeterAsk) -> Option<Result<gpuwise_server::Defined, String>> {
    let scaling = ask.scaling.as_ref()?;
    let Some(rate) = &ask.decided.rate_per_replica else {
        return Some(Err("its plan does not say what a replica serves".into()));
    };
    let mut fields = std::collections::HashMap::from([
        ("query".to_owned(), scaling.query.clone()),
        ("rate".to_owned(), rate.clone()),
        ("maxReplicas".to_owned(), scaling.max_replicas.to_string()),
        (
            "holdSeconds".to_owned(),
            scaling.hold_seconds.unwrap_or(300).to_string(),
        ),
        (
            "idleSeconds".to_owned(),
            scaling.idle_seconds.unwrap_or(300).to_string(),
        ),
    ]);
    if scaling.is_forecast() {
        fields.insert("warmCost".into(), WARM_COST.to_string());
    }
    if let Some(start) = ask.decided.start_seconds {
        fields.insert("startSeconds".into(), start.to_string());
    }
    Some(gpuwise_server::Defined::new(
        &ask.namespace,
        &ask.name,
        &fields,
    ))
}
