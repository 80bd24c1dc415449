//! What the broker asks of the catalogue and of the sizing engine.

use super::{monitor::Monitor, sizing::Planned, slo};
use crate::{
    app::App,
    catalogue::{self, Loaded},
    fleet, knowledge,
    policy::Rules,
    profiles::beside::field_names,
};
use gpuwise_account::period::Interval;
use gpuwise_broker::{Broker, Lease, Refusal};
use gpuwise_domain::{
    deployment::Deployment,
    placement::{GpuKind, Job, Kinds, Queue, Quota},
    workload::Workload,
};
use gpuwise_probe::prometheus::Client;
use gpuwise_read::fleet::{read_ask, read_quota};
use gpuwise_sched::decide::Policy;
use gpuwise_server::{
    Desk, EngineQueue, PageAddress, PageSaid, Review, Sized, Suspension, TrueSpeed, Watched,
};
use gpuwise_size::knowledge::Knowledge;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _, PolicyFile,
    broker::{
        LeaseAsk, LeaseSize, ObjectiveDocument, PolicyDocument, ServiceAsk, ServiceUse, SloAsk,
        TenantAsk,
    },
    scale::RequestTokensPart,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr as _,
    sync::OnceLock,
};

/// The catalogue and the sizing engine, as `gpuwise plan` and `gpuwise place` use them.
#[derive(Debug)]
pub(super) struct AppDesk {
    pub(super) app: App,
    pub(super) loaded: Loaded,
    /// Over how long a new size is proven.
    pub(super) proof: Nanoseconds,
    /// Who is asked what GPUs do.
    monitor: Option<Monitor>,
    fitted: OnceLock<Knowledge>,
}

impl AppDesk {
    pub(super) fn new(
        app: App,
        proof: Nanoseconds,
        monitor: Option<Client>,
    ) -> anyhow::Result<Self> {
        let loaded = catalogue::load(&app.overrides)?;
        let names = field_names(&loaded)?;
        Ok(Self {
            app,
            loaded,
            proof,
            monitor: monitor.map(|client| Monitor { client, names }),
            fitted: OnceLock::new(),
        })
    }

    /// What predictions rest on without anybody's measurements.
    pub(super) fn fitted(&self) -> anyhow::Result<&Knowledge> {
        if let Some(known) = self.fitted.get() {
            return Ok(known);
        }
        let fitted = knowledge::fitted(&self.loaded)?;
        Ok(self.fitted.get_or_init(|| fitted))
    }

    /// Whether a service can be one.
    fn service(&self, ask: &LeaseAsk, service: &ServiceAsk) -> Result<(), Refusal> {
        if ask.command.is_empty() {
            let problem = "say which command is the engine, after --";
            return Err(invalid("service.model", problem));
        }
        let printable = |text: &str| !text.is_empty() && text.chars().all(|one| !one.is_control());
        if !printable(&service.model) || service.model.len() > 200 {
            return Err(invalid("service.model", "expected the name of a model"));
        }
        let path = service.health.as_deref().unwrap_or("/");
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = format!("{path:?}: expected a path such as /health");
            return Err(invalid("service.health", problem));
        }
        for (field, text) in [
            ("service.ready_within", &service.ready_within),
            ("service.idle", &service.idle),
        ] {
            if let Some(text) = text
                && self.span(field, text)? == Nanoseconds(0)
            {
                return Err(invalid(field, "expected some time, such as 10m"));
            }
        }
        let has = service.weights.is_some() || service.prefetch.is_some();
        if has && service.weights_bytes.is_none_or(|bytes| bytes == 0) {
            let problem =
                "say how many bytes its weights have, so that they can be put into memory";
            return Err(invalid("service.weights_bytes", problem));
        }
        if service.scale.is_some() && service.idle.is_some() {
            let problem = "what follows demand has an idle time in its policy: leave this out";
            return Err(invalid("service.idle", problem));
        }
        if service.concurrency == Some(0) {
            return Err(invalid("service.concurrency", "expected 1 or more"));
        }
        Ok(())
    }

    /// A job from the fields of a job file.
    pub(super) fn job(&self, broker: &Broker, fields: toml::Table) -> Result<Job, Refusal> {
        let find = |name: &str| fleet::known(&self.loaded.catalogue, name);
        read_ask(fields, broker.world().kinds(), &find).map_err(|(field, problem)| {
            let field = match field.as_str() {
                "gpus" | "slice" | "fraction" | "types" => "gpu".to_owned(),
                _ => field,
            };
            Refusal::Invalid { field, problem }
        })
    }
}

