//! The least that each operator of a step can take: its bytes at what is reached of the bandwidth of
//! memory, its operations at what is reached of dense peak, whichever is longer (Williams et al. 2009,
//! the roofline model). No constant enters, so that none can make an operator faster than the silicon.

use super::{
    rates::prefill_visible,
    step::{Batch, StepModel},
    work::{ExpertWork, Matmul, MixerWork, entries},
};
use crate::setup::Setup;
use gpuwise_domain::precision::Compute;

/// Share of dense peak that no operator exceeds: the best measured of large matmuls stays below 0.9
/// of it on every GPU (clocks fall under load).
pub const MOST_COMPUTE: f64 = 0.89;
/// Share of peak bandwidth that no operator exceeds: refresh and row changes cost memory the rest.
pub const MOST_BANDWIDTH: f64 = 0.95;

/// What a device can do at most, in SI units.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peaks {
    bandwidth: f64,
    half: f64,
    eight_bit: f64,
    four_bit: f64,
    full: f64,
    /// Of attention over the cache in its format.
    attention: f64,
}

/// Seconds that an operator needs of memory and of compute units.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Least {
    reading: f64,
    computing: f64,
}

impl Least {
    /// Seconds below which the operator cannot end.
    pub(super) fn seconds(self) -> f64 {
        self.reading.max(self.computing)
    }
}

impl Peaks {
    pub(super) fn new(setup: &Setup<'_>) -> Self {
        let device = &setup.device;
        let peak = |compute| device.peak(compute).map(gpuwise_units::FlopPerSecond::get);
        let stated = [Compute::Half, Compute::Fp8, Compute::Int8, Compute::Fp4];
        // Where nothing is stated of a format, the best that is stated of any bounds it.
        let best = stated
            .into_iter()
            .filter_map(peak)
            .fold(peak(Compute::Full).unwrap_or(0.0), f64::max);
        let best = if best > 0.0 { best } else { f64::INFINITY };
        let half = peak(Compute::Half).unwrap_or(best);
        let eight_bit = peak(Compute::Fp8)
            .into_iter()
            .chain(peak(Compute::Int8))
            .fold(half, f64::max);
        // llama.cpp multiplies and adds up in 16 bits, which boards that halve 32-bit sums do at
        // half of their 8-bit rate.
        let half = if setup.engine_model().is_local() {
            half.max(eight_bit / 2.0)
        } else {
            half
        };
        let attention = if setup.cache.bytes_per_element() < 2.0 {
            eight_bit
        } else {
            half
        };
        Self {
            bandwidth: device.bandwidth().get() * MOST_BANDWIDTH,
            half: half * MOST_COMPUTE,
            eight_bit: eight_bit * MOST_COMPUTE,
            four_bit: peak(Compute::Fp4).map_or(eight_bit, |rate| rate.max(eight_bit))
                * MOST_COMPUTE,
            full: peak(Compute::Full).unwrap_or(half).max(half) * MOST_COMPUTE,
            attention: attention * MOST_COMPUTE,
        }
    }

    fn of(&self, compute: Compute) -> f64 {
        match compute {
            Compute::Full => self.full,
            Compute::Half => self.half,
            Compute::Fp8 | Compute::Int8 => self.eight_bit,
            Compute::Fp4 => self.four_bit,
        }
    }
}

impl StepModel {
    /// Seconds below which no step of this batch can end.
    pub fn roofline(&self, batch: &Batch) -> f64 {
        self.roofline_in_parts(batch, self.parts())
    }

    pub(super) fn roofline_in_parts(&self, batch: &Batch, parts: f64) -> f64 {
        self.sum_of_least(batch, parts, Least::seconds)
    }

    /// Seconds below which the operations of this batch cannot be done, however long the step waits
    /// for memory meanwhile.
    pub fn computing_at_peak(&self, batch: &Batch) -> f64 {
        self.sum_of_least(batch, self.parts(), |least| least.computing)
    }

    fn sum_of_least(&self, batch: &Batch, parts: f64, seconds: impl Fn(Least) -> f64) -> f64 {
        let part = batch.divided(parts, self.chunk);
        let tokens = part.decodes + part.prefill;
        if tokens <= 0.0 {
            return 0.0;
        }
        let mut sum = 0.0;
        for layer in &self.shape.layers {
            let mut one = seconds(self.least_mixer(&layer.mixer, &part));
            for matmul in &layer.matmuls {
                one += seconds(self.least_matmul(matmul, tokens));
            }
            if let Some(experts) = &layer.experts {
                one += seconds(self.least_experts(experts, &part));
            }
            sum += one * layer.count;
        }
        let sampled = part.decodes + part.finished;
        if let Some(head) = self.shape.head.as_ref().filter(|_| sampled > 0.0) {
            sum += seconds(self.least_matmul(head, sampled));
        }
        sum
    }

    pub(super) fn least_matmul(&self, matmul: &Matmul, rows: f64) -> Least {
        Least {
            reading: matmul.bytes / self.peaks.bandwidth,
            computing: matmul.flop * rows / self.peaks.of(matmul.compute),
        }
    }

    pub(super) fn least_mixer(&self, mixer: &MixerWork, batch: &Batch) -> Least {
        match *mixer {
            MixerWork::None => Least::default(),
            MixerWork::Attention {
                bytes,
                decode_flop,
                prefill_flop,
                window,
                top,
                ratio,
                ..
            } => {
                let near = window.visible(batch.context);
                let read = batch.decodes * entries(near, batch.context, top, ratio);
                let near = prefill_visible(window, batch.prefill_context);
                let seen = entries(near, batch.prefill_context, top, ratio);
                let flop = read * decode_flop + batch.prefill * seen * prefill_flop;
                Least {
                    reading: read * bytes / self.peaks.bandwidth,
                    computing: flop / self.peaks.attention,
                }
            }
            MixerWork::Recurrent { bytes, flop } => Least {
                reading: batch.decodes * bytes / self.peaks.bandwidth,
                computing: batch.prefill * flop / self.peaks.attention,
            },
        }
    }

    /// At least the experts of one token are read, if all tokens choose alike; all tokens are
    /// computed by those that they choose.
    pub(super) fn least_experts(&self, experts: &ExpertWork, batch: &Batch) -> Least {
        let groups = f64::from(self.layout.expert.max(1));
        let within = f64::from(self.layout.expert_tensor());
        let all = batch.at_experts(f64::from(self.attention_groups()));
        let flop = all * experts.chosen * experts.flop / groups / within;
        Least {
            reading: experts.chosen * experts.bytes / groups / within / self.peaks.bandwidth,
            computing: flop / self.peaks.of(experts.compute),
        }
    }
}
