//! `gpuwise lease`: GPUs for a while.

mod dry;
mod logs;
mod offers;
mod scale;
mod wait;
mod weights;

use super::client::{BrokerFlags, Client, moment, money, shown};
use crate::{
    app::{Context, Exit, Format},
    error::Problem,
    schemas::AnswerName,
};
use clap::{Args, Subcommand};
use gpuwise_units::{Bytes, Nanoseconds};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{ExplanationAnswer, LeaseAnswer, LeaseAsk, LeaseList, ServiceAsk};
use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

#[derive(Debug, Subcommand)]
pub enum LeaseCommand {
    /// Ask for GPUs, or for what a model and an SLO need
    ///
    /// Exit code 0: it is admitted; `gpuwise lease explain` says why one waits. 2: it is refused, or the
    /// input is wrong.
    Request(Box<RequestFlags>),
    /// Say what could be had now and when, at what price
    Offers(offers::Offers),
    /// List leases, the newest first
    List(List),
    /// Show a lease
    Show(One),
    /// Say why a lease waits and what would help, or why it is where it is
    Explain(One),
    /// Let the service of a lease follow demand by another policy from now on
    ///
    /// What was learned of its demand begins anew; its replicas stay until the policy says otherwise.
    Scale(scale::Set),
    /// Show what the command of a lease wrote
    Logs(logs::Log),
    /// Give a lease back: what runs is stopped, and its GPUs are free
    Release(One),
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct RequestFlags {
    #[command(flatten)]
    broker: BrokerFlags,
    /// The tenant that pays
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// A name for people
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What it is for, within the tenant; reports sum by it
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// GPUs of each worker: H100, 4xH100, 0.25xL40S, or a MIG profile such as 1g.10gb, of one kind 1g.10gb@H100
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// Workers, all at once
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Up to so many workers where GPUs are left over, as far as the policy lets it grow and shrink
    #[arg(long, value_name = "N")]
    max_workers: Option<u32>,
    /// All workers within one nvlink, node, rack, block or zone
    #[arg(long, value_name = "LEVEL")]
    within: Option<String>,
    /// Only on nodes that have all of these features, such as ib,nvme
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    features: Vec<String>,
    /// Container image that it runs in, where leases are pods [default: the broker's]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Processor cores of each worker
    #[arg(long, value_name = "N")]
    cpu: Option<f64>,
    /// Memory of each worker, such as 64GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// It may be stopped for others and waits again, at the price of spot
    #[arg(long)]
    preemptible: bool,
    /// How often it saves what it has done: what may be lost when it is stopped [default: at its end alone, or
    /// once a day where it has none]
    #[arg(long, value_name = "TIME", requires = "preemptible")]
    checkpoint: Option<String>,
    /// For how long, such as 12h [default: until it is released, or its command ends]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
    /// A model to size, as `gpuwise plan` names it
    #[arg(long, value_name = "MODEL", help_heading = "Sized by plan")]
    model: Option<String>,
    /// Arrivals, such as 8 or 600/min
    #[arg(
        long,
        value_name = "RATE",
        requires = "model",
        help_heading = "Sized by plan"
    )]
    rate: Option<String>,
    /// Concurrent requests, in place of a rate
    #[arg(
        long,
        value_name = "N",
        requires = "model",
        help_heading = "Sized by plan"
    )]
    concurrency: Option<String>,
    /// Input sequence length in tokens
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "model",
        help_heading = "Sized by plan"
    )]
    isl: Option<String>,
    /// Output sequence length in tokens
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "model",
        help_heading = "Sized by plan"
    )]
    osl: Option<String>,
    /// Time to first token, such as p95:1s
    #[arg(
        long,
        value_name = "TARGET",
        requires = "model",
        help_heading = "Sized by plan"
    )]
    ttft: Option<String>,
    /// Time per output token, such as p95:40ms
    #[arg(
        long,
        value_name = "TARGET",
        requires = "model",
        help_heading = "Sized by plan"
    )]
    tpot: Option<String>,
    /// Admit it only where the simulator says that its SLO is kept, and it can start now
    #[arg(long, requires = "model", help_heading = "Sized by plan")]
    promise: bool,
    /// How what runs gives its GPUs up while it is idle: sleep (vLLM's endpoints), sleep:2,
    /// checkpoint:SIGNAL:TIME, cuda-checkpoint or requeue
    #[arg(long, value_name = "HOW")]
    suspend: Option<String>,
    /// What becomes of it when its command fails: never (usual), on-failure, or on-failure:N to start it again
    /// on the same GPUs up to N times in a row, after 1 s, 2 s, 4 s and so on
    #[arg(long, value_name = "WHEN")]
    restart: Option<String>,
    /// Prometheus page on which what runs tells its metrics: a path such as /metrics, at the port that it is given
    /// (PORT), or an address of its node such as `http://NODE:8000/metrics`
    #[arg(long, value_name = "PATH|URL")]
    metrics: Option<String>,
    /// A variable of the command's environment, such as SEED=1; repeat
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A secret of the tenant, which the command gets in a variable of its environment: hf-token is in HF_TOKEN, and
    /// hf-token=TOKEN in TOKEN; repeat. `gpuwise secret set` sets it
    #[arg(long, value_name = "NAME[=VARIABLE]")]
    secret: Vec<String>,
    /// The command is an inference engine that serves this model: the gateway sends it requests. It listens on
    /// {port} (in the command, or the variable PORT)
    #[arg(long, value_name = "MODEL", help_heading = "Service")]
    serve: Option<String>,
    /// The path that answers 200 when it is ready [default: /health]
    #[arg(
        long,
        value_name = "PATH",
        requires = "serve",
        help_heading = "Service"
    )]
    health: Option<String>,
    /// How long it may take to get ready [default: 10m]
    #[arg(
        long,
        value_name = "TIME",
        requires = "serve",
        help_heading = "Service"
    )]
    ready_within: Option<String>,
    /// Without a request for so long it gives its GPUs back, and gets them again with the next one
    #[arg(
        long,
        value_name = "TIME",
        requires = "serve",
        help_heading = "Service"
    )]
    idle: Option<String>,
    /// Requests at once for each worker; more are refused (429)
    #[arg(long, value_name = "N", requires = "serve", help_heading = "Service")]
    max_requests: Option<u32>,
    /// Policy by which it follows demand (TOML or JSON): more leases like this one, fewer, none and back
    #[arg(
        long,
        value_name = "FILE",
        requires = "serve",
        help_heading = "Service"
    )]
    scale: Option<PathBuf>,
    /// Where its weights lie: a file or a folder, which a broker with --warm-memory reads into the memory of nodes
    /// before it is started
    #[arg(
        long,
        value_name = "PATH",
        requires = "serve",
        help_heading = "Service"
    )]
    weights: Option<String>,
    /// Size of its weights, such as 16GiB [default: that of --weights, where it is on this machine]
    #[arg(
        long,
        value_name = "SIZE",
        requires = "serve",
        help_heading = "Service"
    )]
    weights_size: Option<Bytes>,
    /// A command line that puts its weights into the memory of a node, in place of reading them
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "weights_size",
        help_heading = "Service"
    )]
    prefetch: Option<String>,
    /// Say what would become of it, and change nothing
    ///
    /// Exit code 1: it would be refused.
    #[arg(long)]
    dry_run: bool,
    /// Stay until it is over: show what its command writes, and end with its exit code
    ///
    /// Told to end (SIGINT, SIGTERM), it gives the lease back. With --key one that is started again goes on with
    /// the same lease.
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// With --wait: how long a broker that does not answer is asked again before this command fails; the lease goes on
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10min",
        requires = "wait",
        conflicts_with = "dry_run"
    )]
    broker_timeout: Nanoseconds,
    /// A key under which a repeated request is answered with the same lease
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A command that runs on what is leased; the lease ends when it does
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Only this tenant's
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only leases in this state
    #[arg(long, value_name = "STATE", conflicts_with = "all")]
    state: Option<String>,
    /// Those that are over, too
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
pub struct One {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Which, such as L-42
    #[arg(value_name = "LEASE")]
    lease: String,
}