/// Kinds of GPU of the fleet and how many it has, as `--owned` takes them.
pub(super) fn owned(broker: &Broker, only: Option<&str>) -> Vec<String> {
    let world = broker.world();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for state in world.gpus() {
        if let Some(kind) = world.kind(state.gpu.kind) {
            *counts.entry(&kind.name).or_default() += 1;
        }
    }
    let wanted =
        |name: &str| only.is_none_or(|only| name.to_lowercase().contains(&only.to_lowercase()));
    counts
        .into_iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, count)| format!("{name}:{count}"))
        .collect()
}

pub(super) fn invalid(field: &str, problem: impl Into<String>) -> Refusal {
    Refusal::Invalid {
        field: field.into(),
        problem: problem.into(),
    }
}

/// Whether a text is of the form of a MIG profile, such as `1g.10gb`.
fn looks_like_profile(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = text.split(['+', '-']).next().unwrap_or(text);
    plain.split_once("g.").is_some_and(|(compute, memory)| {
        number(compute) && memory.strip_suffix("gb").is_some_and(number)
    })
}

/// `--gpu` as fields of a job file: `4xH100`, `0.25xL40S`, `1g.10gb`, `1g.10gb@H100`.
fn gpu_fields(text: &str, kinds: &[GpuKind], fields: &mut toml::Table) -> Result<(), Refusal> {
    let text = text.trim();
    let (profile, kind) = match text.split_once('@') {
        Some((profile, kind)) => (profile, Some(kind)),
        None => (text, None),
    };
    let is_profile = kinds.iter().any(|one| {
        let mig = one.mig.as_ref();
        mig.is_some_and(|mig| mig.named(profile).is_some())
    });
    if is_profile {
        fields.insert("slice".into(), profile.into());
        if let Some(kind) = kind {
            fields.insert("types".into(), kind.into());
        }
        return Ok(());
    }
    if looks_like_profile(profile) {
        let shapes = kinds.iter().filter_map(|one| one.mig.as_ref());
        let names: BTreeSet<&str> = shapes
            .flat_map(|mig| &mig.shapes)
            .map(|shape| shape.profile.as_str())
            .collect();
        let names: Vec<&str> = names.into_iter().collect();
        let what = match names.as_slice() {
            [] => "no GPU of this fleet can be cut into MIG instances".to_owned(),
            names => format!(
                "{profile:?}: expected a MIG profile of this fleet: {}",
                names.join(", ")
            ),
        };
        return Err(invalid("gpu", what));
    }
    let share = text.split_once('x').or_else(|| text.split_once('X'));
    if let Some((share, kind)) = share
        && share.contains('.')
    {
        let share: f64 = share.trim().parse().map_err(|_| {
            invalid(
                "gpu",
                format!("{text:?}: expected a share such as 0.25xL40S"),
            )
        })?;
        fields.insert("fraction".into(), share.into());
        fields.insert("types".into(), kind.trim().into());
        return Ok(());
    }
    let counted = text.starts_with(|first: char| first.is_ascii_digit());
    let text = if counted && share.is_some() {
        text.to_owned()
    } else if counted && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let count: i64 = text.parse().map_err(|_| invalid("gpu", "too many GPUs"))?;
        fields.insert("gpus".into(), count.into());
        return Ok(());
    } else {
        format!("1x{text}")
    };
    fields.insert("gpus".into(), text.into());
    Ok(())
}

