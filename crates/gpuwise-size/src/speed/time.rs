//! The time of a step, operator by operator: written once, computed and explained by the same lines.

use super::{
    measured::LayerCurves,
    rates::{computed_rows, prefill_visible},
    step::{Batch, Parts, StepModel},
    work::{ExpertWork, LayerWork, Matmul, MixerWork, entries},
};
use crate::{
    constants::Parameter as P,
    derive::{Amount, TermLabel},
};
use alloc::{format, vec::Vec};
use gpuwise_domain::derivation::Unit;
use gpuwise_operators::Curve;

/// Layers that are alike, as a step is summed over them.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerGroup<'m> {
    layer: &'m LayerWork,
    curves: Option<&'m LayerCurves>,
    count: f64,
    /// Which of several kinds; 0 where all layers are alike.
    kind: usize,
}

impl LayerGroup<'_> {
    /// A name that other kinds of layers have too.
    fn name(&self, name: &str) -> alloc::string::String {
        match self.kind {
            0 => name.into(),
            kind => format!("{name} of kind {kind}"),
        }
    }
}

/// Bytes of an activation element.
const ACTIVATION: f64 = 2.0;

fn input<A: Amount>(value: f64, name: &'static str, unit: Unit, source: &'static str) -> A {
    A::input(value, || TermLabel::new(name, unit).digits(4).from(source))
}

const SHAPES: &str = "shapes of the model on a rank";
const BATCH: &str = "the batch";

