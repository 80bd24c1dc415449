//! GPUs of this machine, cut into MIG instances by the driver's management library.

mod calls;

use calls::{Calls, Compute, Instance, Profile, Refused, wrapped};
use gpuwise_domain::placement::{CutError, CutGpu, CutInstance};
use nvml_wrapper::{Device, Nvml, error::NvmlError};
use std::{collections::BTreeMap, ffi::OsStr};

/// Profiles of GPU instances are looked for up to this number: nvml.h of 2026 has 18, and an unknown one is refused.
const PROFILES: u32 = 32;
/// Of compute instances it has 9.
const COMPUTES: u32 = 16;

// nvml.h, `nvmlReturn_t`.
const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NO_PERMISSION: u32 = 4;
const NOT_FOUND: u32 = 6;
const RESET_REQUIRED: u32 = 16;
const IN_USE: u32 = 19;
const INSUFFICIENT_RESOURCES: u32 = 23;

/// The GPUs of this machine, as they can be cut.
pub struct Boards {
    nvml: Nvml,
}

impl std::fmt::Debug for Boards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Boards").finish_non_exhaustive()
    }
}

/// What was done, to which GPU, when a call was refused.
#[derive(Clone, Copy)]
struct Doing<'a> {
    what: &'static str,
    gpu: &'a str,
}

impl Doing<'_> {
    fn failed(self, refused: Refused) -> CutError {
        let gpu = self.gpu.to_owned();
        match refused {
            Refused::NoFunction(name) => CutError::TooOld(name),
            Refused::Code(NOT_SUPPORTED) => CutError::NotSupported(gpu),
            Refused::Code(NO_PERMISSION) => CutError::NoPermission(gpu),
            Refused::Code(IN_USE) => CutError::InUse(gpu),
            Refused::Code(RESET_REQUIRED) => CutError::ResetNeeded(gpu),
            Refused::Code(code) => CutError::Failed {
                doing: format!("{} of {gpu}", self.what),
                said: NvmlError::from(code).to_string(),
            },
        }
    }

    fn wrapped(self, function: &'static str) -> impl Fn(NvmlError) -> CutError {
        move |error| self.failed(wrapped(error, function))
    }
}

impl Boards {
    /// Loads the driver's library: a file where one is named, else as the loader finds it.
    ///
    /// # Errors
    /// When there is none, or it cannot be used.
    pub fn load(library: Option<&OsStr>) -> Result<Self, CutError> {
        // The name that is there without the driver's headers.
        let path = library.unwrap_or(OsStr::new("libnvidia-ml.so.1"));
        let nvml = Nvml::builder().lib_path(path).init();
        let nvml = nvml.map_err(|error| {
            CutError::NoDriver(match error {
                NvmlError::LibloadingError(_) => {
                    format!("its library {} cannot be loaded", path.display())
                }
                other => other.to_string(),
            })
        })?;
        Ok(Self { nvml })
    }

    /// The GPUs of this machine, in the driver's order.
    ///
    /// # Errors
    /// When the driver does not say.
    pub fn gpus(&self) -> Result<Vec<CutGpu>, CutError> {
        let doing = Doing {
            what: "the list",
            gpu: "GPUs",
        };
        let count = self.nvml.device_count();
        let count = count.map_err(doing.wrapped("nvmlDeviceGetCount_v2"))?;
        (0..count)
            .map(|index| {
                let device = self.nvml.device_by_index(index);
                let device = device.map_err(doing.wrapped("nvmlDeviceGetHandleByIndex_v2"))?;
                let mode = device.mig_mode().ok();
                let memory = device.memory_info().ok();
                Ok(CutGpu {
                    uuid: device.uuid().map_err(doing.wrapped("nvmlDeviceGetUUID"))?,
                    product: device.name().ok(),
                    memory_mib: memory.map(|memory| (memory.total >> 20) as u32),
                    mode: mode.as_ref().map(|mode| mode.current == 1),
                    pending: mode
                        .filter(|mode| mode.pending != mode.current)
                        .map(|mode| mode.pending == 1),
                })
            })
            .collect()
    }

