//! The least that a step can take: its bytes at the bandwidth of memory, its operations at dense
//! peak. No constant enters, so that none can make a step faster than the silicon (Williams et al.
//! 2009, the roofline model).

use super::{
    rates::prefill_visible,
    step::{Batch, StepModel},
    work::{ExpertWork, Matmul, MixerWork},
};
use crate::setup::Setup;
use gpuwise_domain::{engine::EngineKind, precision::Compute};

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

/// Bytes and operations of a step, the latter in seconds at peak because formats differ.
#[derive(Debug, Clone, Copy, Default)]
struct Least {
    bytes: f64,
    computing: f64,
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
        let half = if setup.engine.kind == EngineKind::LlamaCpp {
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
            bandwidth: device.bandwidth().get(),
            half,
            eight_bit,
            four_bit: peak(Compute::Fp4).map_or(eight_bit, |rate| rate.max(eight_bit)),
            full: peak(Compute::Full).unwrap_or(half).max(half),
            attention,
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
        let least = self.least(batch, parts);
        least.computing.max(least.bytes / self.peaks.bandwidth)
    }

    /// Seconds below which the operations of this batch cannot be done, however long the step waits
    /// for memory meanwhile.
    pub fn computing_at_peak(&self, batch: &Batch) -> f64 {
        self.least(batch, self.parts()).computing
    }

    fn least(&self, batch: &Batch, parts: f64) -> Least {
        let part = batch.divided(parts);
        let tokens = part.decodes + part.prefill;
        let mut least = Least::default();
        if tokens <= 0.0 {
            return least;
        }
        for layer in &self.shape.layers {
            for matmul in &layer.matmuls {
                self.least_matmul(&mut least, matmul, tokens, layer.count);
            }
            self.least_mixer(&mut least, &layer.mixer, &part, layer.count);
            if let Some(experts) = &layer.experts {
                self.least_experts(&mut least, experts, &part, layer.count);
            }
        }
        let sampled = part.decodes + part.finished;
        if let Some(head) = self.shape.head.as_ref().filter(|_| sampled > 0.0) {
            self.least_matmul(&mut least, head, sampled, 1.0);
        }
        least
    }

    fn least_matmul(&self, least: &mut Least, matmul: &Matmul, rows: f64, times: f64) {
        least.bytes += matmul.bytes * times;
        least.computing += matmul.flop * rows / self.peaks.of(matmul.compute) * times;
    }

    fn least_mixer(&self, least: &mut Least, mixer: &MixerWork, batch: &Batch, times: f64) {
        match *mixer {
            MixerWork::None => {}
            MixerWork::Attention {
                bytes,
                decode_flop,
                prefill_flop,
                window,
                top,
                ..
            } => {
                let limit = |context: f64| if top > 0.0 { context.min(top) } else { context };
                let read = batch.decodes * limit(window.visible(batch.context));
                let seen = limit(prefill_visible(window, batch.prefill_context));
                let flop = read * decode_flop + batch.prefill * seen * prefill_flop;
                least.bytes += read * bytes * times;
                least.computing += flop / self.peaks.attention * times;
            }
            MixerWork::Recurrent { bytes, flop } => {
                least.bytes += batch.decodes * bytes * times;
                least.computing += batch.prefill * flop / self.peaks.attention * times;
            }
        }
    }

    /// At least the experts of one token are read, if all tokens choose alike; all tokens are
    /// computed by those that they choose.
    fn least_experts(&self, least: &mut Least, experts: &ExpertWork, batch: &Batch, times: f64) {
        let groups = f64::from(self.layout.expert.max(1));
        let within = f64::from(self.layout.expert_tensor());
        let all = batch.at_experts(f64::from(self.attention_groups()));
        least.bytes += experts.chosen * experts.bytes / groups / within * times;
        let flop = all * experts.chosen * experts.flop / groups / within;
        least.computing += flop / self.peaks.of(experts.compute) * times;
    }
}