/// Whether the address of a lease's metrics can be one that the broker may ask; what it resolves to is seen when it is
/// asked.
fn tells(ask: &LeaseAsk) -> Result<(), Refusal> {
    let Some(address) = &ask.metrics else {
        return Ok(());
    };
    let said = PageSaid::read(address);
    said.map(drop)
        .map_err(|why| invalid("metrics", format!("{address:?}: {why}")))
}

/// Whether what a lease says of how often it saves can be.
fn saves(ask: &LeaseAsk) -> Result<(), Refusal> {
    if ask.checkpoint.is_some() && ask.preemptible != Some(true) {
        let problem =
            "only a lease that may be stopped loses what it has not saved (--preemptible)";
        return Err(invalid("checkpoint", problem));
    }
    Ok(())
}

/// Whether what a lease says of its suspension can be.
fn suspends(ask: &LeaseAsk) -> Result<(), Refusal> {
    let Some(text) = &ask.suspend else {
        return Ok(());
    };
    let how = Suspension::read(text).map_err(|problem| invalid("suspend", problem))?;
    if ask.command.is_empty() {
        return Err(invalid(
            "suspend",
            "no command is there that it could be for",
        ));
    }
    if matches!(how, Suspension::Sleep { .. }) && ask.service.is_none() {
        let problem = "only an engine sleeps: say which model it serves";
        return Err(invalid("suspend", problem));
    }
    Ok(())
}

/// The fields of a job file for a deployment, with what else a lease asks for.
pub(super) fn fields_of(ask: &LeaseAsk, found: &Deployment) -> toml::Table {
    let mut fields = toml::Table::new();
    let (replicas, each) = (found.layout.replicas, found.layout.replica_gpus());
    let workers = if let Some(profile) = &found.slice {
        fields.insert("slice".into(), profile.clone().into());
        fields.insert("types".into(), found.gpu.clone().into());
        u64::from(each) * u64::from(replicas)
    } else {
        fields.insert("gpus".into(), format!("{}x{}", each, found.gpu).into());
        u64::from(replicas)
    };
    fields.insert("workers".into(), i64::try_from(workers).unwrap_or(1).into());
    said(ask, &mut fields);
    fields
}

/// How many workers, and up to how many, as a field of a job file.
fn workers(ask: &LeaseAsk, fields: &mut toml::Table) -> Result<(), Refusal> {
    let Some(most) = ask.max_workers else {
        if let Some(workers) = ask.workers {
            fields.insert("workers".into(), i64::from(workers).into());
        }
        return Ok(());
    };
    let least = ask.workers.unwrap_or(1);
    if most < least {
        let problem = format!("{most}: expected {least} or more, which are its workers");
        return Err(invalid("max_workers", problem));
    }
    if most > least && ask.preemptible != Some(true) {
        let problem = format!("{most}: only a lease that may be stopped grows (--preemptible)");
        return Err(invalid("max_workers", problem));
    }
    let mut table = toml::Table::new();
    for (name, count) in [("min", least), ("preferred", least), ("max", most)] {
        table.insert(name.into(), i64::from(count).into());
    }
    fields.insert("workers".into(), table.into());
    Ok(())
}

/// What a lease says besides its GPUs, as fields of a job file.
fn said(ask: &LeaseAsk, fields: &mut toml::Table) {
    let texts = [
        ("within", &ask.within),
        ("memory", &ask.memory),
        ("duration", &ask.length),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            fields.insert(name.into(), value.clone().into());
        }
    }
    if !ask.features.is_empty() {
        fields.insert("features".into(), ask.features.clone().into());
    }
    if let Some(cpu) = ask.cpu {
        fields.insert("cpu".into(), cpu.into());
    }
    if let Some(priority) = ask.priority {
        fields.insert("priority".into(), i64::from(priority).into());
    }
    let preemptible = ask.preemptible.unwrap_or(false);
    // What has no end and says nothing may lose a day.
    let daily = || ask.length.is_none().then(|| "24h".to_owned());
    let saves = ask.checkpoint.clone().or_else(daily);
    let said = match saves.filter(|_| preemptible) {
        Some(every) => {
            let mut table = toml::Table::new();
            table.insert("checkpoint".into(), every.into());
            table.insert("restart".into(), "0s".into());
            toml::Value::Table(table)
        }
        None => preemptible.into(),
    };
    fields.insert("preemptible".into(), said);
}