impl One {
    /// The client, and the path of the lease.
    fn asked(&self, context: &Context) -> anyhow::Result<(Client, String)> {
        let named = self
            .lease
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !named || self.lease.is_empty() {
            let what = format!("{:?} is no lease; expected one such as L-42", self.lease);
            return Err(Problem::new(what)
                .hint("`gpuwise lease list` shows yours")
                .into());
        }
        let client = self.broker.client(context.app.offline)?;
        Ok((client, format!("/v1/leases/{}", self.lease)))
    }
}

pub fn run(context: &Context, command: &LeaseCommand) -> anyhow::Result<Exit> {
    let one = context.answering(AnswerName::Lease);
    match command {
        LeaseCommand::Request(flags) => request(&one, flags),
        LeaseCommand::Offers(flags) => offers::run(context, flags),
        LeaseCommand::List(flags) => list(&context.answering(AnswerName::Leases), flags),
        LeaseCommand::Show(flags) => {
            let (client, path) = flags.asked(context)?;
            show(&one, &client.get(&path)?)
        }
        LeaseCommand::Explain(flags) => {
            let (client, path) = flags.asked(context)?;
            let why: ExplanationAnswer = client.get(&format!("{path}/explanation"))?;
            let context = context.answering(AnswerName::LeaseExplanation);
            explain(&context, &why)
        }
        LeaseCommand::Scale(flags) => {
            let (client, path) = flags.one.asked(context)?;
            let policy = scale::read(&flags.policy)?;
            show(&one, &client.put(&format!("{path}/scaling"), &policy)?)
        }
        LeaseCommand::Logs(flags) => logs::run(&context.answering(AnswerName::LeaseLog), flags),
        LeaseCommand::Release(flags) => {
            let (client, path) = flags.asked(context)?;
            let lease: LeaseAnswer = serde_json::from_value(client.delete(&path)?)?;
            show(&one, &lease)
        }
    }
}

