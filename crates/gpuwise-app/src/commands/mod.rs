//! What each command does: settings in, an answer in the form that was asked for out.

pub mod accuracy;
#[cfg(feature = "bench")]
pub mod audit;
#[cfg(feature = "bench")]
pub mod bench;
#[cfg(feature = "serve")]
pub mod broker;
pub mod calibrate;
pub mod capacity;
pub mod check;
pub mod compare;
pub mod composed;
pub mod declared;
mod differences;
#[cfg(feature = "serve")]
pub mod epp;
pub mod evidence;
pub mod fleet;
pub mod forecast;
pub mod gpus;
pub mod lint;
pub mod memory;
pub mod models;
pub mod offers;
#[cfg(feature = "kubernetes")]
pub mod operator;
pub mod operators;
pub mod optimize;
pub mod place;
pub mod plan;
pub mod predict;
pub mod profile;
pub mod replay;
#[cfg(feature = "database")]
pub mod runs;
pub mod scale;
mod series;
pub mod simulate;
pub mod sources;
pub mod table;
pub mod tco;
pub mod tier;
pub mod train;
pub mod validate;
pub mod watch;
pub mod workload;

use crate::schemas::AnswerName;
use crate::{
    app::{App, Context, Format},
    catalogue::Loaded,
    error::Problem,
    model::{self, ResolvedModel},
    settings::{
        Capacity, Check, Composed, Evidence, FleetCommand, Gpus, Lint, Memory, ModelFlags, Models,
        Offers, OperatorsCommand, Optimize, Place, Plan, Replay, Simulate, Table, Tco, Train,
        Validate, Workload,
    },
};
use anyhow::Context as _;
use clap::Subcommand;
use gpuwise_domain::engine::EngineKind;

pub use crate::app::Exit;
#[cfg(feature = "bench")]
use crate::settings::Bench;

/// Commands that are built with a feature alone, and which one.
pub const OPTIONAL: [(&str, &str); 22] = [
    ("audit", "bench"),
    ("bench", "bench"),
    ("doctor", "serve"),
    ("engine", "serve"),
    ("epp", "serve"),
    ("lease", "serve"),
    ("node", "serve"),
    ("operator", "kubernetes"),
    ("policy", "serve"),
    ("prices", "serve"),
    ("proposal", "serve"),
    ("reservation", "serve"),
    ("runs", "database"),
    ("secret", "serve"),
    ("serve", "serve"),
    ("slo", "serve"),
    ("statement", "serve"),
    ("store", "serve"),
    ("tenant", "serve"),
    ("token", "serve"),
    ("top", "serve"),
    ("usage", "serve"),
];

