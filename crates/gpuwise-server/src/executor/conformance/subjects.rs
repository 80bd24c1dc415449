//! The executors that are held to the suite.

use super::super::local::tests::Stop;
use super::super::{
    Composed, Delays, Executor, Local, LocalSettings, Own, RunAs, Shows, Simulated, Slurm,
    SlurmSettings,
};
use crate::{message::Incoming, redfish};
use gpuwise_domain::placement::{GpuAsk, Kinds, Need, SliceAsk};
use std::{
    cell::Cell,
    fs,
    path::PathBuf,
    sync::mpsc::Sender,
    time::{Duration, Instant},
};

pub(super) trait Subject {
    /// An executor over the subject's state.
    fn executor(&self, inbox: Sender<Incoming>) -> Box<dyn Executor>;

    /// How many programs run for a lease; `None`: nothing really runs.
    fn runs(&self, lease: u32) -> Option<usize>;

    /// A command that stays.
    fn stays(&self) -> Vec<String>;

    /// The node of its fleet.
    fn node(&self) -> String {
        "n0".into()
    }

    /// How long nothing is told where nothing will be, in steps of some milliseconds.
    fn quiet(&self) -> u32 {
        250
    }

    /// What its leases are given.
    fn part(&self) -> GpuAsk {
        GpuAsk::Whole {
            count: 1,
            kinds: Kinds::ANY,
            need: Need::default(),
        }
    }

    /// Commands that the subject may not have.
    fn ends(&self, _code: i32) -> Option<Vec<String>> {
        None
    }
    fn ends_when_told(&self, _code: i32) -> Option<Vec<String>> {
        None
    }
    fn tell_to_end(&self, _lease: u32) {}
    fn is_not_there(&self) -> Option<Vec<String>> {
        None
    }
    fn does_not_listen(&self) -> Option<Vec<String>> {
        None
    }
    /// Until a command that does not listen has come so far.
    fn has_begun(&self, _lease: u32) {}
}

/// GPUs that are not there.
pub(super) struct Simulation;

pub(super) fn simulated() -> Simulation {
    Simulation
}

impl Subject for Simulation {
    fn executor(&self, _inbox: Sender<Incoming>) -> Box<dyn Executor> {
        Box::new(Simulated::new(Delays::USUAL))
    }

    fn runs(&self, _lease: u32) -> Option<usize> {
        None
    }