fn request(context: &Context, flags: &RequestFlags) -> anyhow::Result<Exit> {
    let mut env = BTreeMap::new();
    for pair in &flags.env {
        let (name, value) = pair
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Problem::new(format!("--env {pair:?}: expected NAME=VALUE")))?;
        env.insert(name.to_owned(), value.to_owned());
    }
    let mut secrets = BTreeMap::new();
    for said in &flags.secret {
        let usual = |name: &str| name.to_uppercase().replace(['-', '.'], "_");
        let (name, variable) = match said.split_once('=') {
            Some((name, variable)) => (name, variable.to_owned()),
            None => (said.as_str(), usual(said)),
        };
        if name.is_empty() || variable.is_empty() {
            let what = format!("--secret {said:?}: expected NAME or NAME=VARIABLE");
            return Err(Problem::new(what).into());
        }
        if secrets.insert(variable.clone(), name.to_owned()).is_some() {
            let what = format!("--secret {said:?}: {variable} is another secret's already");
            return Err(Problem::new(what).into());
        }
    }
    let scale = flags.scale.as_deref().map(scale::read).transpose()?;
    let weights_bytes = weights::size(flags.weights.as_deref(), flags.weights_size)?;
    let ask = LeaseAsk {
        tenant: flags.tenant.clone(),
        name: flags.name.clone(),
        project: flags.project.clone(),
        gpu: flags.gpu.clone(),
        workers: flags.workers,
        max_workers: flags.max_workers,
        within: flags.within.clone(),
        features: flags.features.clone(),
        image: flags.image.clone(),
        cpu: flags.cpu,
        memory: flags.memory.clone(),
        priority: flags.priority,
        preemptible: flags.preemptible.then_some(true),
        checkpoint: flags.checkpoint.clone(),
        length: flags.length.clone(),
        model: flags.model.clone(),
        rate: flags.rate.clone(),
        concurrency: flags.concurrency.clone(),
        isl: flags.isl.clone(),
        osl: flags.osl.clone(),
        ttft: flags.ttft.clone(),
        tpot: flags.tpot.clone(),
        promise: flags.promise.then_some(true),
        metrics: flags.metrics.clone(),
        suspend: flags.suspend.clone(),
        restart: flags.restart.clone(),
        command: flags.command.clone(),
        env,
        secrets,
        service: flags.serve.clone().map(|model| ServiceAsk {
            model,
            health: flags.health.clone(),
            ready_within: flags.ready_within.clone(),
            idle: flags.idle.clone(),
            concurrency: flags.max_requests,
            weights: flags.weights.clone(),
            weights_bytes,
            prefetch: flags.prefetch.clone(),
            scale: scale.clone(),
        }),
    };
    let client = flags.broker.client(context.app.offline)?;
    if flags.dry_run {
        return dry::run(context, &client, &ask);
    }
    let lease: LeaseAnswer = client.post("/v1/leases", flags.key.as_deref(), &ask)?;
    if flags.wait {
        return wait::until_over(context, &client, &lease, flags.broker_timeout);
    }
    show(context, &lease)
}

