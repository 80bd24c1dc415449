//! GPUs of this machine and their MIG instances: those that a driver lists are cut by it, those that are only
//! declared by a stand-in, so that everything else is the same.
//!
//! Orders about devices are carried out one after the other in a thread of their own, for a driver takes seconds.
//! What was made is noted, so that after a restart what nobody wants any more is destroyed, and what others made
//! is left alone.

mod declared;
mod noted;

use crate::message::Incoming;
use declared::Declared;
use gpuwise_broker::{Broker, Observation, OrderId};
use gpuwise_domain::placement::{Action, CutError, CutInstance, GpuId, Part};
use gpuwise_sched::world::Tenancy;
use noted::Noted;
use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::Path,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread,
};

/// What cuts the GPUs of a machine, each known by its lasting id. All of it may be asked twice: what is so already
/// is well.
pub trait Cutter: Debug + Send + Sync {
    /// Whether MIG is on.
    ///
    /// # Errors
    /// When that is not known; see [`CutError`].
    fn mode(&self, gpu: &str) -> Result<bool, CutError>;

    /// Switches MIG on or off.
    ///
    /// # Errors
    /// When it cannot be, or only by a reset.
    fn set_mode(&self, gpu: &str, on: bool) -> Result<(), CutError>;

    /// The instances that there are.
    ///
    /// # Errors
    /// When MIG is off, or nothing is said.
    fn instances(&self, gpu: &str) -> Result<Vec<CutInstance>, CutError>;

    /// Makes an instance; what CUDA calls it.
    ///
    /// # Errors
    /// When there is no room for it, or this user may not.
    fn create(&self, gpu: &str, wanted: &CutInstance) -> Result<String, CutError>;

    /// Destroys the instance that starts there.
    ///
    /// # Errors
    /// When something runs on it, or this user may not.
    fn destroy(&self, gpu: &str, start: u8) -> Result<(), CutError>;
}

/// What is to be done to a GPU.
#[derive(Debug, Clone)]
enum Task {
    Mode(bool),
    Create(CutInstance),
    Destroy(u8),
}

type Ordered = (Option<OrderId>, String, Task);

#[derive(Debug)]
pub(super) struct Devices {
    driver: Option<Arc<dyn Cutter>>,
    declared: Arc<Declared>,
    noted: Arc<Noted>,
    /// The last order about each GPU or instance: an older one comes too late.
    newest: BTreeMap<(GpuId, Option<u8>), OrderId>,
    tasks: Sender<Ordered>,
}

/// Both, as the thread has them.
#[derive(Debug, Clone)]
struct Cutters {
    driver: Option<Arc<dyn Cutter>>,
    declared: Arc<Declared>,
}

/// Whether a driver knows a GPU by this id.
fn is_real(gpu: &str) -> bool {
    gpu.starts_with("GPU-")
}

/// As people read it: why, and what would help.
fn words(error: &CutError) -> String {
    format!("{error} ({}): {}", error.name(), error.hint())
}

impl Cutters {
    fn of(&self, gpu: &str) -> Result<&dyn Cutter, CutError> {
        match &self.driver {
            Some(driver) if is_real(gpu) => Ok(driver.as_ref()),
            None if is_real(gpu) => Err(CutError::NoDriver(format!(
                "the fleet has {gpu}, and the broker was started without one"
            ))),
            _ => Ok(self.declared.as_ref()),
        }
    }

    fn done(&self, noted: &Noted, gpu: &str, task: &Task) -> Result<(), CutError> {
        let cutter = self.of(gpu)?;
        match task {
            Task::Mode(on) => cutter.set_mode(gpu, *on),
            Task::Create(wanted) => {
                cutter.create(gpu, wanted)?;
                noted.made(gpu, wanted)
            }
            Task::Destroy(start) => {
                cutter.destroy(gpu, *start)?;
                noted.gone(gpu, *start)
            }
        }
    }
}

impl Devices {
    pub(super) fn new(
        state: &Path,
        inbox: Sender<Incoming>,
        driver: Option<Arc<dyn Cutter>>,
    ) -> Self {
        let declared = Arc::new(Declared::new(state.join("declared-mig.json")));
        let noted = Arc::new(Noted::new(state.join("mig.json")));
        let cutters = Cutters {
            driver: driver.clone(),
            declared: Arc::clone(&declared),
        };
        let (tasks, ordered) = channel::<Ordered>();
        let own = Arc::clone(&noted);
        // It ends with its sender.
        thread::spawn(move || {
            for (order, gpu, task) in ordered {
                let done = cutters.done(&own, &gpu, &task);
                let Some(order) = order else { continue };
                let told = match done {
                    Ok(()) => Observation::Done(order),
                    Err(error) => Observation::failed(order, words(&error)),
                };
                // The writer may be gone already.
                let _ = inbox.send(Incoming::Observed(told));
            }
        });
        Self {
            driver,
            declared,
            noted,
            newest: BTreeMap::new(),
            tasks,
        }
    }

