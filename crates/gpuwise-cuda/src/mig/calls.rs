//! Calls of the driver's management library (NVML) that make and destroy MIG instances, one function each.
//!
//! Facts are of nvml.h, "Multi Instance GPU Management" (docs.nvidia.com/deploy/nvml-api): all but the questions
//! for profiles need a privileged user; lists of instances are of one profile, and the buffer must have room for as
//! many as there can be of it; structures say their version and size where their name ends in a number.

#![allow(unsafe_code)]

use nvml_wrapper::{Device, error::NvmlError};
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlComputeInstance_t, nvmlComputeInstanceProfileInfo_t, nvmlGpuInstance_t,
    nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_v2_t,
    nvmlReturn_t,
};
use std::{ffi::c_char, mem};

/// Why a call did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The library has no such function: it is older than that.
    NoFunction(&'static str),
    /// What it answered (nvml.h, `nvmlReturn_t`).
    Code(nvmlReturn_t),
}

type Answer<T> = Result<T, Refused>;

fn answered(code: nvmlReturn_t) -> Answer<()> {
    match code {
        0 => Ok(()),
        code => Err(Refused::Code(code)),
    }
}

macro_rules! function {
    ($library:expr, $name:ident) => {
        $library
            .$name
            .as_ref()
            .map_err(|_| Refused::NoFunction(stringify!($name)))
    };
}

/// A profile of GPU instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) id: u32,
    /// As ours are called, such as `1g.10gb`.
    pub(super) name: String,
    /// How many there can be at once.
    pub(super) most: usize,
}

/// A GPU instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instance {
    handle: nvmlGpuInstance_t,
    pub(super) id: u32,
    pub(super) start: u32,
    pub(super) size: u32,
}

/// A profile of compute instances within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compute {
    id: u32,
    pub(super) slices: u32,
    most: u32,
}

/// The library as one device is asked by it.
#[derive(Clone, Copy)]
pub(super) struct Calls<'d> {
    pub(super) library: &'d NvmlLib,
    pub(super) device: &'d Device<'d>,
}

/// The version that a structure says: its size, and its number in the highest byte (nvml.h, `NVML_STRUCT_VERSION`).
const fn version<T>(number: u32) -> u32 {
    mem::size_of::<T>() as u32 | (number << 24)
}

