//! Saved plans: ordered actions on a fleet, by names, with the files that say what the fleet was.

use crate::{WireError, read, written};
use gpuwise_domain::placement::{
    Action, Assignment, Cause, Fleet, GpuId, GpuShare, Home, Isolation, JobId, NodeId, Part, Plan,
};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The schema of saved plans.
pub const PLAN_SCHEMA: &str = "gpuwise.plan/v1";

/// A saved plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// `gpuwise.plan/v1`.
    schema: String,
    /// The plan.
    plan: PlanDocument,
    /// The state that it was made against; null where it was too large to be kept.
    #[serde(default)]
    state: Option<StateDocument>,
}

/// Ordered actions, and of which plan they are the continuation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PlanDocument {
    /// Its number: one above its parent's.
    number: u64,
    /// The plan that it continues.
    parent: u64,
    /// When it was made, in nanoseconds from the fleet's beginning.
    made_ns: u64,
    /// What is done, in this order.
    actions: Vec<ActionDocument>,
}

/// The files that describe a fleet and its jobs, word for word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StateDocument {
    /// The fleet file's text.
    pub fleet: String,
    /// The job file's text.
    pub jobs: String,
    /// The text of the fabric file that the fleet file names.
    #[serde(default)]
    pub fabric: Option<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum ActionDocument {
    /// Starts a job.
    Place {
        /// Its name.
        job: String,
        /// One assignment for each worker.
        assignments: Vec<AssignmentDocument>,
    },
    /// Stops a job; it waits again.
    Preempt {
        /// Its name.
        job: String,
        /// For whom or what.
        cause: CauseDocument,
    },
    /// Moves a job.
    Move {
        /// Its name.
        job: String,
        /// All its assignments afterwards.
        assignments: Vec<AssignmentDocument>,
        /// For whom or what.
        cause: CauseDocument,
    },
    /// Gives an elastic job more or fewer workers.
    Resize {
        /// Its name.
        job: String,
        /// All its assignments afterwards.
        assignments: Vec<AssignmentDocument>,
    },
    /// Switches MIG on or off.
    SetMig {
        /// Which GPU.
        gpu: GpuName,
        /// On or off.
        on: bool,
    },
    /// Creates a MIG instance.
    CreateInstance {
        /// On which GPU.
        gpu: GpuName,
        /// Of which profile.
        profile: String,
        /// At which memory slice.
        start: u8,
    },
    /// Destroys an idle MIG instance.
    DestroyInstance {
        /// On which GPU.
        gpu: GpuName,
        /// At which memory slice it starts.
        start: u8,
    },
    /// Attaches a pooled GPU.
    Attach {
        /// Which.
        gpu: GpuName,
        /// To which node.
        node: String,
    },
    /// Gives a pooled GPU back.
    Detach {
        /// Which.
        gpu: GpuName,
    },
    /// Takes the GPUs of an idle holder.
    Reclaim {
        /// Its name.
        job: String,
    },
    /// Gives GPUs back to one who was idle.
    Restore {
        /// Its name.
        job: String,
        /// One assignment for each worker.
        assignments: Vec<AssignmentDocument>,
    },
}

/// Why somebody is disrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum CauseDocument {
    /// For the job of this name.
    For(String),
    /// To have fewer pieces.
    Defragmentation,
    /// Its node or GPU is to be empty.
    Drain,
    /// A queue takes back what it lent.
    Reclaim,
    /// Its turn is over.
    RoundEnd,
    /// It lost workers and cannot run with those that are left.
    Lost,
    /// It is where nobody wanted it to be.
    Drift,
}

/// A GPU by its number in a node or a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct GpuName {
    /// Its node, where it is in one for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Its pool, where it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    /// Its number there, as the driver counts.
    index: u32,
}

/// Where one worker runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AssignmentDocument {
    /// On which node.
    node: String,
    /// On which GPUs, in rank order.
    gpus: Vec<ShareDocument>,
}

/// What a worker has of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ShareDocument {
    /// Which GPU.
    gpu: GpuName,
    /// What of it; null: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<PartDocument>,
}

/// What of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum PartDocument {
    /// A part by time.
    Fraction {
        /// Thousandths of its time.
        milli: u32,
        /// Memory in MiB; 0: nothing was said of it.
        memory_mib: u32,
        /// `time-slice`, `mps`, `vgpu`, or `pair`: turns of two jobs that asked for the whole GPU.
        isolation: String,
        /// What both of a pair do together, in thousandths of what the GPU does for one alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gain_milli: Option<u32>,
    },
    /// A MIG instance.
    Slice {
        /// Its profile.
        profile: String,
        /// The memory slice at which it starts.
        start: u8,
    },
}

