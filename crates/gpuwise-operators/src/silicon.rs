use alloc::{format, string::String};
use gpuwise_domain::{gpu::Device, precision::Compute};
use gpuwise_units::{BytesPerSecond, FlopPerSecond};

gpuwise_units::named! {
    /// Families of chips between which shares of the roofline carry over.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Class: name {
        /// CUDA with stacked memory: A100 to B300.
        Hbm = "hbm",
        /// CUDA with GDDR: L40S, RTX.
        Gddr = "gddr",
        /// AMD, Intel and other vendors, whatever their memory.
        Other = "other",
    }
}

/// What operator times need of a GPU, all from specs. Rates per second, sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Silicon {
    /// The catalogue's name, with the slice's profile.
    pub name: String,
    /// Between which chips shares of the roofline carry over.
    pub class: Class,
    /// Major and minor compute capability; the generation's name where there is none.
    pub architecture: (String, String),
    /// FP16 or BF16 FLOP/s, dense.
    pub half: f64,
    /// FP8 FLOP/s, dense; 0 where the silicon has no such unit.
    pub fp8: f64,
    /// FP4 FLOP/s, dense; 0 where the silicon has no such unit.
    pub fp4: f64,
    /// INT8 OP/s, dense; 0 where the silicon has no such unit.
    pub int8: f64,
    /// Peak memory bandwidth; of a slice, its part.
    pub bandwidth: f64,
    /// Streaming multiprocessors or compute units.
    pub units: f64,
    /// Clocks a second at which the dense peak is stated.
    pub clock: f64,
    /// Second-level cache; 0 where unknown, so that nothing counts on it.
    pub l2: f64,
    /// Bandwidth to peers of the node, one direction; the host's link where there is no other.
    pub link: f64,
}

/// Bytes per second and unit out of the second-level cache: 64 B per clock, at about 70 % of it.
/// An assumption: no table times the cache alone.
const L2_PER_UNIT: f64 = 45e9;

/// Bytes per second that one unit can ask of memory: about 64 KB in flight over a latency of 0.65 µs.
const IN_FLIGHT: f64 = 100e9;

/// Clocks a second of a unit that multiplies so many FLOP a second in BF16: what tensor cores of its
/// architecture do in a clock is in NVIDIA's white papers. Cards of which half is switched off come out
/// at half their clock.
fn clock(capability: Option<(u8, u8)>, rate: f64) -> f64 {
    let each = match capability {
        Some((8, 0)) => 2048.0,
        Some((9, _)) => 4096.0,
        Some((10, _)) => 8192.0,
        Some(_) => 1024.0,
        None => return USUAL_CLOCK,
    };
    let clock = rate / each;
    let clock = if clock < LEAST_CLOCK {
        2.0 * clock
    } else {
        clock
    };
    clock.clamp(LEAST_CLOCK, MOST_CLOCK)
}

const USUAL_CLOCK: f64 = 1.8e9;
const LEAST_CLOCK: f64 = 1.3e9;
const MOST_CLOCK: f64 = 3e9;

impl Silicon {
    /// That of a device, by its catalogue row.
    pub fn of(device: &Device<'_>) -> Self {
        let gpu = device.gpu;
        let peak = |compute| device.peak(compute).map_or(0.0, FlopPerSecond::get);
        let nvidia = gpu.vendor.eq_ignore_ascii_case("nvidia");
        let class = match nvidia {
            true if gpu.memory_kind.starts_with("HBM") => Class::Hbm,
            true => Class::Gddr,
            false => Class::Other,
        };
        let architecture = match gpu.compute_capability {
            Some((major, minor)) => (format!("sm{major}x"), format!("sm{major}{minor}")),
            None => (gpu.generation.clone(), gpu.generation.clone()),
        };
        let share = device.bandwidth_share();
        let half = peak(Compute::Half);
        let units = device.units().map_or(100.0, f64::from);
        Self {
            name: device.name(),
            class,
            architecture,
            half,
            fp8: peak(Compute::Fp8),
            fp4: peak(Compute::Fp4),
            int8: peak(Compute::Int8),
            bandwidth: device.bandwidth().get(),
            units,
            clock: clock(gpu.compute_capability, half / units),
            l2: gpu.l2.map_or(0.0, |bytes| bytes.as_f64() * share),
            link: gpu
                .scale_up
                .as_ref()
                .map(|link| link.bandwidth)
                .or(gpu.host_link)
                .map_or(0.0, BytesPerSecond::get),
        }
    }

    /// How much longer a small kernel takes than on a board: superchips with a Grace host replay
    /// kernels of 5 to 10 µs 15 % slower (GB200 against B200, medians of 57,000 and 70,000 attention
    /// times).
    pub fn launch(&self) -> f64 {
        if self.name.starts_with("GB") || self.name.starts_with("GH") {
            1.15
        } else {
            1.0
        }
    }

    /// Seconds per byte out of memory: what units have in flight bounds it besides the memory.
    pub fn memory(&self) -> f64 {
        1.0 / self.bandwidth + 1.0 / (self.units * IN_FLIGHT)
    }

    /// Bandwidth of the second-level cache, never below that of memory.
    pub fn l2_bandwidth(&self) -> f64 {
        (self.units * L2_PER_UNIT).max(self.bandwidth)
    }

    /// Whether it has a unit for this precision.
    pub fn has(&self, compute: Compute) -> bool {
        let rate = match compute {
            Compute::Full | Compute::Half => self.half,
            Compute::Fp8 => self.fp8,
            Compute::Fp4 => self.fp4,
            Compute::Int8 => self.int8,
        };
        rate > 0.0
    }

    /// Dense peak for this precision; where the silicon lacks it, that of the next wider one.
    pub fn peak(&self, compute: Compute) -> f64 {
        let or = |rate: f64, wider: f64| if rate > 0.0 { rate } else { wider };
        match compute {
            Compute::Full | Compute::Half => self.half,
            Compute::Fp8 => or(self.fp8, self.half),
            Compute::Fp4 => or(self.fp4, or(self.fp8, self.half)),
            Compute::Int8 => or(self.int8, self.half),
        }
    }
}