/// Tokens of a request of the traffic that a model was sized for, in the mean.
fn tokens_of(workload: &Workload) -> RequestTokensPart {
    RequestTokensPart {
        prompt: workload.lengths.input.mean,
        answer: workload.lengths.output.mean,
    }
}

/// How a model was sized, as answers say it.
pub(super) fn size_of(planned: &Planned) -> LeaseSize {
    let found = &planned.saved.deployment;
    LeaseSize {
        deployment: gpuwise_view::plan::words::deployment(found),
        command: planned.command.clone(),
        replicas: found.layout.replicas,
        sustained: Some(found.headroom.rate).filter(|rate| rate.is_finite()),
        tokens: planned.saved.workload.as_ref().map(tokens_of),
    }
}

impl Desk for AppDesk {
    fn gpu_kind(&self, name: &str) -> Option<GpuKind> {
        let known = fleet::known(&self.loaded.catalogue, name).ok()?;
        (known.kind.name == name).then_some(known.kind)
    }

    fn lease(&self, broker: &Broker, ask: &LeaseAsk) -> Result<Sized, Refusal> {
        let length = ask.length.as_deref();
        let length = length.map(|text| self.span("for", text)).transpose()?;
        if ask.model.is_some() && (ask.workers.is_some() || ask.max_workers.is_some()) {
            let problem = "how many workers a model needs is sized: leave it out";
            return Err(invalid("workers", problem));
        }
        if ask.command.is_empty() && !ask.env.is_empty() {
            return Err(invalid("env", "no command is there that it could be for"));
        }
        if let Some(service) = &ask.service {
            self.service(ask, service)?;
        }
        if let Some(text) = &ask.restart {
            gpuwise_broker::restarts(text).map_err(|problem| invalid("restart", problem))?;
            if ask.command.is_empty() {
                let problem = "no command is there that it could be for";
                return Err(invalid("restart", problem));
            }
        }
        saves(ask)?;
        suspends(ask)?;
        tells(ask)?;
        let mut fields = toml::Table::new();
        let (mut size, mut deployment) = (None, None);
        match (&ask.model, &ask.gpu) {
            (Some(_), _) => {
                let promised = ask.promise == Some(true);
                let planned = self.planned(broker, ask, promised)?;
                fields = fields_of(ask, &planned.saved.deployment);
                size = Some(size_of(&planned));
                deployment = Some(gpuwise_wire::to_json(&planned.saved));
            }
            (None, Some(gpu)) => gpu_fields(gpu, broker.world().kinds(), &mut fields)?,
            (None, None) => {
                return Err(invalid(
                    "gpu",
                    "say which GPU, or which model is to be sized",
                ));
            }
        }
        if size.is_none() {
            workers(ask, &mut fields)?;
        }
        said(ask, &mut fields);
        if let Some(policy) = ask.service.as_ref().and_then(|one| one.scale.as_ref()) {
            gpuwise_broker::scale_rules(policy, ask, size.as_ref())
                .map_err(|(field, problem)| invalid(&format!("service.scale.{field}"), problem))?;
        }
        let job = self.job(broker, fields)?;
        let objectives = slo::of_lease(ask)?;
        Ok(Sized {
            job,
            size,
            length,
            deployment,
            objectives,
        })
    }