    fn cutters(&self) -> Cutters {
        Cutters {
            driver: self.driver.clone(),
            declared: Arc::clone(&self.declared),
        }
    }

    /// Takes an order about a GPU on; `false`: it is not about MIG.
    pub(super) fn take(&mut self, order: OrderId, action: &Action, broker: &Broker) -> bool {
        let (gpu, start, task) = match action {
            Action::SetMig { gpu, on } => (*gpu, None, Task::Mode(*on)),
            Action::CreateInstance { gpu, shape, start } => {
                let Some(wanted) = instance(broker, *gpu, *shape, *start) else {
                    return false;
                };
                (*gpu, Some(*start), Task::Create(wanted))
            }
            Action::DestroyInstance { gpu, start } => (*gpu, Some(*start), Task::Destroy(*start)),
            _ => return false,
        };
        let newest = self.newest.entry((gpu, start)).or_insert(OrderId(0));
        let new = order > *newest;
        *newest = order.max(*newest);
        if new && let Some(state) = broker.world().gpu(gpu) {
            // It lives as long as we do.
            let _ = self
                .tasks
                .send((Some(order), state.gpu.uid.to_string(), task));
        }
        true
    }

    /// Brings the machine to what the log says of it: instances that a restart of the machine took are made again,
    /// those that we had made and nobody wants any more are destroyed.
    pub(super) fn adopt(&self, broker: &Broker) {
        let mut wanted: Vec<(String, CutInstance)> = Vec::new();
        let mut kept: Vec<(String, u8)> = Vec::new();
        for (state, id) in broker.world().gpus().iter().zip((0..).map(GpuId)) {
            let Tenancy::Sliced(instances) = &state.held else {
                continue;
            };
            let uid = state.gpu.uid.to_string();
            for one in instances {
                // One that is still to be made is told again, and found then if it was.
                kept.push((uid.clone(), one.start));
                if one.ready
                    && let Some(instance) = instance(broker, id, one.shape, one.start)
                {
                    wanted.push((uid.clone(), instance));
                }
            }
        }
        for (gpu, start) in self.noted.all() {
            if !kept.contains(&(gpu.clone(), start)) {
                let _ = self.tasks.send((None, gpu, Task::Destroy(start)));
            }
        }
        for (gpu, instance) in wanted {
            // Who starts on one that cannot be made hears why.
            let _ = self.tasks.send((None, gpu, Task::Create(instance)));
        }
    }

    /// What CUDA calls a part of a GPU, or why there is no such part.
    pub(super) fn name(&self, broker: &Broker, gpu: GpuId, part: Part) -> Result<String, String> {
        let Some(state) = broker.world().gpu(gpu) else {
            return Err(format!("the fleet has no GPU {gpu} any more"));
        };
        let uid = state.gpu.uid.as_str();
        let wrong = |error: CutError| words(&error);
        let cutters = self.cutters();
        let cutter = cutters.of(uid);
        let Part::Slice { shape, start } = part else {
            if is_real(uid) && cutter.is_ok_and(|cutter| cutter.mode(uid) == Ok(true)) {
                return Err(format!(
                    "{uid} is leased whole, and its MIG mode is on (mode-on): nothing sees all of it; switch MIG off \
                     by `nvidia-smi -mig 0`, or say mig = true of it in the fleet file"
                ));
            }
            return Ok(uid.to_owned());
        };
        let Some(wanted) = instance(broker, gpu, shape, start) else {
            return Err(format!("{uid} has no such profile"));
        };
        let present = cutter.map_err(wrong)?.instances(uid).map_err(wrong)?;
        let same = |one: &&CutInstance| one.start == start && one.profile == wanted.profile;
        let found = present.iter().find(same).and_then(|one| one.uuid.clone());
        found.ok_or_else(|| {
            // It is made again, so that the next start finds it.
            let again = Task::Create(wanted.clone());
            let _ = self.tasks.send((None, uid.to_owned(), again));
            format!(
                "the MIG instance {} at memory slice {start} of {uid} is not there any more (instance-gone); it is \
                 made again",
                wanted.profile
            )
        })
    }
}

/// An instance as a driver is asked for it.
fn instance(broker: &Broker, gpu: GpuId, shape: u8, start: u8) -> Option<CutInstance> {
    let world = broker.world();
    let kind = world.kind(world.gpu(gpu)?.gpu.kind)?;
    let shape = kind.mig.as_ref()?.shape(shape)?;
    Some(CutInstance {
        profile: shape.profile.clone(),
        start,
        size: shape.size,
        uuid: None,
    })
}