fn list(context: &Context, flags: &List) -> anyhow::Result<Exit> {
    let state = match (&flags.state, flags.all) {
        (Some(state), _) => format!("&state={state}"),
        (None, true) => String::new(),
        (None, false) => "&state=open".into(),
    };
    let tenant = flags.tenant.as_ref();
    let tenant = tenant.map_or_else(String::new, |tenant| format!("&tenant={tenant}"));
    let client = flags.broker.client(context.app.offline)?;
    let mut all = LeaseList {
        items: Vec::new(),
        next: None,
    };
    loop {
        let cursor = all.next.take();
        let cursor = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let path = format!("/v1/leases?limit=1000{state}{tenant}{cursor}");
        let page: LeaseList = client.get(&path)?;
        all.items.extend(page.items);
        all.next = page.next;
        if all.next.is_none() {
            break;
        }
    }
    shown(context, &all, || table(&all.items))
}

pub(super) fn table(leases: &[LeaseAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("lease", "Lease"),
        Column::left("tenant", "Tenant").priority(4),
        Column::left("name", "Name").priority(2),
        Column::left("state", "State"),
        Column::left("since", "Since").priority(1),
        Column::left("gpus", "GPUs"),
        Column::left("place", "Where"),
        Column::left("ends_at", "Ends").priority(3),
        Column::right("cost", "Cost"),
    ]);
    for one in leases {
        table.push(vec![
            Cell::text(one.id.clone()),
            Cell::text(one.tenant.clone()),
            Cell::text(one.name.clone()),
            Cell::text(one.state.clone()),
            moment(&one.since),
            Cell::text(wanted(one)),
            Cell::of(
                Some(place(one)).filter(|place| !place.is_empty()),
                Cell::text,
            ),
            Cell::of(one.ends_at.as_deref(), moment),
            Cell::of(one.cost.as_deref(), money),
        ]);
    }
    table
}

/// What a lease has, or asked for while it has nothing: `4 × H100 SXM5 80GB`.
fn wanted(lease: &LeaseAnswer) -> String {
    let Some(first) = lease.gpus.first() else {
        let asked = lease.ask.gpu.clone().or_else(|| lease.ask.model.clone());
        return asked.unwrap_or_default();
    };
    let part = match first.part.as_str() {
        "whole" => String::new(),
        part => format!(" {part}"),
    };
    format!("{} × {}{part}", lease.gpus.len(), first.gpu)
}

/// `gpu-1:0,1 gpu-2:0`.
fn place(lease: &LeaseAnswer) -> String {
    let mut nodes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for gpu in &lease.gpus {
        nodes
            .entry(&gpu.node)
            .or_default()
            .push(gpu.index.to_string());
    }
    let each = nodes
        .iter()
        .map(|(node, gpus)| format!("{node}:{}", gpus.join(",")));
    each.collect::<Vec<_>>().join(" ")
}