/// Every question that can be asked.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find the GPUs that a model and an SLO need, ranked, with what each costs
    ///
    /// Sizes a model under a workload: which GPUs, how many, rented where, in which layout and
    /// precision, with which settings; how fast it answers, what it costs, and how sure that is.
    ///
    /// Exit code 0: deployments keep the SLO. 1: none does; what is short and the cheapest fix
    /// are said. 2: the input is wrong.
    Plan(Box<Plan>),
    /// Find the GPUs and the layout that a training job needs, and what it costs
    ///
    /// Without --gpus: which GPUs, how many, rented where, so that the run ends in time and within
    /// budget, cheapest first. With --gpus 64xH100: the best layout on these. Memory by cause and rank,
    /// time by cause, days, money and energy; checkpoints, failures and what they ask of network and
    /// storage.
    ///
    /// Exit code 0: it can be done. 1: it cannot; what is short and the cheapest fixes are said. 2: the
    /// input is wrong.
    Train(Box<Train>),
    /// Say what fills a GPU's memory, byte by byte, and whether a model fits
    ///
    /// Weights by kind, key-value cache, activations, context, graphs; and whether so many
    /// concurrent requests of such a length fit.
    ///
    /// Exit code 0: they fit. 1: they do not; what is short and the cheapest fix are said. 2: the
    /// input is wrong.
    Memory(Box<Memory>),
    /// Show GPU memory, number of GPUs and cost against model size, beside the 25 % rule
    ///
    /// For service at several precisions, contexts and numbers of requests, and for training by method:
    /// what is needed in all, on how many GPUs, at what price; how far the rule parameters × bits / 8 ×
    /// 1.25 is off; and which assumption leads to each end of the popular ranges.
    ///
    /// Exit code 0: something fits. 1: nothing does. 2: the input is wrong.
    Table(Box<Table>),
    /// Say whether what runs is over-provisioned, right-sized or starved, and what to change
    ///
    /// Sizes what runs as it is, beside what could run in its place, and holds its host against what the
    /// work asks of cores, memory, PCIe, links, storage and network: in which dimension it is too large
    /// or too small, by how much, and what changing it saves or costs.
    ///
    /// Exit code 0: it is right-sized. 1: it is not. 2: the input is wrong.
    Check(Box<Check>),
    /// Make a model's weights smaller, without data and without a GPU, and say what is lost
    ///
    /// Reads safetensors and writes them as compressed-tensors, which vLLM and SGLang load: FP8, INT8, INT4, NVFP4 or
    /// MXFP4, file by file, some rows at a time. Scales are searched for the least error; embeddings, head and
    /// routers stay as they are. What was interrupted goes on where it was. `2:4` leaves the two largest of each four
    /// weights along the input, with zeros or with a bitmask in place of the others.
    ///
    /// Exit code 0: it is written. 2: the input is wrong, or nothing could be written.
    Optimize(Box<Optimize>),
    /// Compare fixed hosts with hosts composed of pooled GPUs over a PCIe fabric
    ///
    /// A saved deployment over its own links and over the fabric: every layout's decode step with what
    /// links take of it, which layout suits, what attaching and ports take. Or a fleet's trace replayed
    /// on fixed hosts and on pools of the same GPUs: stranded GPU-hours, waits, GPUs for the same service.
    ///
    /// Exit code 0: it can be composed. 1: it cannot; what is short and the nearest are said. 2: the
    /// input is wrong.
    Composed(Box<Composed>),
    /// Send load to an OpenAI-compatible server and measure what comes back
    ///
    /// At a rate, at several, or at a concurrency; with a range, such as --rate 2..40, the largest
    /// load is looked for that keeps the SLO. Requests are scheduled beforehand and sent when they
    /// are due, whatever the server does, and latencies count from then; prompts are random words, as
    /// long as the server counts them. Ctrl-C ends it and keeps what was measured.
    ///
    /// Exit code 0: the SLO is kept, or no SLO was given. 1: it is missed. 2: the input is
    /// wrong, or nothing could be measured.
    #[cfg(feature = "bench")]
    Bench(Box<Bench>),
    /// Run a saved deployment under traffic, request by request
    ///
    /// Follows every request through routers, queues, batches and caches of the engines as their
    /// schedulers would, and says what users would see, what the engines did and what it took.
    ///
    /// Exit code 0: the SLO is kept, or no SLO was given. 1: it is missed. 2: the input is
    /// wrong.
    Simulate(Box<Simulate>),
    /// Check a fleet file and draw it
    ///
    /// A fleet file says what there is: nodes, GPUs and how they are joined, racks, pools, MIG, health,
    /// queues and what each may take.
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Decide who runs where on a fleet, and say of those who wait why and what would help
    ///
    /// A fleet file says what there is, a job file what is asked of it and what runs already. The plan
    /// says who starts where; of each job that waits it says what is short, with numbers, and what would
    /// help, cheapest first: every fix was tried. `--why JOB` says it of one job in full, `--what-if`
    /// plans as if nodes came or went.
    ///
    /// Who goes first and who may go ahead is said by --order, --backfill and --starvation, or by the fleet
    /// file.
    ///
    /// Exit code 0: all are placed. 1: some wait, or are expected to end after their deadlines. 2: the
    /// input is wrong.
    Place(Box<Place>),
    /// Check a saved plan: does it hold together?
    ///
    /// Every action is held against the state that it meets: capacity, MIG geometry, gangs, quotas,
    /// topology, exclusive use, health, who may be disrupted. The check shares no rule with what plans.
    ///
    /// Exit code 0: it holds together. 1: it does not, or there is something to think about. 2: the input
    /// is wrong.
    Lint(Box<Lint>),
    /// Say what to add to a fleet, return or repartition, for what is asked of it
    ///
    /// The cheapest nodes with which more of those who wait find a place, until all do; nodes that can go
    /// together without anybody waiting, shrinking or slowing down for it; GPUs to repartition; and how
    /// many GPUs any policy could place at most.
    ///
    /// Exit code 0: all have a place. 1: some wait. 2: the input is wrong.
    Capacity(Box<Capacity>),
    /// Replay traces of clusters through the scheduler, policies side by side
    ///
    /// Every job of a trace is put to the scheduler in its order, and what each policy makes of the same
    /// fleet stands side by side: GPUs allocated, jobs placed and left over, times. Traces are files that
    /// you have: they are not shipped.
    ///
    /// Exit code 0: replayed. 2: the input is wrong.
    Replay(Box<Replay>),
    /// Try a saved deployment at light, expected and heavy load, and find where it breaks
    ///
    /// Simulates it at half the expected load and more, until it breaks; finds the largest load that
    /// keeps the SLO, under several seeds; and tries bursts, long prompts, a cold cache and a lost
    /// replica.
    ///
    /// Exit code 0: the SLO is kept at the expected load. 1: it is not. 2: the input is wrong.
    Validate(Box<Validate>),
    /// List GPUs of the catalogue, or check catalogue files
    ///
    /// Each with where its facts come from; one that is named alone in full. Rows are added or
    /// replaced by files of the catalogue's form in $GPUWISE_CATALOGUE (a file, a directory, or
    /// several of them), or in `catalogue` in the user's configuration directory.
    Gpus(Gpus),
    /// List models of the catalogue
    ///
    /// Each with where its shape comes from; one that is named alone in full. Diffusion, vision and embedding
    /// models (images, video, speech, embeddings, recommenders) are shown part by part, with what one
    /// input costs.
    Models(Models),
    /// List what can be rented, with prices
    ///
    /// Instances with what they cost an hour and where that is from; unknown prices come last.
    /// Exit code 1: none is like this.
    Offers(Offers),
    /// Say how long GEMMs, attention, experts and collectives take on a GPU under an engine
    #[command(subcommand)]
    Operators(OperatorsCommand),
    /// Show the published measurements nearest to a model and GPU, beside our figures
    ///
    /// Each with its source, and our figure for exactly that row. They are evidence, never the
    /// prediction. Exit code 1: none is near.
    Evidence(Box<Evidence>),
    /// Show predicted, simulated and measured figures side by side
    ///
    /// A saved deployment beside what was measured of it, or runs beside one another.
    Compare(compare::Flags),
    /// Say what a job did on its GPUs and what limits it, from a profiler's files
    ///
    /// Busy time, idle time by cause, communication and how much of it hides, kernels by kind, copies,
    /// steps, data loading, memory and who waits for whom, exact to the nanosecond. One file is one
    /// process; several are ranks of one job.
    ///
    /// Exit code 0: figures are there, with a word on what is missing. 2: no file can be used.
    Profile(Box<profile::Flags>),
    /// Answer a table of questions: latency, throughput or memory, row by row
    Predict(predict::Flags),
    /// Find the GPU, slice and count that fits each profiled workload
    ///
    /// Rules with thresholds from a file and a forest that was learned from measured workloads judge
    /// side by side, each with its reasons; both may abstain, and then times that are scaled from the
    /// profile decide. Prices are those of the catalogue's offers.
    ///
    /// Exit code 0: every workload has a tier. 1: one has none; why is said. 2: the input is wrong.
    Tier(Box<tier::Flags>),
    /// Say what demand comes some minutes ahead, as quantiles, and how good that was so far
    ///
    /// Several simple ways to forecast are weighed by how wrong each was lately; ranges are as wide as errors were,
    /// corrected until as many readings fall inside as were promised. Each forecast of the backtest is made from
    /// what came before it alone, and stands beside that of the last value.
    ///
    /// Exit code 0: forecast. 2: the input is wrong.
    Forecast(forecast::Flags),
    /// Scale services: what demand needs, what autoscalers make of it, and who is told
    #[command(subcommand)]
    Scale(scale::Command),
    /// Bill hosts over years: rented, owned, or both, with what to buy by when
    ///
    /// Of a saved deployment, or of hosts that flags name: on demand, reserved, spot, bought as the load
    /// grows or all at once, and a base of one's own with peaks rented; what a unit costs; from how many
    /// hours on owning pays; when today's hosts no longer suffice; which assumption matters most. Money is
    /// exact, and --export writes a sheet that a spreadsheet recomputes.
    ///
    /// Exit code 0: billed. 2: the input is wrong, or no price is known.
    Tco(Box<Tco>),
    /// Compare predictions with measured values, by GPU, model and metric
    Accuracy(accuracy::Flags),
    /// Correct predictions by rows measured on your own system, or refit the constants
    Calibrate(calibrate::Flags),
    /// Say who holds too much, too little or nothing at all, and what each fix would save
    ///
    /// Looks at the days before now in a Prometheus server, which is only read, or in tables of usage:
    /// idle GPUs, notebooks that sleep at night and at weekends, requests far above the peak, GPUs that
    /// wait for their CPUs, workloads that are too small. Each proposal comes with what it saves, the
    /// hours in which it would have been too little, and a patch; it is remembered, and --proof says
    /// what became of it.
    ///
    /// Exit code 0: the fleet was looked at. 2: the input is wrong, or nothing could be read.
    #[cfg(feature = "bench")]
    Audit(Box<audit::Flags>),
    /// List, compare and watch over what was measured before
    ///
    /// Runs are kept by `gpuwise profile --save`, in a database of your own or one that a team shares.
    #[cfg(feature = "database")]
    Runs(runs::Flags),
    /// Watch GPUs and serving engines live: what they do, what is wrong, since when
    ///
    /// Of this machine through the driver, of exporters, of a fleet through Prometheus, or from recorded
    /// output of nvidia-smi and others. On a terminal the table is redrawn in place; in a pipe every
    /// look is one line; `--format json` writes one document a line. A condition, a drift or the time can
    /// start another command.
    ///
    /// Exit code 0: nothing is found at the end. 1: something is. 2: nothing could be watched.
    Watch(Box<watch::Flags>),
    /// Write a workload file from the traffic that you have: server metrics or access logs
    Workload(Workload),
    /// Lease GPUs to tenants: a daemon that places, starts, meters and bills
    ///
    /// Who is allowed asks over HTTP (/v1, described at /openapi.json) or by `gpuwise lease`. What happened
    /// is kept in one log, in SQLite or PostgreSQL, before anybody is answered; a broker that is started
    /// again goes on where it was. It listens on this machine alone unless --listen says otherwise.
    ///
    /// Exit code 0: it was stopped. 2: the input is wrong, or the log cannot be written.
    #[cfg(feature = "serve")]
    Serve(Box<broker::Serve>),
    /// Pick the endpoint of each request of a gateway (endpoint picker, EPP)
    ///
    /// Envoy, and gateways built on it, ask by external processing over gRPC (ext_proc, FULL_DUPLEX_STREAMED or
    /// BUFFERED; with STREAMED or NONE by the headers alone); the endpoint goes back as the header and the metadata
    /// x-gateway-destination-endpoint. Rules of routing are those of `gpuwise simulate --router`; engines are asked
    /// at /metrics what they have to do. Who waits is told why: 503 where nobody answers, 429 where all are full.
    ///
    /// Exit code 0: it was stopped. 2: the input is wrong.
    #[cfg(feature = "serve")]
    Epp(Box<epp::Flags>),
    /// Answer as an inference engine would, at a given pace, with words that are made up
    ///
    /// OpenAI's API (chat and completions, streamed or whole), metrics by vLLM's names, and vLLM's sleep and
    /// wake: to try a gateway, a load generator or an autoscaler where there is no GPU.
    ///
    /// Exit code 0: it was stopped. 2: the input is wrong.
    #[cfg(feature = "serve")]
    Engine(broker::Engine),
    /// Say what this machine and its broker are ready for, and what is wrong
    ///
    /// GPUs and their driver, what processes of leases need, the log and its disk; and whether a broker answers,
    /// is ready, and takes the token.
    ///
    /// Exit code 0: nothing is wrong. 1: something is. 2: the input is wrong.
    #[cfg(feature = "serve")]
    Doctor(broker::Doctor),
    /// Place GPU pods of a Kubernetes cluster, beside kube-scheduler
    ///
    /// It sees the cluster by watches and decides as `gpuwise place` does. In mode `observe` it writes nothing
    /// but the status of its own objects; in mode `propose` it says of pods that wait where they would go, or
    /// why they wait; in mode `act` it takes gpuwise's scheduling gate off pods and names the node, and
    /// kube-scheduler binds them.
    #[cfg(feature = "kubernetes")]
    #[command(subcommand)]
    Operator(operator::Command),
    /// Create and list tenants of a broker: who leases and pays
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Tenant(broker::TenantCommand),
    /// Ask a broker for GPUs, or for what a model needs; list, explain and give back
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Lease(broker::LeaseCommand),
    /// Set and show SLOs of tenants and leases of a broker: error budgets, burn rates
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Slo(broker::SloCommand),
    /// List, accept and reject a broker's proposals to give services another size
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Proposal(broker::ProposalCommand),
    /// Tell a broker what leases used, and show it
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Usage(broker::UsageCommand),
    /// Show by what a broker's scheduler goes, and set another policy
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Policy(broker::PolicyCommand),
    /// Set, list and remove secrets that leases of a tenant get
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Secret(broker::SecretCommand),
    /// List a broker's nodes; add, cordon, drain and remove some; reload its fleet file
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Node(broker::NodeCommand),
    /// List GPUs that a broker keeps for tenants, keep some, and withdraw that
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Reservation(broker::ReservationCommand),
    /// Show a broker's price book, and set prices from a moment on
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Prices(broker::PriceCommand),
    /// Say what a tenant of a broker is charged for a month
    ///
    /// Granted and used side by side, each line rounded once; --format focus writes FOCUS 1.2 CSV, --format html
    /// a page that prints well.
    #[cfg(feature = "serve")]
    Statement(broker::StatementFlags),
    /// Show who holds GPUs of a broker, who waits and what it costs, live
    #[cfg(feature = "serve")]
    Top(broker::Top),
    /// Make, list and revoke tokens of a broker: who may ask it
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Token(broker::TokenCommand),
    /// Check, back up, restore and export the log of a broker
    ///
    /// The log is the record: all that a broker knows can be made from it.
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Store(broker::StoreCommand),
}