    fn device(&self, gpu: &str) -> Result<Device<'_>, CutError> {
        self.nvml.device_by_uuid(gpu).map_err(|error| match error {
            NvmlError::NotFound | NvmlError::InvalidArg => CutError::NoSuchGpu(gpu.into()),
            other => Doing {
                what: "the handle",
                gpu,
            }
            .failed(wrapped(other, "nvmlDeviceGetHandleByUUID")),
        })
    }

    /// Switches MIG mode of a GPU that nobody uses; nothing where it is so already.
    ///
    /// # Errors
    /// When it cannot be, or only with a reset.
    pub fn set_mode(&self, gpu: &str, on: bool) -> Result<(), CutError> {
        let device = self.device(gpu)?;
        let doing = Doing {
            what: "switching MIG mode",
            gpu,
        };
        let mode = || {
            device
                .mig_mode()
                .map_err(doing.wrapped("nvmlDeviceGetMigMode"))
        };
        if (mode()?.current == 1) == on {
            return Ok(());
        }
        let status = device.set_mig_mode(on);
        let status = status.map_err(doing.wrapped("nvmlDeviceSetMigMode"))?;
        // The mode is asked for; that it was not activated is said beside.
        if status != 0 {
            return Err(doing.failed(Refused::Code(status)));
        }
        if (mode()?.current == 1) == on {
            Ok(())
        } else {
            Err(CutError::ResetNeeded(gpu.into()))
        }
    }

    /// The instances of a GPU, by their start.
    ///
    /// # Errors
    /// When its mode is off, or the driver does not say.
    pub fn instances(&self, gpu: &str) -> Result<Vec<CutInstance>, CutError> {
        let device = self.device(gpu)?;
        let board = self.board(gpu, &device)?;
        let mut all: Vec<CutInstance> = board.present()?.iter().map(CutInstance::from).collect();
        all.sort_by_key(|one| one.start);
        Ok(all)
    }

    /// Makes an instance with one compute instance over all of it, or finds the one that is there; what CUDA calls
    /// it.
    ///
    /// # Errors
    /// When there is no room, the mode is off, or this user may not.
    pub fn create(&self, gpu: &str, profile: &str, start: u8) -> Result<String, CutError> {
        let device = self.device(gpu)?;
        self.board(gpu, &device)?.create(profile, start)
    }

    /// Destroys the instance that starts at a memory slice; nothing where there is none.
    ///
    /// # Errors
    /// When something runs on it, or this user may not.
    pub fn destroy(&self, gpu: &str, start: u8) -> Result<(), CutError> {
        let device = self.device(gpu)?;
        let board = self.board(gpu, &device)?;
        let doing = board.doing("destroying an instance");
        let present = board.present()?;
        let found = present
            .iter()
            .find(|one| one.instance.start == u32::from(start));
        let Some(found) = found else { return Ok(()) };
        for compute in board.computes(found.instance) {
            let destroyed = board.calls.destroy_computes(found.instance, compute);
            destroyed.map_err(|refused| doing.failed(refused))?;
        }
        let destroyed = board.calls.destroy(found.instance);
        destroyed.map_err(|refused| doing.failed(refused))
    }

    /// A board whose mode is on.
    fn board<'d>(&'d self, gpu: &'d str, device: &'d Device<'d>) -> Result<Board<'d>, CutError> {
        let doing = Doing {
            what: "MIG mode",
            gpu,
        };
        let mode = device.mig_mode();
        let mode = mode.map_err(doing.wrapped("nvmlDeviceGetMigMode"))?;
        match (mode.current, mode.pending) {
            (1, _) => {}
            (_, 1) => return Err(CutError::ResetNeeded(gpu.into())),
            _ => return Err(CutError::ModeOff(gpu.into())),
        }
        let library = self.nvml.lib();
        let calls = Calls { library, device };
        Ok(Board {
            gpu,
            calls,
            profiles: profiles(calls, doing)?,
        })
    }
}

/// The profiles of a board. One that it does not have is refused, and so is a number that there is not.
fn profiles(calls: Calls<'_>, doing: Doing<'_>) -> Result<Vec<Profile>, CutError> {
    let mut all = Vec::new();
    for number in 0..PROFILES {
        match calls.profile(number) {
            Ok(profile) => all.push(profile),
            Err(Refused::Code(NOT_SUPPORTED | INVALID_ARGUMENT | NOT_FOUND)) => {}
            Err(refused) => return Err(doing.failed(refused)),
        }
    }
    Ok(all)
}

/// A GPU whose MIG mode is on.
struct Board<'d> {
    gpu: &'d str,
    calls: Calls<'d>,
    profiles: Vec<Profile>,
}

impl From<&Present<'_>> for CutInstance {
    fn from(one: &Present<'_>) -> Self {
        Self {
            profile: one.profile.name.clone(),
            start: one.instance.start as u8,
            size: one.instance.size as u8,
            uuid: one.uuid.clone(),
        }
    }
}

/// An instance that there is.
struct Present<'b> {
    profile: &'b Profile,
    instance: Instance,
    uuid: Option<String>,
}