    fn tenant(&self, broker: &Broker, ask: &TenantAsk) -> Result<(Queue, Option<Money>), Refusal> {
        let find = |name: &str| fleet::known(&self.loaded.catalogue, name);
        let milli = |field: &str, gpus: f64| {
            if gpus.is_finite() && (0.0..=1e9).contains(&gpus) {
                Ok((gpus * 1000.0 + 0.5) as u64)
            } else {
                Err(invalid(field, format!("{gpus}: expected a number from 0")))
            }
        };
        let mut quotas = Vec::new();
        for quota in &ask.quota {
            let (kinds, nominal_milli) = read_quota(&quota.gpus, broker.world().kinds(), &find)
                .map_err(|problem| invalid("quota", problem))?;
            quotas.push(Quota {
                kinds: if kinds == Kinds::NONE {
                    Kinds::ANY
                } else {
                    kinds
                },
                nominal_milli,
                borrowing_milli: quota.borrow.map(|gpus| milli("borrow", gpus)).transpose()?,
                lending_milli: quota.lend.map(|gpus| milli("lend", gpus)).transpose()?,
                cap_milli: None,
            });
        }
        let budget = ask.budget.as_deref().map(budget).transpose()?;
        let queue = Queue {
            name: ask.name.clone(),
            parent: None,
            quotas,
            weight_milli: u32::try_from(milli("weight", ask.weight.unwrap_or(1.0))?)
                .map_err(|_| invalid("weight", "too large"))?,
            priority: 0,
            reclaims: true,
            budget: None,
            used_milli: 0,
        };
        Ok((queue, budget))
    }

    fn span(&self, field: &str, text: &str) -> Result<Nanoseconds, Refusal> {
        match Nanoseconds::from_str(text) {
            Ok(Nanoseconds(0)) => Err(invalid(field, "a time above 0, such as 30m")),
            read => read.map_err(|error| invalid(field, error.to_string())),
        }
    }

    fn slo(&self, ask: &SloAsk) -> Result<Vec<ObjectiveDocument>, Refusal> {
        slo::objectives(ask)
    }

    fn served(
        &self,
        lease: &Lease,
        within: Interval,
        speeds: &[TrueSpeed],
    ) -> Option<(ServiceUse, Option<f64>, Option<f64>)> {
        self.simulated(lease, within, speeds).ok()
    }

    fn metrics(&self, page: &PageAddress) -> Result<ServiceUse, String> {
        crate::engine_page::read(page)
    }

    fn queue(&self, page: &PageAddress) -> Result<EngineQueue, String> {
        crate::engine_page::queue(page)
    }

    fn review(&self, broker: &Broker, lease: &Lease, now: Nanoseconds) -> Review {
        self.reviewed(broker, lease, now)
    }

    fn monitor(&self) -> Option<&str> {
        Some(self.monitor.as_ref()?.client.server())
    }

    fn watched(&self, within: Interval, step: Nanoseconds) -> Result<Watched, String> {
        let monitor = self.monitor.as_ref().ok_or("no server was named")?;
        monitor.watched(within, step)
    }

    fn policy_file(
        &self,
        broker: &Broker,
        file: PolicyFile,
    ) -> Result<(PolicyDocument, Vec<Queue>), Refusal> {
        super::policy::of_file(broker, file)
    }

    fn policy(&self, broker: &Broker) -> Policy {
        let policy = broker.policy();
        let scheduling = policy.scheduling.clone().noun();
        let made = Rules::of_document(policy).and_then(|rules| {
            let prices = Some(broker.price_of_jobs());
            rules.priced_policy(&scheduling, None, self.app.seed, prices)
        });
        // The name was checked before it came into the log; another release may know fewer.
        made.unwrap_or_else(|_| {
            let first = gpuwise_sched::policy::policies().first();
            let context = gpuwise_sched::policy::PolicyContext::default();
            Policy::new(first.map_or_else(
                || Box::new(gpuwise_sched::policy::FirstFit) as _,
                |policy| (policy.make)(&context),
            ))
        })
    }
}

/// `20000usd/month`, or `20000 USD`.
fn budget(text: &str) -> Result<Money, Refusal> {
    let amount = match text.split_once('/') {
        None => text,
        Some((amount, "month" | "mo")) => amount,
        Some((_, period)) => {
            let problem = format!("{text:?}: a budget is for a month, not for {period:?}");
            return Err(invalid("budget", problem));
        }
    };
    Money::given(amount).map_err(|error| {
        let problem = format!("{error}; expected an amount a month such as 20000usd/month");
        invalid("budget", problem)
    })
}