    fn stays(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What runs on hosts that are composed is the inner executor's, whether or not their service answers.
pub(super) struct Hosts;

pub(super) fn composed() -> Hosts {
    Hosts
}

impl Subject for Hosts {
    fn executor(&self, inbox: Sender<Incoming>) -> Box<dyn Executor> {
        let inner = Simulation.executor(inbox.clone());
        let nobody = redfish::Settings::new("http://127.0.0.1:9");
        Box::new(Composed::new(inner, nobody, inbox).expect("begins"))
    }

    fn runs(&self, lease: u32) -> Option<usize> {
        Simulation.runs(lease)
    }

    fn stays(&self) -> Vec<String> {
        Simulation.stays()
    }
}

/// Processes of this machine, on whole GPUs or on MIG instances.
pub(super) struct Processes {
    pub(super) state: tempfile::TempDir,
    cut: bool,
    /// The log of the next executor, by the name of its folder.
    pub(super) log: Cell<&'static str>,
    /// Where the next executor ends while it starts something.
    pub(super) stops: Cell<Option<Stop>>,
    /// Where the next executor keeps what it knows, in place of `state`.
    pub(super) elsewhere: Cell<Option<PathBuf>>,
}

pub(super) fn processes() -> Processes {
    Processes::new()
}

pub(super) fn instances() -> Processes {
    Processes {
        cut: true,
        ..Processes::new()
    }
}

/// Jobs of a real Slurm, on the node that `GPUWISE_SLURM_NODE` names; none where that is not said.
pub(super) fn slurm() -> Option<Cluster> {
    let Ok(node) = std::env::var("GPUWISE_SLURM_NODE") else {
        gpuwise_needs::skipped("GPUWISE_SLURM_NODE does not name a node of a Slurm cluster");
        return None;
    };
    let make = |state: PathBuf, inbox| -> Box<dyn Executor> {
        let settings = SlurmSettings {
            every: Duration::from_millis(100),
            ..SlurmSettings::USUAL
        };
        // Logs of the suite begin at one time: each is known by a name of its own.
        let name = state.join("slurm.id");
        if !name.exists() {
            let mut bytes = [0_u8; 6];
            getrandom::fill(&mut bytes).expect("is drawn");
            let drawn = bytes.map(|byte| format!("{byte:02x}")).concat();
            fs::write(name, drawn).expect("writes");
        }
        let slurm = Slurm::new(settings, state, inbox, Shows::default());
        Box::new(slurm.expect("begins"))
    };
    Some(Cluster {
        node,
        programs: Processes::new(),
        make: Box::new(make),
    })
}

impl Processes {
    pub(super) fn new() -> Self {
        let state = tempfile::tempdir().expect("a folder");
        Self {
            state,
            cut: false,
            log: Cell::new("log"),
            stops: Cell::new(None),
            elsewhere: Cell::new(None),
        }
    }

    pub(super) fn script(&self, text: &str) -> Vec<String> {
        let folder = self.state.path().display().to_string();
        let text = text.replace("STATE", &folder);
        ["sh", "-c", &text].map(String::from).to_vec()
    }

    pub(super) fn file(&self, lease: u32, name: &str) -> PathBuf {
        self.state.path().join(format!("L-{lease}.{name}"))
    }
}

impl Subject for Processes {
    fn executor(&self, inbox: Sender<Incoming>) -> Box<dyn Executor> {
        let state = self.state.path().join(self.log.get());
        let settings = LocalSettings {
            run_as: RunAs {
                same_account: true,
                ..RunAs::default()
            },
            log_size: 1 << 20,
            ..LocalSettings::default()
        };
        let mut own = Own::in_test(state);
        if let Some(elsewhere) = self.elsewhere.take() {
            own.state = elsewhere;
        }
        let local = Local::new(settings, own, inbox, Shows::default(), None);
        Box::new(match self.stops.take() {
            Some(stop) => local.stopping_at(stop),
            None => local,
        })
    }

    fn part(&self) -> GpuAsk {
        if self.cut {
            return GpuAsk::Slice {
                slice: SliceAsk {
                    memory_mib: 0,
                    units: 0,
                    compute: 1,
                    memory_slices: 1,
                    media: false,
                },
                kinds: Kinds::ANY,
            };
        }
        Simulation.part()
    }

    fn runs(&self, lease: u32) -> Option<usize> {
        // A program writes its number when it begins; more than one line: it was started more than once.
        let text = fs::read_to_string(self.file(lease, "runs")).unwrap_or_default();
        let runs = |line: &&str| {
            let stat = fs::read_to_string(format!("/proc/{line}/stat")).unwrap_or_default();
            // What has ended and nobody asked for does not run.
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| !rest.starts_with('Z'))
        };
        let alive = text.lines().filter(runs);
        Some(alive.count())
    }

    fn stays(&self) -> Vec<String> {
        self.script("echo $$ >> STATE/$GPUWISE_LEASE.runs; exec sleep 600")
    }

    fn ends(&self, code: i32) -> Option<Vec<String>> {
        Some(self.script(&format!("exit {code}")))
    }

    fn ends_when_told(&self, code: i32) -> Option<Vec<String>> {
        let text = "until [ -e STATE/$GPUWISE_LEASE.end ]; do sleep 0.02; done; \
                    echo > STATE/$GPUWISE_LEASE.over; exit";
        Some(self.script(&format!("{text} {code}")))
    }

    fn tell_to_end(&self, lease: u32) {
        fs::write(self.file(lease, "end"), "").expect("writes");
        self.wait(lease, "over");
    }

    fn is_not_there(&self) -> Option<Vec<String>> {
        Some(vec!["gpuwise-no-such-program".into()])
    }

    fn does_not_listen(&self) -> Option<Vec<String>> {
        let text = "echo $$ >> STATE/$GPUWISE_LEASE.runs; trap '' TERM; \
                    echo > STATE/$GPUWISE_LEASE.begun; while :; do sleep 0.05; done";
        Some(self.script(text))
    }

    fn has_begun(&self, lease: u32) {
        self.wait(lease, "begun");
    }
}

impl Processes {
    pub(super) fn wait(&self, lease: u32, name: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        while !self.file(lease, name).exists() {
            assert!(Instant::now() < end, "{name} never came");
            std::thread::yield_now();
        }
    }
}

/// The same programs on a node of a cluster, which is this machine.
pub(super) struct Cluster {
    pub(super) node: String,
    pub(super) programs: Processes,
    /// Who runs them there, with a folder of its own.
    pub(super) make: Box<Make>,
}

type Make = dyn Fn(PathBuf, Sender<Incoming>) -> Box<dyn Executor>;

impl Subject for Cluster {
    fn executor(&self, inbox: Sender<Incoming>) -> Box<dyn Executor> {
        (self.make)(self.programs.state.path().to_path_buf(), inbox)
    }

    fn node(&self) -> String {
        self.node.clone()
    }

    fn quiet(&self) -> u32 {
        2000
    }

    fn runs(&self, lease: u32) -> Option<usize> {
        self.programs.runs(lease)
    }
    fn stays(&self) -> Vec<String> {
        self.programs.stays()
    }
    fn ends(&self, code: i32) -> Option<Vec<String>> {
        self.programs.ends(code)
    }
    fn ends_when_told(&self, code: i32) -> Option<Vec<String>> {
        self.programs.ends_when_told(code)
    }
    fn tell_to_end(&self, lease: u32) {
        self.programs.tell_to_end(lease);
    }
    fn is_not_there(&self) -> Option<Vec<String>> {
        self.programs.is_not_there()
    }
    fn does_not_listen(&self) -> Option<Vec<String>> {
        self.programs.does_not_listen()
    }
    fn has_begun(&self, lease: u32) {
        self.programs.has_begun(lease);
    }
}
