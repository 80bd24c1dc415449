//! One shape of every operator against the size that it is drawn over.

use crate::{
    Collective, Exchange, ExpertLoad, Experts, Functions, GemmFormat, Heads, KvFormat, Lane,
    MoeFormat, OperatorError, Phase, Prediction, Silicon,
    tables::{
        Case, Operator, Weights, Work,
        attention::{
            context::{self, Formats},
            encoder, generation, latent, latent_block, latent_product,
        },
        collective, exchange, gemm, moe,
    },
};
use alloc::{boxed::Box, collections::BTreeSet, format, string::String, vec::Vec};
use core::ops::RangeInclusive;
use gpuwise_domain::{engine::EngineKind, precision::Compute};

/// The size along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Tokens of a step, or of a sequence.
    Tokens,
    Sequences,
    Bytes,
}

impl Size {
    /// Its name, as a column's key is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Sequences => "sequences",
            Self::Bytes => "bytes",
        }
    }
}

/// An operator of one shape in several formats.
#[derive(Debug)]
pub struct Example {
    /// The shape in words.
    pub what: &'static str,
    /// What bounds it in words, as the share is of it.
    pub limit: &'static str,
    /// What runs along the axis.
    pub size: Size,
    /// Doublings of the size, from 1.
    pub doublings: RangeInclusive<u32>,
    /// A curve for each format; at least one.
    pub lines: Vec<Line>,
}

/// One format of an [`Example`].
pub struct Line {
    /// The format, as the table names it.
    pub format: String,
    lane: Lane,
    model: String,
    work: Box<dyn Fn(f64) -> Work>,
    unit: Compute,
    /// Bytes that are stated to move, over those that surely do.
    stated: f64,
}

impl Line {
    /// What a format's name begins with where several formats are of one phase.
    fn phase(&self) -> &str {
        self.format.split_once('/').map_or("", |(phase, _)| phase)
    }
}

impl core::fmt::Debug for Line {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Line")
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

/// A width of large models' layers.
const WIDTH: f64 = 8192.0;
/// The experts of Qwen3-30B-A3B.
const EXPERTS: Experts = Experts {
    hidden: 2048.0,
    inter: 768.0,
    topk: 8.0,
    experts: 128.0,
    tensor_parallel: 1.0,
    expert_parallel: 1.0,
    gated: true,
};
/// The heads of Llama 3.1 8B.
const HEADS: Heads = Heads {
    queries: 32.0,
    keys: 8.0,
    width: 128.0,
    window: 0.0,
};
/// Tokens that each sequence of a decode step has cached.
const CACHED: f64 = 4096.0;
/// Sequences of a decode step where the length is what varies.
const SEQUENCES: f64 = 64.0;
/// Heads of DeepSeek-V3 on one of eight GPUs, and on one that has them all.
const SPLIT: f64 = 16.0;
const WHOLE: f64 = 128.0;
/// GPUs of a node.
const NODE: f64 = 8.0;

/// How lines are made for one GPU and engine.
struct Maker<'a> {
    silicon: &'a Silicon,
    engine: &'static str,
}