impl Command {
    /// The form of its answer where none is asked for: many rows of answers are for programs.
    pub const fn usual_format(&self) -> Format {
        match self {
            Self::Predict(_) => Format::Csv,
            _ => Format::Table,
        }
    }

    /// Whether its answer can be FOCUS, or a page.
    const fn has_focus(&self) -> bool {
        match self {
            #[cfg(feature = "serve")]
            Self::Statement(_) => true,
            _ => false,
        }
    }

    /// What the JSON of its answer is called; commands with several kinds of answers name the others
    /// where they give them.
    const fn answer(&self) -> AnswerName {
        match self {
            // A saved plan of a fleet is `gpuwise.plan/v1`.
            Self::Plan(_) => AnswerName::ServingPlan,
            Self::Train(_) => AnswerName::Train,
            Self::Memory(_) => AnswerName::Memory,
            Self::Table(_) => AnswerName::Table,
            Self::Check(_) => AnswerName::Check,
            Self::Composed(_) => AnswerName::Composed,
            Self::Optimize(_) => AnswerName::Optimize,
            #[cfg(feature = "bench")]
            Self::Bench(_) => AnswerName::Run,
            Self::Simulate(_) | Self::Validate(_) => AnswerName::Run,
            Self::Fleet(_) => AnswerName::Fleet,
            Self::Place(_) => AnswerName::Place,
            Self::Lint(_) => AnswerName::Lint,
            Self::Capacity(_) => AnswerName::Capacity,
            Self::Replay(_) => AnswerName::Replay,
            Self::Gpus(_) => AnswerName::Gpus,
            Self::Models(_) => AnswerName::Models,
            Self::Offers(_) => AnswerName::Offers,
            Self::Operators(_) => AnswerName::OperatorsShow,
            Self::Evidence(_) => AnswerName::Evidence,
            Self::Compare(_) => AnswerName::Compare,
            Self::Profile(_) => AnswerName::Profile,
            Self::Predict(_) => AnswerName::Predict,
            Self::Tier(_) => AnswerName::Tier,
            Self::Forecast(_) => AnswerName::Forecast,
            Self::Scale(_) => AnswerName::ScalePlan,
            Self::Tco(_) => AnswerName::Tco,
            Self::Accuracy(_) => AnswerName::Accuracy,
            Self::Calibrate(_) => AnswerName::Calibrate,
            #[cfg(feature = "bench")]
            Self::Audit(_) => AnswerName::Audit,
            #[cfg(feature = "database")]
            Self::Runs(_) => AnswerName::RunsList,
            Self::Watch(_) => AnswerName::Watch,
            Self::Workload(_) => AnswerName::Workload,
            #[cfg(feature = "serve")]
            Self::Serve(_) | Self::Engine(_) | Self::Epp(_) | Self::Lease(_) => AnswerName::Lease,
            #[cfg(feature = "serve")]
            Self::Doctor(_) => AnswerName::Doctor,
            #[cfg(feature = "kubernetes")]
            Self::Operator(_) => AnswerName::PodWhy,
            #[cfg(feature = "serve")]
            Self::Tenant(_) => AnswerName::Tenants,
            #[cfg(feature = "serve")]
            Self::Slo(_) => AnswerName::Slos,
            #[cfg(feature = "serve")]
            Self::Proposal(_) => AnswerName::Proposals,
            #[cfg(feature = "serve")]
            Self::Usage(_) => AnswerName::LeaseUsage,
            #[cfg(feature = "serve")]
            Self::Policy(_) => AnswerName::BrokerPolicy,
            #[cfg(feature = "serve")]
            Self::Secret(_) => AnswerName::Secrets,
            #[cfg(feature = "serve")]
            Self::Node(_) => AnswerName::Nodes,
            #[cfg(feature = "serve")]
            Self::Reservation(_) => AnswerName::Reservations,
            #[cfg(feature = "serve")]
            Self::Prices(_) => AnswerName::Prices,
            #[cfg(feature = "serve")]
            Self::Statement(_) => AnswerName::Statement,
            #[cfg(feature = "serve")]
            Self::Top(_) => AnswerName::Top,
            #[cfg(feature = "serve")]
            Self::Token(_) => AnswerName::Tokens,
            #[cfg(feature = "serve")]
            Self::Store(_) => AnswerName::StoreCheck,
        }
    }
}