/// A plan as a document (`gpuwise.plan/v1`), indented, with a line end. `job` names jobs.
pub fn plan_to_json(
    plan: &Plan,
    fleet: &Fleet,
    job: &dyn Fn(JobId) -> String,
    state: Option<StateDocument>,
) -> String {
    let names = Names { fleet, job };
    written(&PlanFile {
        schema: PLAN_SCHEMA.into(),
        plan: PlanDocument {
            number: plan.number,
            parent: plan.parent,
            made_ns: plan.made.0,
            actions: plan.actions.iter().map(|one| names.action(one)).collect(),
        },
        state,
    })
}

/// Reads a saved plan; what its names mean is told by [`PlanFile::plan`].
///
/// # Errors
/// When it is no JSON, of another schema or version, or a field is missing, unknown or cannot be.
pub fn plan_from_json(text: &str) -> Result<PlanFile, WireError> {
    read(text, PLAN_SCHEMA)
}

impl PlanFile {
    /// The state that it was made against.
    pub fn state(&self) -> Option<&StateDocument> {
        self.state.as_ref()
    }

    /// The plan on a fleet and its jobs; `job` finds a job by its name.
    ///
    /// # Errors
    /// With the place of a name that means nothing there.
    pub fn plan(
        &self,
        fleet: &Fleet,
        job: &dyn Fn(&str) -> Option<JobId>,
    ) -> Result<Plan, WireError> {
        let nodes = fleet.nodes.iter().zip(0..);
        let gpus = fleet.gpus.iter().zip(0..);
        let look = Look {
            fleet,
            job,
            nodes: nodes
                .map(|(node, id)| (node.name.as_str(), NodeId(id)))
                .collect(),
            gpus: gpus
                .map(|(gpu, id)| (key(gpu.home, gpu.index), GpuId(id)))
                .collect(),
        };
        let actions = self.plan.actions.iter().enumerate();
        let actions = actions.map(|(at, action)| {
            look.action(action).map_err(|problem| WireError::Field {
                path: format!("plan.actions[{at}]"),
                problem,
            })
        });
        Ok(Plan {
            number: self.plan.number,
            parent: self.plan.parent,
            made: Nanoseconds(self.plan.made_ns),
            actions: actions.collect::<Result<_, _>>()?,
        })
    }
}

/// Numbers to names.
struct Names<'a> {
    fleet: &'a Fleet,
    job: &'a dyn Fn(JobId) -> String,
}