impl Maker<'_> {
    /// The line of a format, which multiplies in this unit.
    fn line(
        &self,
        format: impl Into<String>,
        unit: Compute,
        work: impl Fn(&Silicon, f64) -> Work + 'static,
    ) -> Line {
        let format = format.into();
        let silicon = self.silicon.clone();
        Line {
            lane: Lane::new(&format, self.engine, "", "", self.silicon),
            format,
            model: String::new(),
            unit,
            stated: 1.0,
            work: Box::new(move |size| work(&silicon, size)),
        }
    }

    fn gemm(&self) -> Vec<Line> {
        let line = |format: GemmFormat| {
            self.line(format.label(), format.compute(), move |silicon, tokens| {
                gemm::work(silicon, format, Weights::Cold, [tokens, WIDTH, WIDTH])
            })
        };
        GemmFormat::ALL.into_iter().map(line).collect()
    }

    fn moe(&self) -> Vec<Line> {
        let line = |format: MoeFormat| Line {
            model: EXPERTS.model(),
            ..self.line(
                EXPERTS.lane_format(format),
                format.compute(),
                move |silicon, tokens| {
                    let load = ExpertLoad::Balanced;
                    moe::work(silicon, format, Weights::Cold, &EXPERTS, load, tokens)
                },
            )
        };
        MoeFormat::ALL.into_iter().map(line).collect()
    }

    fn context(&self) -> Vec<Line> {
        let line = |(compute, cache)| {
            let formats = Formats::of(compute, cache, self.engine, self.silicon);
            self.line(formats.label(), unit(compute), move |silicon, tokens| {
                context::work(silicon, formats, &HEADS, [1.0, tokens])
            })
        };
        let (bf16, fp8) = (KvFormat::Bf16, KvFormat::Fp8);
        [(bf16, bf16), (bf16, fp8), (fp8, fp8)].map(line).into()
    }

    fn generation(&self) -> Vec<Line> {
        let as_cached = generation::as_cached(self.engine, self.silicon);
        let line = |cache: KvFormat| {
            self.line(cache.label(), Compute::Half, move |silicon, sequences| {
                let size = [sequences, CACHED];
                generation::work(silicon, Weights::Cold, cache, as_cached, &HEADS, size)
            })
        };
        [KvFormat::Bf16, KvFormat::Fp8].map(line).into()
    }

    fn encoder(&self) -> Vec<Line> {
        let line = self.line("bfloat16", Compute::Half, |silicon, tokens| {
            encoder::work(silicon, [16.0, 80.0], [1.0, tokens])
        });
        [line].into()
    }

    fn latent(&self) -> Vec<Line> {
        let prompt = |cache| {
            self.line(
                latent::label("context", cache),
                Compute::Half,
                move |silicon, tokens| latent::context_work(silicon, cache, SPLIT, [1.0, tokens]),
            )
        };
        let step = |cache| {
            self.line(
                latent::label("generation", cache),
                Compute::Half,
                move |silicon, tokens| {
                    let size = [SEQUENCES, tokens];
                    latent::generation_work(silicon, Weights::Cold, cache, SPLIT, size)
                },
            )
        };
        let (bf16, fp8) = (KvFormat::Bf16, KvFormat::Fp8);
        [prompt(bf16), prompt(fp8), step(bf16), step(fp8)].into()
    }

    fn latent_block(&self) -> Vec<Line> {
        let line = |phase: &'static str, gemm: GemmFormat| {
            let short = format!("{phase}/{}", gemm.label());
            let format = format!("{short}/bfloat16/bfloat16");
            let line = self.line(format, gemm.compute(), move |silicon, tokens| {
                let size = match phase {
                    "context" => [1.0, tokens, tokens],
                    _ => [SEQUENCES, 1.0, tokens],
                };
                latent_block::work(silicon, gemm, KvFormat::Bf16, WHOLE, size)
            });
            Line {
                format: short,
                ..line
            }
        };
        let formats = [GemmFormat::Bf16, GemmFormat::Fp8Block];
        let of = |phase| formats.map(|format| line(phase, format));
        [of("context"), of("generation")]
            .into_iter()
            .flatten()
            .collect()
    }

    fn latent_product(&self) -> Vec<Line> {
        let line = |phase: &str, format: GemmFormat| {
            let label = format!("{phase}/{}", format.label());
            self.line(label, format.compute(), move |silicon, tokens| {
                latent_product::work(silicon, format, [WHOLE, tokens])
            })
        };
        let formats = [GemmFormat::Bf16, GemmFormat::Fp8];
        let of = |phase| formats.map(|format| line(phase, format));
        [of("pre"), of("post")].into_iter().flatten().collect()
    }

    fn library(&self) -> Vec<Line> {
        let nccl = Self {
            engine: "nccl",
            ..*self
        };
        let line = |collective: Collective| {
            nccl.line(collective.label(), Compute::Half, move |silicon, bytes| {
                collective::work(silicon, collective, true, [NODE, bytes])
            })
        };
        Collective::ALL.into_iter().map(line).collect()
    }

    fn all_reduce(&self) -> Vec<Line> {
        let line = self.line(collective::GRAPH, Compute::Half, |silicon, bytes| {
            collective::work(silicon, Collective::AllReduce, false, [NODE, bytes])
        });
        [line].into()
    }

    fn exchange(&self, engine: EngineKind) -> Vec<Line> {
        let line = |phase: Phase| {
            let label = exchange::label(engine, phase);
            let asked = Exchange {
                ranks: NODE,
                joined: NODE,
                hidden: 7168.0,
                bytes: exchange::element_bytes(label.rsplit('/').next().unwrap_or_default()),
                chosen: 8.0,
                experts: 256.0,
                sms: 0.0,
            };
            Line {
                stated: 1.0 / exchange::SLIMMEST,
                ..self.line(label, Compute::Half, move |silicon, tokens| {
                    exchange::work(silicon, &asked, tokens)
                })
            }
        };
        Phase::ALL.into_iter().map(line).collect()
    }
}

/// What queries of a format are multiplied in.
const fn unit(format: KvFormat) -> Compute {
    match format {
        KvFormat::Bf16 => Compute::Half,
        KvFormat::Fp8 => Compute::Fp8,
    }
}

const PEAK_OR_MEMORY: &str =
    "FLOP at the dense peak or bytes at the memory's bandwidth, whichever takes longer";
const LINK: &str = "bytes that must pass a GPU's link at the link's bandwidth";