fn show(context: &Context, lease: &LeaseAnswer) -> anyhow::Result<Exit> {
    if context.form.format != Format::Table {
        return shown(context, lease, || table(std::slice::from_ref(lease)));
    }
    let mut text = format!("{}  {}", lease.id, lease.state);
    if let Some(reason) = &lease.reason {
        let _ = write!(text, ": {reason}");
    }
    text.push('\n');
    let style = context.form.style;
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let said = style.wrap_after(&format!("  {name:<10}"), value, 12);
            let _ = writeln!(text, "{said}");
        }
    };
    let short = |exact: &str| {
        exact
            .split_once('.')
            .map_or(exact, |(short, _)| short)
            .replace('T', " ")
    };
    line("tenant", &lease.tenant);
    line("gpus", &wanted(lease));
    line("where", &place(lease));
    if let Some(size) = &lease.size {
        line("sized", &size.deployment);
        line("", &size.command);
    }
    if !lease.ask.command.is_empty() {
        line("command", &lease.ask.command.join(" "));
    }
    line("image", lease.ask.image.as_deref().unwrap_or_default());
    line("requested", &short(&lease.requested_at));
    line(
        "started",
        &lease.started_at.as_deref().map(short).unwrap_or_default(),
    );
    line(
        "ends",
        &lease.ends_at.as_deref().map(short).unwrap_or_default(),
    );
    if let Some(suspension) = &lease.suspension {
        let seconds =
            |time: Option<f64>| time.map_or_else(|| "–".into(), |time| format!("{time:.2} s"));
        line(
            "suspended",
            &format!(
                "by {}: freed within {}, back within {} (p99 of {})",
                suspension.how,
                seconds(suspension.freed_p99),
                seconds(suspension.return_p99),
                suspension.returns
            ),
        );
    }
    if let Some(one) = &lease.queued {
        line("queued", &one.words());
    }
    line("waits for", lease.waits_for.as_deref().unwrap_or_default());
    if let Some(one) = &lease.health {
        line("health", &one.words());
    }
    if let Some(scaling) = &lease.scaling {
        scale::lines(scaling, &lease.id, &mut line);
    }
    line("cost", lease.cost.as_deref().unwrap_or_default());
    if let Some(code) = lease.exit_code {
        line("exit code", &code.to_string());
    }
    context.data(&text)?;
    Ok(Exit::Yes)
}

fn explain(context: &Context, why: &ExplanationAnswer) -> anyhow::Result<Exit> {
    if context.form.format != Format::Table {
        let table = || {
            let mut table = Table::new(vec![
                Column::left("lease", "Lease"),
                Column::left("state", "State"),
                Column::left("reason", "Reason"),
                Column::left("expected_start", "Expected start"),
                Column::left("fixes", "What would help"),
            ]);
            table.push(vec![
                Cell::text(why.id.clone()),
                Cell::text(why.state.clone()),
                Cell::text(why.reason.clone()),
                Cell::of(why.expected_start.as_deref(), moment),
                Cell::text(why.fixes.join("; ")),
            ]);
            table
        };
        return shown(context, why, table);
    }
    let mut text = format!(
        "{} is {}: {}.\n",
        why.id,
        why.state,
        why.reason.trim_end_matches('.')
    );
    if let Some(start) = &why.expected_start {
        let start = start
            .split_once('.')
            .map_or(start.as_str(), |(short, _)| short);
        let _ = writeln!(
            text,
            "It is expected to start at {}.",
            start.replace('T', " ")
        );
    }
    if !why.fixes.is_empty() {
        text.push_str("What would help, cheapest first:\n");
        for fix in &why.fixes {
            let _ = writeln!(text, "  - {fix}");
        }
    }
    for decision in why.scaling.iter().flat_map(|one| &one.decisions) {
        let said = context
            .form
            .style
            .wrap_after("", &scale::decided(decision), 2);
        let _ = writeln!(text, "{said}");
    }
    if !why.weighed.is_empty() {
        let each = why
            .weighed
            .iter()
            .map(|one| format!("{} {}", one.name, one.score));
        let _ = writeln!(text, "Weighed: {}.", each.collect::<Vec<_>>().join(", "));
    }
    context.data(&text)?;
    Ok(Exit::Yes)
}
