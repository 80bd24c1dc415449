//! An independent check of plans against a world: what no plan may do.
//!
//! It shares no rule with the kernel. It keeps an account of its own of what each GPU and node holds,
//! walks the actions in their order, each as done before the next, and says what does not hold. Its
//! account of geometry is sets of memory slices, of capacity lists of who is where. Only what a plan
//! touches is looked at, so that every step of a replay can be checked.

mod account;
mod assignments;
mod devices;
mod disruptions;
mod limits;
mod live;
mod whole;
mod wishes;

pub use whole::lint_world;

use crate::world::World;
use account::Account;
use gpuwise_domain::placement::{Action, GpuId, JobId, NodeId, Plan};
use gpuwise_units::Nanoseconds;

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub severity: Severity,
    pub rule: Rule,
    /// Which action of the plan, counted from 0; `None`: the plan as a whole, or the world.
    pub action: Option<u32>,
    pub what: String,
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Severity: name {
        /// It can be carried out, and somebody will not like it, or it cannot be told.
        Warning = "warning",
        /// It must not be carried out.
        Error = "error",
    }
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Rule: name {
        /// The plan continues the plan in force, and time goes forward.
        Parent = "parent",
        /// Something named does not exist.
        Unknown = "unknown",
        /// A job waits, runs or is reclaimed, as the action needs.
        Phase = "phase",
        /// Processor time, memory and GPUs are there.
        Capacity = "capacity",
        /// An assignment has what its worker asks for, of a kind that it accepts.
        Ask = "ask",
        /// All workers of a gang, no fewer than its least and no more than its most.
        Gang = "gang",
        /// A GPU is held by one whole, or shared in one way.
        Exclusive = "exclusive",
        /// What is used is healthy and attached.
        Health = "health",
        /// MIG instances lie where the board allows them.
        Geometry = "geometry",
        /// Pooled GPUs, their hosts and slots.
        Fabric = "fabric",
        /// Workers are as near each other as they must be.
        Topology = "topology",
        /// Workers are as far from each other as they must be.
        Spread = "spread",
        /// What a queue may take.
        Quota = "quota",
        /// What is kept for somebody else.
        Reservation = "reservation",
        /// What failed is not tried again at once, and what is held back does not start.
        BackOff = "back-off",
        /// What may still run on a node that does not answer is not started elsewhere, and not counted on.
        Fence = "fence",
        /// Who may be disrupted, for whom and how often.
        Disruption = "disruption",
        /// A deadline is kept.
        Deadline = "deadline",
        /// What the world says of itself agrees.
        Sums = "sums",
    }
}

/// How much a plan may disrupt; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Jobs that it may preempt, move or reclaim.
    pub disrupted: Option<u32>,
    /// GPU-time of others that it may lose: half a checkpoint's interval and a restart on each GPU.
    pub lost: Option<Nanoseconds>,
}

impl Limits {
    pub const NONE: Self = Self {
        disrupted: None,
        lost: None,
    };
}

/// Holds a plan against a world and says what does not hold; nothing: the plan can be carried out and
/// does nobody wrong.
pub fn lint(world: &World, plan: &Plan, limits: Limits) -> Vec<Note> {
    let mut check = Check::new(world, plan);
    if plan.parent != world.target() {
        let what = format!(
            "the plan continues plan {}, but plan {} is in force",
            plan.parent,
            world.target()
        );
        check.say(Severity::Error, Rule::Parent, None, what);
    }
    if plan.number != plan.parent.wrapping_add(1) {
        let what = format!(
            "the plan has number {} but its parent has {}",
            plan.number, plan.parent
        );
        check.say(Severity::Error, Rule::Parent, None, what);
    }
    if plan.made < world.now() {
        let what = "the plan is older than what has happened since".to_owned();
        check.say(Severity::Error, Rule::Parent, None, what);
    }
    for (at, action) in plan.actions.iter().enumerate() {
        check.at = u32::try_from(at).ok();
        check.action(action);
    }
    check.at = None;
    check.disruptions(plan, limits);
    check.notes
}

/// Only notes that say that a plan must not be carried out.
pub fn errors(notes: &[Note]) -> impl Iterator<Item = &Note> {
    notes.iter().filter(|note| note.severity == Severity::Error)
}

/// A walk over a plan's actions.
struct Check<'w> {
    world: &'w World,
    account: Account<'w>,
    now: Nanoseconds,
    at: Option<u32>,
    notes: Vec<Note>,
}

impl<'w> Check<'w> {
    fn new(world: &'w World, plan: &Plan) -> Self {
        Self {
            world,
            account: Account::new(world),
            now: plan.made,
            at: None,
            notes: Vec::new(),
        }
    }

    fn say(&mut self, severity: Severity, rule: Rule, action: Option<u32>, what: String) {
        self.notes.push(Note {
            severity,
            rule,
            action,
            what,
        });
    }

    fn error(&mut self, rule: Rule, what: String) {
        self.say(Severity::Error, rule, self.at, what);
    }

    fn warn(&mut self, rule: Rule, what: String) {
        self.say(Severity::Warning, rule, self.at, what);
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Place { job, assignments } => self.place(*job, assignments),
            Action::Restore { job, assignments } => self.restore(*job, assignments),
            Action::Move {
                job,
                assignments,
                cause,
            } => self.moved(*job, assignments, *cause),
            Action::Resize { job, assignments } => self.resize(*job, assignments),
            Action::Preempt { job, cause } => self.preempt(*job, *cause),
            Action::Reclaim { job } => self.reclaim(*job),
            Action::SetMig { gpu, on } => self.set_mig(*gpu, *on),
            Action::CreateInstance { gpu, shape, start } => {
                self.create_instance(*gpu, *shape, *start);
            }
            Action::DestroyInstance { gpu, start } => self.destroy_instance(*gpu, *start),
            Action::Attach { gpu, node } => self.attach(*gpu, *node),
            Action::Detach { gpu } => self.detach(*gpu),
        }
    }

    fn job_name(&self, id: JobId) -> String {
        job_name(self.world, id)
    }

    fn node_name(&self, id: NodeId) -> String {
        node_name(self.world, id)
    }

    fn gpu_name(&self, id: GpuId) -> String {
        gpu_name(self.world, id)
    }
}

fn job_name(world: &World, id: JobId) -> String {
    world.job(id).map_or_else(
        || format!("job {id}"),
        |state| format!("job {}", state.job.name),
    )
}

fn node_name(world: &World, id: NodeId) -> String {
    world.node(id).map_or_else(
        || format!("node {id}"),
        |state| format!("node {}", state.node.name),
    )
}

/// A GPU by its number in its node or pool.
fn gpu_name(world: &World, id: GpuId) -> String {
    use gpuwise_domain::placement::Home;
    let Some(state) = world.gpu(id) else {
        return format!("GPU #{id}");
    };
    let home = match state.gpu.home {
        Home::Node(node) => world.node(node).map(|node| node.node.name.as_str()),
        Home::Pool(pool) => world.pools().get(pool.index()).map(|p| p.name.as_str()),
    };
    format!("GPU {} of {}", state.gpu.index, home.unwrap_or("nowhere"))
}