impl Names<'_> {
    fn action(&self, action: &Action) -> ActionDocument {
        let job = |id: &JobId| (self.job)(*id);
        match action {
            Action::Place {
                job: id,
                assignments,
            } => ActionDocument::Place {
                job: job(id),
                assignments: self.assignments(assignments),
            },
            Action::Preempt { job: id, cause } => ActionDocument::Preempt {
                job: job(id),
                cause: self.cause(*cause),
            },
            Action::Move {
                job: id,
                assignments,
                cause,
            } => ActionDocument::Move {
                job: job(id),
                assignments: self.assignments(assignments),
                cause: self.cause(*cause),
            },
            Action::Resize {
                job: id,
                assignments,
            } => ActionDocument::Resize {
                job: job(id),
                assignments: self.assignments(assignments),
            },
            Action::SetMig { gpu, on } => ActionDocument::SetMig {
                gpu: self.gpu(*gpu),
                on: *on,
            },
            Action::CreateInstance { gpu, shape, start } => ActionDocument::CreateInstance {
                gpu: self.gpu(*gpu),
                profile: self.profile(*gpu, *shape),
                start: *start,
            },
            Action::DestroyInstance { gpu, start } => ActionDocument::DestroyInstance {
                gpu: self.gpu(*gpu),
                start: *start,
            },
            Action::Attach { gpu, node } => ActionDocument::Attach {
                gpu: self.gpu(*gpu),
                node: self.node(*node),
            },
            Action::Detach { gpu } => ActionDocument::Detach {
                gpu: self.gpu(*gpu),
            },
            Action::Reclaim { job: id } => ActionDocument::Reclaim { job: job(id) },
            Action::Restore {
                job: id,
                assignments,
            } => ActionDocument::Restore {
                job: job(id),
                assignments: self.assignments(assignments),
            },
        }
    }

    fn cause(&self, cause: Cause) -> CauseDocument {
        match cause {
            Cause::For(job) => CauseDocument::For((self.job)(job)),
            Cause::Defragmentation => CauseDocument::Defragmentation,
            Cause::Drain => CauseDocument::Drain,
            Cause::Reclaim => CauseDocument::Reclaim,
            Cause::RoundEnd => CauseDocument::RoundEnd,
            Cause::Lost => CauseDocument::Lost,
            Cause::Drift => CauseDocument::Drift,
        }
    }

    fn node(&self, id: NodeId) -> String {
        let node = self.fleet.nodes.get(id.index());
        node.map_or_else(|| format!("#{id}"), |node| node.name.clone())
    }

    fn gpu(&self, id: GpuId) -> GpuName {
        let Some(gpu) = self.fleet.gpus.get(id.index()) else {
            return GpuName {
                node: None,
                pool: None,
                index: id.0,
            };
        };
        let pool = match gpu.home {
            Home::Pool(pool) => self.fleet.pools.get(pool.index()).map(|p| p.name.clone()),
            Home::Node(_) => None,
        };
        let node = match gpu.home {
            Home::Node(node) => Some(self.node(node)),
            Home::Pool(_) => None,
        };
        GpuName {
            node,
            pool,
            index: gpu.index,
        }
    }

    fn profile(&self, gpu: GpuId, shape: u8) -> String {
        let kind = self.fleet.gpus.get(gpu.index());
        let kind = kind.and_then(|gpu| self.fleet.kinds.get(gpu.kind.index()));
        let row = kind.and_then(|kind| kind.mig.as_ref()?.shapes.get(usize::from(shape)));
        row.map_or_else(|| format!("#{shape}"), |row| row.profile.clone())
    }

    fn assignments(&self, assignments: &[Assignment]) -> Vec<AssignmentDocument> {
        let share = |share: &GpuShare| ShareDocument {
            gpu: self.gpu(share.gpu),
            part: match share.part {
                Part::Whole => None,
                Part::Fraction {
                    milli,
                    memory_mib,
                    isolation,
                } => Some(PartDocument::Fraction {
                    milli,
                    memory_mib,
                    isolation: isolation.name().into(),
                    gain_milli: match isolation {
                        Isolation::Pair { gain_milli } => Some(gain_milli),
                        _ => None,
                    },
                }),
                Part::Slice { shape, start } => Some(PartDocument::Slice {
                    profile: self.profile(share.gpu, shape),
                    start,
                }),
            },
        };
        let assignment = |assignment: &Assignment| AssignmentDocument {
            node: self.node(assignment.node),
            gpus: assignment.gpus.iter().map(share).collect(),
        };
        assignments.iter().map(assignment).collect()
    }
}

/// Names to numbers.
struct Look<'a> {
    fleet: &'a Fleet,
    job: &'a dyn Fn(&str) -> Option<JobId>,
    nodes: BTreeMap<&'a str, NodeId>,
    gpus: BTreeMap<(bool, u32, u32), GpuId>,
}

/// A GPU's place: whether in a pool, in which or in which node, and its number there.
const fn key(home: Home, index: u32) -> (bool, u32, u32) {
    match home {
        Home::Node(node) => (false, node.0, index),
        Home::Pool(pool) => (true, pool.0, index),
    }
}