impl Example {
    /// Whether the link between GPUs bounds it.
    pub fn over_link(&self) -> bool {
        self.limit == LINK
    }

    /// That of an operator on a GPU under an engine.
    pub fn of(operator: &Operator, engine: EngineKind, silicon: &Silicon) -> Option<Self> {
        let maker = Maker {
            silicon,
            engine: engine.name(),
        };
        let example = |what, size, doublings, lines| Self {
            what,
            limit: if size == Size::Bytes || operator.name == exchange::EXCHANGE.name {
                LINK
            } else {
                PEAK_OR_MEMORY
            },
            size,
            doublings,
            lines,
        };
        let (tokens, bytes) = (Size::Tokens, Size::Bytes);
        Some(match operator.name {
            "gemm" => example(
                "GEMM of 8192 outputs and inputs",
                tokens,
                0..=14,
                maker.gemm(),
            ),
            "moe" => example(
                "8 of 128 experts of 2048 x 768",
                tokens,
                0..=14,
                maker.moe(),
            ),
            "attention_context" => example(
                "Attention of 32 heads (8 of keys) of 128 over one prompt",
                tokens,
                5..=17,
                maker.context(),
            ),
            "attention_generation" => example(
                "Attention of 32 heads (8 of keys) of 128 over 4096 cached tokens a sequence",
                Size::Sequences,
                0..=8,
                maker.generation(),
            ),
            "attention_encoder" => example(
                "Attention both ways of 16 heads of 80 over one image",
                tokens,
                5..=14,
                maker.encoder(),
            ),
            "mla" => example(
                "Latent attention of 16 heads over one prompt, or over the caches of 64 sequences",
                tokens,
                5..=16,
                maker.latent(),
            ),
            "mla_module" => example(
                "Latent attention block of 128 heads over one prompt, or a step of 64 sequences",
                tokens,
                5..=16,
                maker.latent_block(),
            ),
            "mla_bmm" => example(
                "Absorbed products of 128 heads",
                tokens,
                0..=13,
                maker.latent_product(),
            ),
            "comm_nccl" => example("Collectives over 8 GPUs", bytes, 10..=30, maker.library()),
            "comm_allreduce" => example(
                "The engine's all-reduce over 8 GPUs",
                bytes,
                10..=28,
                maker.all_reduce(),
            ),
            "comm_moe" => example(
                "Exchange of 8 of 256 experts between 8 GPUs",
                tokens,
                0..=14,
                maker.exchange(engine),
            ),
            _ => return None,
        })
    }
}

impl Functions {
    /// An example with the formats that this GPU has and that were measured on its family, and at
    /// least one of each phase.
    pub fn example(
        &self,
        operator: &Operator,
        engine: EngineKind,
        silicon: &Silicon,
    ) -> Option<Example> {
        let mut example = Example::of(operator, engine, silicon)?;
        let mut phases = BTreeSet::new();
        example.lines.retain(|line| {
            let first = phases.insert(String::from(line.phase()));
            first || silicon.has(line.unit) && self.covers_lane(operator.name, &line.lane)
        });
        Some(example)
    }

    /// What a line takes at a size, and the share of what bounds it.
    ///
    /// # Errors
    /// When nothing is known of the operator.
    pub fn along(
        &self,
        operator: &Operator,
        line: &Line,
        size: f64,
    ) -> Result<(Prediction, f64), OperatorError> {
        let work = (line.work)(size);
        let case = Case {
            format: line.format.clone(),
            model: line.model.clone(),
            work,
            outside: None,
        };
        let told = self.predict(operator, &line.lane, &case)?;
        let limit = work.compute.max(work.memory * line.stated);
        Ok((told, limit / told.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, tables};

    #[test]
    fn every_table_has_an_example_that_its_surfaces_can_place() {
        let silicon = Silicon {
            name: "GPU".into(),
            class: Class::Hbm,
            architecture: ("sm9x".into(), "sm90".into()),
            half: 1e15,
            fp8: 2e15,
            fp4: 0.0,
            int8: 2e15,
            bandwidth: 3e12,
            units: 132.0,
            clock: 1.8e9,
            l2: 5e7,
            link: 4.5e11,
        };
        for operator in tables::ALL {
            let example = Example::of(operator, EngineKind::Vllm, &silicon);
            let example = example.expect("every table has an example");
            assert!(!example.lines.is_empty());
            for line in &example.lines {
                for doubling in example.doublings.clone() {
                    let work = (line.work)(libm::exp2(f64::from(doubling)));
                    // The sure bytes and FLOP are no more than the ideal takes.
                    let ideal = work.ideal.seconds(None);
                    assert!(ideal > 0.0 && work.compute.max(work.memory) > 0.0);
                    assert!(work.memory * line.stated < ideal, "{line:?} {work:?}");
                }
            }
        }
    }
}