/// A C string of a fixed buffer.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer
        .iter()
        .take_while(|byte| **byte != 0)
        .map(|byte| byte.to_ne_bytes()[0])
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Calls<'_> {
    /// The profile of a number of nvml.h (`NVML_GPU_INSTANCE_PROFILE_…`).
    pub(super) fn profile(self, number: u32) -> Answer<Profile> {
        let ask = function!(self.library, nvmlDeviceGetGpuInstanceProfileInfoV)?;
        // SAFETY: the structure is plain numbers, of which zero is one, and says its version, by which the library
        // knows how much it may write; the device's handle lives as long as the library.
        let info = unsafe {
            let mut info: nvmlGpuInstanceProfileInfo_v2_t = mem::zeroed();
            info.version = version::<nvmlGpuInstanceProfileInfo_v2_t>(2);
            answered(ask(self.device.handle(), number, &raw mut info))?;
            info
        };
        let name = text(&info.name);
        Ok(Profile {
            id: info.id,
            name: name.trim_start_matches("MIG").trim().to_owned(),
            most: info.instanceCount as usize,
        })
    }

    /// Where instances of a profile may start, with how many memory slices they take.
    pub(super) fn placements(self, profile: u32) -> Answer<Vec<(u32, u32)>> {
        let ask = function!(self.library, nvmlDeviceGetGpuInstancePossiblePlacements_v2)?;
        let mut count = 0;
        // SAFETY: without a buffer it says how many there are; then the buffer has room for as many, and it says how
        // many it wrote.
        unsafe {
            let device = self.device.handle();
            answered(ask(device, profile, std::ptr::null_mut(), &raw mut count))?;
            let empty = nvmlGpuInstancePlacement_t { start: 0, size: 0 };
            let mut all = vec![empty; count as usize];
            answered(ask(device, profile, all.as_mut_ptr(), &raw mut count))?;
            all.truncate(count as usize);
            Ok(all.into_iter().map(|one| (one.start, one.size)).collect())
        }
    }

    /// Instances of a profile.
    pub(super) fn instances(self, profile: &Profile) -> Answer<Vec<Instance>> {
        let ask = function!(self.library, nvmlDeviceGetGpuInstances)?;
        let mut all: Vec<nvmlGpuInstance_t> = vec![std::ptr::null_mut(); profile.most];
        let mut count = profile.most as u32;
        // SAFETY: the buffer has room for as many as there can be of the profile, as it is documented.
        unsafe {
            let device = self.device.handle();
            answered(ask(device, profile.id, all.as_mut_ptr(), &raw mut count))?;
        }
        all.truncate(count as usize);
        all.into_iter().map(|handle| self.about(handle)).collect()
    }

    fn about(self, handle: nvmlGpuInstance_t) -> Answer<Instance> {
        let ask = function!(self.library, nvmlGpuInstanceGetInfo)?;
        // SAFETY: the handle is the library's, and the structure plain numbers and handles that may be null.
        let info = unsafe {
            let mut info: nvmlGpuInstanceInfo_t = mem::zeroed();
            answered(ask(handle, &raw mut info))?;
            info
        };
        Ok(Instance {
            handle,
            id: info.id,
            start: info.placement.start,
            size: info.placement.size,
        })
    }

    pub(super) fn create(self, profile: u32, (start, size): (u32, u32)) -> Answer<Instance> {
        let ask = function!(self.library, nvmlDeviceCreateGpuInstanceWithPlacement)?;
        let place = nvmlGpuInstancePlacement_t { start, size };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the placement is read, the handle written.
        unsafe {
            let device = self.device.handle();
            answered(ask(device, profile, &raw const place, &raw mut handle))?;
        }
        self.about(handle)
    }

    pub(super) fn destroy(self, instance: Instance) -> Answer<()> {
        let ask = function!(self.library, nvmlGpuInstanceDestroy)?;
        // SAFETY: the handle is the library's, and is not used afterwards.
        answered(unsafe { ask(instance.handle) })
    }

    /// The profile of compute instances of a number of nvml.h, with shared engines.
    pub(super) fn compute(self, instance: Instance, number: u32) -> Answer<Compute> {
        let ask = function!(self.library, nvmlGpuInstanceGetComputeInstanceProfileInfo)?;
        // SAFETY: the structure is plain numbers.
        let info = unsafe {
            let mut info: nvmlComputeInstanceProfileInfo_t = mem::zeroed();
            answered(ask(instance.handle, number, 0, &raw mut info))?;
            info
        };
        Ok(Compute {
            id: info.id,
            slices: info.sliceCount,
            most: info.instanceCount,
        })
    }

    pub(super) fn create_compute(self, instance: Instance, compute: Compute) -> Answer<()> {
        let ask = function!(self.library, nvmlGpuInstanceCreateComputeInstance)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is written.
        answered(unsafe { ask(instance.handle, compute.id, &raw mut handle) })
    }

    /// Destroys all compute instances of a profile.
    pub(super) fn destroy_computes(self, instance: Instance, compute: Compute) -> Answer<()> {
        let list = function!(self.library, nvmlGpuInstanceGetComputeInstances)?;
        let destroy = function!(self.library, nvmlComputeInstanceDestroy)?;
        let mut all: Vec<nvmlComputeInstance_t> = vec![std::ptr::null_mut(); compute.most as usize];
        let mut count = compute.most;
        // SAFETY: the buffer has room for as many as there can be; each handle is the library's and used once.
        unsafe {
            let buffer = all.as_mut_ptr();
            answered(list(instance.handle, compute.id, buffer, &raw mut count))?;
            all.truncate(count as usize);
            all.into_iter().try_for_each(|one| answered(destroy(one)))
        }
    }

    /// The GPU instance of a MIG device.
    pub(super) fn instance_of(self, device: &Device<'_>) -> Answer<u32> {
        let ask = function!(self.library, nvmlDeviceGetGpuInstanceId)?;
        let mut id = 0;
        // SAFETY: the number is written.
        answered(unsafe { ask(device.handle(), &raw mut id) })?;
        Ok(id)
    }
}

/// What the wrapper says of a call of its own, as we say it.
pub(super) fn wrapped(error: NvmlError, function: &'static str) -> Refused {
    match error {
        NvmlError::FailedToLoadSymbol(_) => Refused::NoFunction(function),
        other => Refused::Code(other.into()),
    }
}