impl Board<'_> {
    fn doing(&self, what: &'static str) -> Doing<'_> {
        Doing {
            what,
            gpu: self.gpu,
        }
    }

    fn present(&self) -> Result<Vec<Present<'_>>, CutError> {
        let doing = self.doing("the list of instances");
        let uuids = self.uuids()?;
        let mut all = Vec::new();
        for profile in &self.profiles {
            let found = self.calls.instances(profile);
            for instance in found.map_err(|refused| doing.failed(refused))? {
                all.push(Present {
                    profile,
                    instance,
                    uuid: uuids.get(&instance.id).cloned(),
                });
            }
        }
        Ok(all)
    }

    /// What CUDA calls instances, by their numbers. Numbers of devices have gaps.
    fn uuids(&self) -> Result<BTreeMap<u32, String>, CutError> {
        let doing = self.doing("the list of MIG devices");
        let device = self.calls.device;
        let count = device.mig_device_count();
        let count = count.map_err(doing.wrapped("nvmlDeviceGetMaxMigDeviceCount"))?;
        let mut all = BTreeMap::new();
        for index in 0..count {
            let slice = match device.mig_device_by_index(index) {
                Ok(slice) => slice,
                Err(NvmlError::NotFound) => continue,
                Err(error) => {
                    return Err(doing.wrapped("nvmlDeviceGetMigDeviceHandleByIndex")(error));
                }
            };
            let instance = self.calls.instance_of(&slice);
            let instance = instance.map_err(|refused| doing.failed(refused))?;
            let uuid = slice.uuid().map_err(doing.wrapped("nvmlDeviceGetUUID"))?;
            all.entry(instance).or_insert(uuid);
        }
        Ok(all)
    }

    /// Profiles of compute instances that an instance has.
    fn computes(&self, instance: Instance) -> impl Iterator<Item = Compute> {
        (0..COMPUTES).filter_map(move |number| self.calls.compute(instance, number).ok())
    }

    fn create(&self, name: &str, start: u8) -> Result<String, CutError> {
        let none = || CutError::NoSuchProfile {
            gpu: self.gpu.into(),
            profile: name.into(),
            start,
        };
        let doing = self.doing("creating an instance");
        let profile = self
            .profiles
            .iter()
            .find(|one| one.name == name)
            .ok_or_else(none)?;
        let at = u32::from(start);
        let present = self.present()?;
        let same = present
            .iter()
            .find(|one| one.profile == profile && one.instance.start == at);
        if let Some(Present {
            uuid: Some(uuid), ..
        }) = same
        {
            return Ok(uuid.clone());
        }
        // One without a device was left by somebody who did not come to an end with it.
        let (instance, new) = if let Some(found) = same {
            (found.instance, false)
        } else {
            let places = self.calls.placements(profile.id);
            let places = places.map_err(|refused| doing.failed(refused))?;
            let place = places
                .into_iter()
                .find(|(first, _)| *first == at)
                .ok_or_else(none)?;
            let made = self.calls.create(profile.id, place);
            let made = made.map_err(|refused| match refused {
                Refused::Code(INSUFFICIENT_RESOURCES) => CutError::Resources {
                    gpu: self.gpu.into(),
                    profile: name.into(),
                    start,
                    beside: beside(&present, place),
                },
                other => doing.failed(other),
            })?;
            (made, true)
        };
        let uuid = self.with_compute(instance);
        if uuid.is_err() && new {
            // Half of it is of no use to anybody; why it could not be made is what matters.
            let _ = self.calls.destroy(instance);
        }
        uuid
    }

    /// Makes a compute instance over all of an instance; what CUDA calls it.
    fn with_compute(&self, instance: Instance) -> Result<String, CutError> {
        let doing = self.doing("creating a compute instance");
        // Of equal ones the first: later numbers are variants.
        let all = self.computes(instance);
        let whole = all.reduce(|best, one| if one.slices > best.slices { one } else { best });
        let whole = whole.ok_or_else(|| doing.failed(Refused::Code(NOT_SUPPORTED)))?;
        let made = self.calls.create_compute(instance, whole);
        made.map_err(|refused| doing.failed(refused))?;
        let uuid = self.uuids()?.remove(&instance.id);
        uuid.ok_or_else(|| CutError::Failed {
            doing: format!("creating a compute instance of {}", self.gpu),
            said: "the driver lists no device for it".into(),
        })
    }
}

/// What is in the place of an instance.
fn beside(present: &[Present<'_>], (start, size): (u32, u32)) -> String {
    let over = present.iter().filter(|one| {
        let (own, until) = (one.instance.start, one.instance.start + one.instance.size);
        own < start + size && start < until
    });
    let names: Vec<String> = over
        .map(|one| format!("{} at {}", one.profile.name, one.instance.start))
        .collect();
    if names.is_empty() {
        return String::new();
    }
    format!(": there is {}", names.join(", "))
}