impl Look<'_> {
    fn action(&self, action: &ActionDocument) -> Result<Action, String> {
        Ok(match action {
            ActionDocument::Place { job, assignments } => Action::Place {
                job: self.job(job)?,
                assignments: self.assignments(assignments)?,
            },
            ActionDocument::Preempt { job, cause } => Action::Preempt {
                job: self.job(job)?,
                cause: self.cause(cause)?,
            },
            ActionDocument::Move {
                job,
                assignments,
                cause,
            } => Action::Move {
                job: self.job(job)?,
                assignments: self.assignments(assignments)?,
                cause: self.cause(cause)?,
            },
            ActionDocument::Resize { job, assignments } => Action::Resize {
                job: self.job(job)?,
                assignments: self.assignments(assignments)?,
            },
            ActionDocument::SetMig { gpu, on } => Action::SetMig {
                gpu: self.gpu(gpu)?,
                on: *on,
            },
            ActionDocument::CreateInstance {
                gpu,
                profile,
                start,
            } => {
                let gpu = self.gpu(gpu)?;
                Action::CreateInstance {
                    gpu,
                    shape: self.shape(gpu, profile)?,
                    start: *start,
                }
            }
            ActionDocument::DestroyInstance { gpu, start } => Action::DestroyInstance {
                gpu: self.gpu(gpu)?,
                start: *start,
            },
            ActionDocument::Attach { gpu, node } => Action::Attach {
                gpu: self.gpu(gpu)?,
                node: self.node(node)?,
            },
            ActionDocument::Detach { gpu } => Action::Detach {
                gpu: self.gpu(gpu)?,
            },
            ActionDocument::Reclaim { job } => Action::Reclaim {
                job: self.job(job)?,
            },
            ActionDocument::Restore { job, assignments } => Action::Restore {
                job: self.job(job)?,
                assignments: self.assignments(assignments)?,
            },
        })
    }

    fn job(&self, name: &str) -> Result<JobId, String> {
        (self.job)(name).ok_or_else(|| format!("there is no job {name:?}"))
    }

    fn cause(&self, cause: &CauseDocument) -> Result<Cause, String> {
        Ok(match cause {
            CauseDocument::For(job) => Cause::For(self.job(job)?),
            CauseDocument::Defragmentation => Cause::Defragmentation,
            CauseDocument::Drain => Cause::Drain,
            CauseDocument::Reclaim => Cause::Reclaim,
            CauseDocument::RoundEnd => Cause::RoundEnd,
            CauseDocument::Lost => Cause::Lost,
            CauseDocument::Drift => Cause::Drift,
        })
    }

    fn node(&self, name: &str) -> Result<NodeId, String> {
        let found = self.nodes.get(name).copied();
        found.ok_or_else(|| format!("there is no node {name:?}"))
    }

    fn gpu(&self, name: &GpuName) -> Result<GpuId, String> {
        let home = match (&name.node, &name.pool) {
            (Some(node), None) => Home::Node(self.node(node)?),
            (None, Some(pool)) => {
                let mut pools = self.fleet.pools.iter().zip(0..);
                let found = pools.find(|(one, _)| one.name == *pool);
                let (_, id) = found.ok_or_else(|| format!("there is no pool {pool:?}"))?;
                Home::Pool(gpuwise_domain::placement::PoolId(id))
            }
            _ => return Err("a GPU is in a node or of a pool: say one of them".into()),
        };
        let found = self.gpus.get(&key(home, name.index)).copied();
        found.ok_or_else(|| {
            let home = name.node.as_ref().or(name.pool.as_ref());
            let home = home.map_or("", String::as_str);
            format!("{home:?} has no GPU {}", name.index)
        })
    }

    fn shape(&self, gpu: GpuId, profile: &str) -> Result<u8, String> {
        let kind = self.fleet.gpus.get(gpu.index());
        let kind = kind.and_then(|gpu| self.fleet.kinds.get(gpu.kind.index()));
        let shape = kind.and_then(|kind| kind.mig.as_ref()?.named(profile));
        shape.ok_or_else(|| {
            let kind = kind.map_or("the GPU", |kind| kind.name.as_str());
            format!("{kind} has no profile {profile:?}")
        })
    }

    fn assignments(&self, assignments: &[AssignmentDocument]) -> Result<Vec<Assignment>, String> {
        let assignment = |assignment: &AssignmentDocument| {
            let shares = assignment.gpus.iter().map(|share| self.share(share));
            Ok(Assignment {
                node: self.node(&assignment.node)?,
                gpus: shares.collect::<Result<_, String>>()?,
            })
        };
        assignments.iter().map(assignment).collect()
    }

    fn share(&self, share: &ShareDocument) -> Result<GpuShare, String> {
        let gpu = self.gpu(&share.gpu)?;
        let part = match &share.part {
            None => Part::Whole,
            Some(PartDocument::Fraction {
                milli,
                memory_mib,
                isolation,
                gain_milli,
            }) => {
                let size = Isolation::Vgpu { mib: *memory_mib };
                let pair = Isolation::Pair {
                    gain_milli: gain_milli.unwrap_or(0),
                };
                let all = [Isolation::TimeSlice, Isolation::Mps, size, pair];
                let known = all.into_iter().find(|one| one.name() == isolation);
                Part::Fraction {
                    milli: *milli,
                    memory_mib: *memory_mib,
                    isolation: known.ok_or_else(|| {
                        format!("{isolation:?} is none of time-slice, mps, vgpu and pair")
                    })?,
                }
            }
            Some(PartDocument::Slice { profile, start }) => Part::Slice {
                shape: self.shape(gpu, profile)?,
                start: *start,
            },
        };
        Ok(GpuShare { gpu, part })
    }
}