impl StepModel {
    /// Runs of layers as they follow each other.
    pub(super) fn runs(&self) -> impl Iterator<Item = LayerGroup<'_>> {
        let measured = self.measured.as_deref();
        let layers = self.shape.layers.iter().enumerate();
        layers.map(move |(at, layer)| LayerGroup {
            layer,
            curves: measured.and_then(|measured| measured.layers.get(at)),
            count: layer.count,
            kind: 0,
        })
    }

    /// The same with those that are alike taken together, for people to read.
    pub(super) fn kinds(&self) -> Vec<LayerGroup<'_>> {
        let mut kinds: Vec<LayerGroup<'_>> = Vec::new();
        for run in self.runs() {
            match kinds.iter_mut().find(|kind| kind.layer.alike(run.layer)) {
                Some(kind) => kind.count += run.count,
                None => kinds.push(run),
            }
        }
        if kinds.len() > 1 {
            for (at, kind) in kinds.iter_mut().enumerate() {
                kind.kind = at + 1;
            }
        }
        kinds
    }

    pub(super) fn in_parts<'m, A: Amount>(
        &'m self,
        batch: &Batch,
        parts: f64,
        layers: impl Iterator<Item = LayerGroup<'m>>,
    ) -> Parts<A> {
        let stages = self.stages();
        let part = batch.divided(parts, self.chunk);
        let tokens = part.decodes + part.prefill;
        if tokens <= 0.0 {
            return Parts::none();
        }
        let version = self.version(part.decodes / tokens);
        let mut total = Parts::none();
        for alike in layers {
            let count = A::input(alike.count, || {
                TermLabel::new(alike.name("layers"), Unit::Number)
                    .digits(5)
                    .from(SHAPES)
            });
            total = total.plus(self.layer(&alike, &part, &version), count);
        }
        if let Some(head) = &self.shape.head {
            let measured = self.measured.as_deref();
            let curve = measured.and_then(|measured| measured.head.as_deref());
            let rows = part.decodes + part.finished;
            let head: A = self.matmul(head, curve, rows, &version);
            total.dense =
                total.dense + head.called(|| TermLabel::new("output head", Unit::Seconds));
        }
        if stages > 1.0 {
            let hops = input(
                stages - 1.0,
                "hops between stages",
                Unit::Number,
                "the layout",
            );
            let hop = self
                .links
                .hop::<A>(tokens * self.hidden * ACTIVATION, &self.fitted);
            total.communication = total.communication + hop * hops;
        }
        let sequences = input(batch.decodes, "sequences of the step", Unit::Number, BATCH);
        total.overhead = total.overhead
            + self.constant(P::StepBase, self.rates.step_base)
            + self.constant::<A>(P::StepSequence, self.rates.step_sequence) * sequences;
        total
    }

    /// A fitted constant as an input.
    pub(crate) fn constant<A: Amount>(&self, parameter: P, value: f64) -> A {
        self.fitted.constant(parameter, value)
    }

    /// The factor of the engine's version on steps that decode and on prompts.
    fn version<A: Amount>(&self, decode_share: f64) -> A {
        let decode = || self.constant::<A>(P::BucketDecode, self.rates.bucket_decode);
        let prefill = || self.constant::<A>(P::BucketPrefill, self.rates.bucket_prefill);
        if decode_share >= 1.0 {
            return decode();
        }
        if decode_share <= 0.0 {
            return prefill();
        }
        let share: A = input(
            decode_share,
            "share of tokens that decode",
            Unit::Number,
            BATCH,
        );
        decode() * share.clone() + prefill() * (A::number(1.0) - share)
    }

    /// A layer's times, each operator's with the version bucket's factor and never below what silicon takes.
    fn layer<A: Amount>(&self, alike: &LayerGroup<'_>, batch: &Batch, version: &A) -> Parts<A> {
        let LayerGroup { layer, curves, .. } = *alike;
        let tokens = batch.decodes + batch.prefill;
        let mut time = Parts::<A>::none();
        // Kernels whose time is that of their start, and others that the host starts.
        let (mut kernels, mut timed) = (layer.kernels, 0.0);
        let mut blocks = 0.0;
        for (at, matmul) in layer.matmuls.iter().enumerate() {
            let curve = curves.and_then(|curves| curves.matmuls.get(at)?.as_deref());
            let seconds: A = self.matmul(matmul, curve, tokens, version);
            let name = || TermLabel::new(alike.name(matmul.name), Unit::Seconds);
            time.dense = time.dense + seconds.called(name);
            if curve.is_some() {
                timed += 1.0;
            } else {
                kernels += 1.0;
                blocks += f64::from(u8::from(matmul.blocks));
            }
        }
        let (seconds, measured) = self.mixer::<A>(&layer.mixer, curves, batch);
        if measured {
            kernels -= 1.0;
            timed += 1.0;
        }
        if !matches!(layer.mixer, MixerWork::None) {
            let least = least(self.least_mixer(&layer.mixer, batch).seconds());
            let name = || TermLabel::new(alike.name("attention of a layer"), Unit::Seconds);
            time.attention = (seconds * version.clone()).or_more(least).called(name);
        }
        let mut started: A = input(
            kernels,
            "small kernels",
            Unit::Number,
            "norms, rotary, cache write, attention, activation, and matmuls that were not timed",
        );
        if matches!(layer.mixer, MixerWork::Attention { latent: true, .. }) {
            started = started + self.constant(P::LatentKernels, self.rates.latent_kernels);
        }
        if let Some(experts) = &layer.experts {
            let own = self.constant::<A>(P::ExpertKernels, self.rates.expert_kernels);
            let curve = curves.and_then(|curves| curves.experts.as_deref());
            if curve.is_some() {
                timed += self.rates.expert_kernels;
            } else {
                started = started + own;
            }
            let seconds: A = self.expert_seconds(experts, curve, batch);
            let seconds = seconds * version.clone();
            let least = least(self.least_experts(experts, batch).seconds());
            let name = || TermLabel::new(alike.name("experts of a layer"), Unit::Seconds);
            time.experts = seconds.or_more(least).called(name);
            let links = &self.links;
            if let Some(moved) =
                links.experts::<A>(tokens, experts.input, experts.chosen, &self.fitted)
            {
                let name = || TermLabel::new(alike.name("dispatch of a layer"), Unit::Seconds);
                time.communication = time.communication + (moved * version.clone()).called(name);
            }
        }
        if layer.reductions > 0.0 {
            let count: A = input(
                layer.reductions,
                "all-reduces of a layer",
                Unit::Number,
                SHAPES,
            );
            let bytes = tokens * self.hidden * ACTIVATION;
            let one = self.links.all_reduce::<A>(bytes, &self.fitted);
            let name = || TermLabel::new(alike.name("exchange of a layer"), Unit::Seconds);
            time.communication = time.communication + (count * one * version.clone()).called(name);
        }
        self.start(alike, batch, version, (started, timed, blocks), time)
    }

    /// What a layer takes beside its operators: kernels that start, and activations that pass.
    fn start<A: Amount>(
        &self,
        alike: &LayerGroup<'_>,
        batch: &Batch,
        version: &A,
        (started, timed, blocks): (A, f64, f64),
        mut time: Parts<A>,
    ) -> Parts<A> {
        let rates = &self.rates;
        let tokens = batch.decodes + batch.prefill;
        let mut small = started.clone() * self.constant(P::Kernel, rates.kernel);
        if blocks > 0.0 {
            let count: A = input(blocks, "matmuls scaled by blocks", Unit::Number, SHAPES);
            small = small + count * self.constant(P::BlockMatmul, rates.block_matmul);
        }
        let bytes = tokens * self.hidden * ACTIVATION;
        let stream = self.constant::<A>(P::Stream, rates.stream)
            * input(bytes, "activations of the step", Unit::Bytes, BATCH)
            / rates.memory.peak(&self.fitted);
        let name = || TermLabel::new(alike.name("small kernels of a layer"), Unit::Seconds);
        time.overhead = ((small + stream) * version.clone()).called(name);
        if self.eager || batch.prefill > 0.0 {
            // Outside of graphs the host launches kernels one by one; only what the device does
            // not hide remains.
            let timed = input(timed, "kernels that were timed", Unit::Number, SHAPES);
            let launched = (started + timed) * self.constant(P::Launch, rates.launch);
            let hidden = launched * version.clone() - time.sum();
            let name = || TermLabel::new(alike.name("launches of a layer"), Unit::Seconds);
            time.overhead = time.overhead + hidden.or_more(A::number(0.0)).called(name);
        }
        time
    }

    fn matmul<A: Amount>(
        &self,
        matmul: &Matmul,
        curve: Option<&Curve>,
        tokens: f64,
        version: &A,
    ) -> A {
        // A kernel over no rows is not launched: the head of a chunk that ends no prompt.
        if tokens <= 0.0 {
            return A::number(0.0);
        }
        let rates = &self.rates;
        let least = least(self.least_matmul(matmul, tokens).seconds());
        if let Some(curve) = curve {
            let alone = timed::<A>(curve.at(tokens));
            let seconds = alone * self.constant(P::RunMatmul, rates.run_matmul) * version.clone();
            return seconds.or_more(least);
        }
        let (mut memory, mut compute) = (
            rates.memory.reached::<A>(&self.fitted),
            rates.compute(matmul.compute).reached::<A>(&self.fitted),
        );
        if matmul.weight_only {
            memory = memory * self.constant(P::WeightOnlyRate, rates.weight_only_memory);
            compute = compute * self.constant(P::WeightOnlyCompute, rates.weight_only_compute);
        }
        let reading = input::<A>(matmul.bytes, "weights", Unit::Bytes, SHAPES) / memory;
        let rows = computed_rows(tokens, matmul.rows, |tiles| self.tile_use.of(tiles));
        let computing = input::<A>(matmul.flop, "operations of a token", Unit::Flop, SHAPES)
            * input(
                rows,
                "rows",
                Unit::Number,
                "tokens padded to tiles, over the share of units that these keep busy",
            )
            / compute;
        let overlap = self.constant(P::Overlap, rates.overlap);
        (reading.smooth_max(computing, overlap) * version.clone()).or_more(least)
    }

    /// Seconds of a mixer, and whether they are measured ones.
    fn mixer<A: Amount>(
        &self,
        mixer: &MixerWork,
        curves: Option<&LayerCurves>,
        batch: &Batch,
    ) -> (A, bool) {
        let rates = &self.rates;
        let cache = || rates.cache.reached::<A>(&self.fitted);
        match *mixer {
            MixerWork::None => (A::number(0.0), false),
            MixerWork::Attention { .. } => {
                let generation = curves
                    .filter(|_| batch.decodes > 0.0)
                    .and_then(|curves| curves.generation(batch));
                let context = curves
                    .filter(|_| batch.prefill > 0.0)
                    .and_then(|curves| curves.context(batch));
                let decode = match generation {
                    Some(alone) => {
                        timed::<A>(alone) * self.constant(P::RunGeneration, rates.run_generation)
                    }
                    None => self.decoded(mixer, batch),
                };
                let prefill = match context {
                    Some(alone) => {
                        timed::<A>(alone) * self.constant(P::RunContext, rates.run_context)
                    }
                    None => self.prefilled(mixer, batch),
                };
                (decode + prefill, generation.is_some() || context.is_some())
            }
            MixerWork::Recurrent { bytes, flop } => {
                let states = input::<A>(bytes, "states of a sequence", Unit::Bytes, SHAPES);
                let mut seconds =
                    input::<A>(batch.decodes, "sequences", Unit::Number, BATCH) * states / cache();
                if batch.prefill > 0.0 {
                    let tokens = input::<A>(batch.prefill, "prompt tokens", Unit::Number, BATCH);
                    let work = input::<A>(flop, "operations of a prompt token", Unit::Flop, SHAPES);
                    seconds = seconds + tokens * work / rates.attention.reached(&self.fitted);
                }
                (seconds, false)
            }
        }
    }

    /// Seconds of new tokens over the cache, by shares of peaks.
    fn decoded<A: Amount>(&self, mixer: &MixerWork, batch: &Batch) -> A {
        let MixerWork::Attention {
            bytes,
            decode_flop,
            window,
            latent,
            top,
            ratio,
            ..
        } = *mixer
        else {
            return A::number(0.0);
        };
        if batch.decodes <= 0.0 {
            return A::number(0.0);
        }
        let rates = &self.rates;
        let near = window.visible(batch.context);
        let seen = entries(near, batch.context, top, ratio);
        let tokens = input::<A>(batch.decodes, "sequences", Unit::Number, BATCH)
            * input(seen, "context that is seen", Unit::Tokens, BATCH);
        let entry: A = input(bytes, "cache of a token", Unit::ByteCount, SHAPES);
        let read = tokens.clone() * entry;
        let reading = read.clone() / rates.cache.reached(&self.fitted);
        let rate = if latent {
            &rates.latent
        } else {
            &rates.attention
        };
        let work = input(
            decode_flop,
            "operations of a token seen",
            Unit::Flop,
            SHAPES,
        );
        let computing = tokens * work / rate.reached(&self.fitted);
        let done = reading.smooth_max(computing, self.constant(P::Overlap, rates.overlap));
        match rates.conversion {
            None => done,
            Some(rate) => {
                let name = "FP8 converted in software";
                done + read / input(rate, name, Unit::BytesPerSecond, "clocks of the units")
            }
        }
    }

    /// Seconds of attention over prompts, by shares of peaks.
    fn prefilled<A: Amount>(&self, mixer: &MixerWork, batch: &Batch) -> A {
        let MixerWork::Attention {
            prefill_flop,
            window,
            top,
            ratio,
            ..
        } = *mixer
        else {
            return A::number(0.0);
        };
        if batch.prefill <= 0.0 {
            return A::number(0.0);
        }
        let near = prefill_visible(window, batch.prefill_context);
        let seen = entries(near, batch.prefill_context, top, ratio);
        input::<A>(batch.prefill, "prompt tokens", Unit::Number, BATCH)
            * input(
                seen,
                "context that a prompt token sees",
                Unit::Tokens,
                BATCH,
            )
            * input(
                prefill_flop,
                "operations of a prompt token",
                Unit::Flop,
                SHAPES,
            )
            / self.rates.attention.reached(&self.fitted)
    }

    fn expert_seconds<A: Amount>(
        &self,
        experts: &ExpertWork,
        curve: Option<&Curve>,
        batch: &Batch,
    ) -> A {
        let all = batch.at_experts(f64::from(self.attention_groups()));
        match curve {
            Some(curve) => {
                timed::<A>(curve.at(all)) * self.constant(P::RunExperts, self.rates.run_experts)
            }
            None => self.experts(experts, all),
        }
    }

    /// Seconds of experts that so many tokens meet.
    fn experts<A: Amount>(&self, experts: &ExpertWork, all: f64) -> A {
        let rates = &self.rates;
        let ranks = f64::from(self.layout.expert.max(1));
        let groups: A = input(ranks, "expert-parallel ranks", Unit::Number, "the layout");
        let parts = f64::from(self.layout.expert_tensor());
        let within: A = input(parts, "parts of an expert", Unit::Number, "the layout");
        let count: A = input(experts.count, "experts", Unit::Number, SHAPES);
        let chosen: A = input(experts.chosen, "experts of a token", Unit::Number, SHAPES);
        let tokens: A = input(all, "tokens at the experts", Unit::Number, BATCH);
        let further: A = input(
            (all - 1.0).max(0.0),
            "further tokens at the experts",
            Unit::Number,
            BATCH,
        );
        // Tokens choose alike: each further one counts as a part of an independent choice.
        let one = || A::number(1.0);
        let choices = one() + self.constant::<A>(P::ExpertSkew, rates.expert_skew) * further;
        let missed = (one() - chosen.clone() / count.clone()).to_power(choices);
        let touched = (one() - missed)
            .called(|| TermLabel::new("share of experts touched", Unit::Number).digits(5));
        let local = count.clone() * touched.clone() / groups;
        let mut rate = rates.expert_memory.reached::<A>(&self.fitted);
        let mut compute = rates.compute(experts.compute).peak::<A>(&self.fitted)
            * self.constant(
                rates.compute(experts.compute).parameter,
                rates.compute(experts.compute).share,
            );
        if experts.four_bit {
            rate = rate * self.constant(P::ExpertFourBit, rates.expert_four_bit);
        }
        if experts.weight_only {
            rate = rate * self.constant(P::ExpertWeightOnly, rates.expert_weight_only);
            compute = compute * self.constant(P::WeightOnlyCompute, rates.weight_only_compute);
        }
        compute = compute * self.constant(P::ExpertComputeRate, rates.expert_compute);
        let bytes: A = input(experts.bytes, "weights of an expert", Unit::Bytes, SHAPES);
        let mut reading = local.clone() * bytes / within.clone() / rate;
        let each = (tokens * chosen / (count * touched))
            .called(|| TermLabel::new("tokens of an expert", Unit::Number).digits(5));
        let rows = each.with(self.constant(P::ExpertTile, rates.expert_tile));
        let flop = input(experts.flop, "operations of a token", Unit::Flop, SHAPES);
        let mut computing = local * rows * flop / within;
        if ranks > 1.0 {
            let imbalance = || self.constant::<A>(P::ExpertImbalance, rates.expert_imbalance);
            reading = reading * imbalance().to_power(A::number(0.5));
            computing = computing * imbalance();
        }
        reading.smooth_max(
            computing / compute,
            self.constant(P::Overlap, rates.overlap),
        )
    }
}

/// Seconds below which the silicon cannot end.
fn least<A: Amount>(seconds: f64) -> A {
    input(
        seconds,
        "least of the silicon",
        Unit::Seconds,
        "roofline: bytes over 0.95 of peak bandwidth or operations over 0.89 of peak, the longer",
    )
}

/// Seconds of an operator that was timed alone.
fn timed<A: Amount>(seconds: f64) -> A {
    input(
        seconds,
        "timed alone",
        Unit::Seconds,
        "measured operators of this silicon and engine",
    )
}