/// Asks one of them.
///
/// # Errors
/// When a setting is wrong, or the answer cannot be given.
pub fn run(context: &Context, command: &Command) -> anyhow::Result<Exit> {
    let context = &context.answering(command.answer());
    if context.form.focus && !command.has_focus() {
        return Err(Problem::new("--format focus: only `gpuwise statement` writes FOCUS").into());
    }
    if context.form.html && !command.has_focus() {
        return Err(Problem::new("--format html: only `gpuwise statement` writes a page").into());
    }
    match command {
        Command::Plan(flags) => plan::run(context, flags),
        Command::Composed(flags) => composed::run(context, flags),
        Command::Optimize(flags) => optimize::run(context, flags),
        Command::Table(flags) => table::run(context, flags),
        Command::Train(flags) => train::run(context, flags),
        Command::Memory(flags) => memory::run(context, flags),
        Command::Check(flags) => check::run(context, flags),
        #[cfg(feature = "bench")]
        Command::Bench(flags) => bench::run(context, flags),
        Command::Fleet(command) => fleet::run(context, command),
        Command::Place(flags) => place::run(context, flags),
        Command::Lint(flags) => lint::run(context, flags),
        Command::Capacity(flags) => capacity::run(context, flags),
        Command::Replay(flags) => replay::run(context, flags),
        Command::Simulate(flags) => simulate::run(context, flags),
        Command::Validate(flags) => validate::run(context, flags),
        Command::Gpus(flags) => gpus::run(context, flags),
        Command::Models(flags) => models::run(context, flags),
        Command::Offers(flags) => offers::run(context, flags),
        Command::Operators(command) => operators::run(context, command),
        Command::Evidence(flags) => evidence::run(context, flags),
        Command::Compare(flags) => compare::run(context, flags),
        Command::Predict(flags) => predict::run(context, flags),
        Command::Profile(flags) => profile::run(context, flags),
        Command::Accuracy(flags) => accuracy::run(context, flags),
        Command::Calibrate(flags) => calibrate::run(context, flags),
        #[cfg(feature = "bench")]
        Command::Audit(flags) => audit::run(context, flags),
        #[cfg(feature = "database")]
        Command::Runs(flags) => runs::run(context, flags),
        Command::Forecast(flags) => forecast::run(context, flags),
        Command::Scale(command) => scale::run(context, command),
        Command::Tco(flags) => tco::run(context, flags),
        Command::Tier(flags) => tier::run(context, flags),
        Command::Watch(flags) => watch::run(context, flags),
        Command::Workload(flags) => workload::run(context, flags),
        #[cfg(feature = "serve")]
        Command::Serve(flags) => broker::serve(context, flags),
        #[cfg(feature = "serve")]
        Command::Epp(flags) => epp::run(context, flags),
        #[cfg(feature = "serve")]
        Command::Engine(flags) => broker::engine(context, flags),
        #[cfg(feature = "serve")]
        Command::Doctor(flags) => broker::doctor(context, flags),
        #[cfg(feature = "kubernetes")]
        Command::Operator(command) => operator::run(context, command),
        #[cfg(feature = "serve")]
        Command::Tenant(command) => broker::tenant(context, command),
        #[cfg(feature = "serve")]
        Command::Lease(command) => broker::lease(context, command),
        #[cfg(feature = "serve")]
        Command::Slo(command) => broker::slo(context, command),
        #[cfg(feature = "serve")]
        Command::Proposal(command) => broker::proposal(context, command),
        #[cfg(feature = "serve")]
        Command::Usage(command) => broker::usage(context, command),
        #[cfg(feature = "serve")]
        Command::Policy(command) => broker::policy(context, command),
        #[cfg(feature = "serve")]
        Command::Secret(command) => broker::secret(context, command),
        #[cfg(feature = "serve")]
        Command::Node(command) => broker::node(context, command),
        #[cfg(feature = "serve")]
        Command::Reservation(command) => broker::reservation(context, command),
        #[cfg(feature = "serve")]
        Command::Prices(command) => broker::prices(context, command),
        #[cfg(feature = "serve")]
        Command::Statement(flags) => broker::statement(context, flags),
        #[cfg(feature = "serve")]
        Command::Top(flags) => broker::top(context, flags),
        #[cfg(feature = "serve")]
        Command::Token(command) => broker::token(context, command),
        #[cfg(feature = "serve")]
        Command::Store(command) => broker::store(context, command),
    }
}

/// The model of a command whose requests are counted in tokens: by flags, or as a file or launch command names it.
pub(crate) fn model(
    flags: &ModelFlags,
    named: Option<&str>,
    loaded: &Loaded,
    app: &App,
) -> anyhow::Result<ResolvedModel> {
    any_model(flags, named, loaded, app)?.of_text()
}

/// The same, also where it takes audio.
pub(crate) fn any_model(
    flags: &ModelFlags,
    named: Option<&str>,
    loaded: &Loaded,
    app: &App,
) -> anyhow::Result<ResolvedModel> {
    match (flags.model.as_deref(), flags.numbers.given()) {
        (Some(name), true) => Err(Problem::new(format!("model {name:?} and numbers are given; one of them is enough"))
            .hint("leave --params, --layers and the like out, or the name")
            .into()),
        (Some(name), false) => model::resolve(name, loaded, app.offline),
        (None, true) => flags.numbers.resolve(),
        (None, false) => match named {
            Some(name) => model::resolve(name, loaded, app.offline),
            None => Err(Problem::new("no model is named")
                .hint("name one of `gpuwise models`, a directory with a config.json, a GGUF file, or --params and --layers")
                .into()),
        },
    }
}

/// The model that drafts, as `--draft-model` names it.
pub(crate) fn draft_model(
    name: Option<&str>,
    tokens: u32,
    loaded: &Loaded,
    app: &App,
) -> anyhow::Result<Option<ResolvedModel>> {
    let Some(name) = name else { return Ok(None) };
    if tokens == 0 {
        return Err(Problem::new(format!(
            "--draft-model {name}: nothing says how many tokens it drafts a step"
        ))
        .hint("add --draft-tokens 4")
        .into());
    }
    model::resolve(name, loaded, app.offline)
        .and_then(ResolvedModel::of_text)
        .map(Some)
        .context("--draft-model")
}

/// Whether an engine can draft for a model as it is asked to.
pub(crate) fn can_draft(
    model: &ResolvedModel,
    draft: Option<&ResolvedModel>,
    tokens: u32,
    engine: EngineKind,
) -> anyhow::Result<()> {
    let own = &model.architecture;
    match draft {
        _ if tokens == 0 => Ok(()),
        None if own.prediction.is_empty() => Err(Problem::new(format!(
            "--draft-tokens {tokens}: {} has no prediction layers that could draft",
            model.name
        ))
        .hint("name a smaller model of the same vocabulary: --draft-model NAME")
        .into()),
        // Other engines translate between vocabularies, or take those that hardly differ.
        Some(draft)
            if engine == EngineKind::Vllm && draft.architecture.vocabulary != own.vocabulary =>
        {
            Err(Problem::new(format!(
                "--draft-model {}: its vocabulary has {} tokens, that of {} has {}, and vLLM takes a draft model of the same vocabulary only",
                draft.name, draft.architecture.vocabulary, model.name, own.vocabulary
            ))
            .hint("name a model of the same family")
            .into())
        }
        _ => Ok(()),
    }
}
