//! Timed products, and the processors they ran on.

use gpuwise_domain::{
    engine::EngineKind,
    profile::matmul::{MatmulPrecision, MatmulShape, Processor, TimedMatmul},
};
use gpuwise_operators::{GemmFormat, Silicon, fit::Samples, tables::gemm::GEMM};

/// The engine whose kernels price products: its table holds those of the vendors' libraries.
pub const ENGINE: EngineKind = EngineKind::Vllm;

/// The format of operators in which a precision multiplies.
pub const fn format(precision: MatmulPrecision) -> GemmFormat {
    match precision {
        MatmulPrecision::Bf16 => GemmFormat::Bf16,
        MatmulPrecision::Fp8 => GemmFormat::Fp8,
        MatmulPrecision::Fp8Block => GemmFormat::Fp8Block,
    }
}

/// Timed products, and the processors they ran on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timings {
    /// Processors, in order of first use.
    pub processors: Vec<Processor>,
    /// The same as operators look at them.
    pub silicons: Vec<Silicon>,
    /// What the table calls them: for people, never a feature.
    pub names: Vec<String>,
    pub rows: Vec<Timing>,
    /// Systems that no processor is known for, each with its count of rows.
    pub unknown: Vec<(String, u64)>,
    /// Systems and precisions whose rows are the host's time, each with its count of rows.
    pub host_bound: Vec<(String, MatmulPrecision, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Index of its processor.
    pub processor: usize,
    pub precision: MatmulPrecision,
    pub shape: MatmulShape,
    /// Seconds it took.
    pub seconds: f64,
}

/// The shortest time of any product above which the host was timed rather than the GPU: kernels in a
/// CUDA graph take 2 to 10 µs, launched one by one 20 and more.
const HOST: f64 = 15e-6;

impl Timings {
    /// Rows of a table with the processors that `find` knows by the table's names. What was timed
    /// twice counts once, by its first row.
    pub fn new<'a>(
        rows: &'a [TimedMatmul],
        mut find: impl FnMut(&'a str) -> Option<(Processor, Silicon)>,
    ) -> Self {
        let mut timings = Self::default();
        let mut seen = std::collections::BTreeSet::new();
        for row in rows {
            let known = timings.names.iter().position(|name| *name == row.system);
            let processor = match known {
                Some(processor) => processor,
                None if count(&mut timings.unknown, &row.system) => continue,
                None => {
                    let Some((processor, silicon)) = find(&row.system) else {
                        timings.unknown.push((row.system.clone(), 1));
                        continue;
                    };
                    timings.names.push(row.system.clone());
                    timings.processors.push(processor);
                    timings.silicons.push(silicon);
                    timings.names.len() - 1
                }
            };
            if seen.insert((processor, row.precision, row.shape)) {
                timings.rows.push(Timing {
                    processor,
                    precision: row.precision,
                    shape: row.shape,
                    seconds: row.seconds,
                });
            }
        }
        timings.leave_the_host_out();
        timings
    }

    fn leave_the_host_out(&mut self) {
        for (processor, name) in self.names.iter().enumerate() {
            for precision in MatmulPrecision::ALL {
                let own = |row: &Timing| row.processor == processor && row.precision == precision;
                let mine = self.rows.iter().filter(|row| own(row));
                let least = mine.map(|row| row.seconds).fold(f64::INFINITY, f64::min);
                if least.is_finite() && least > HOST {
                    let before = self.rows.len();
                    self.rows.retain(|row| !own(row));
                    let left = (before - self.rows.len()) as u64;
                    self.host_bound.push((name.clone(), precision, left));
                }
            }
        }
    }

    /// The rows as operator functions are fitted to them, in the same order.
    pub fn samples(&self) -> Samples {
        let mut samples = Samples::new(&GEMM);
        for row in &self.rows {
            let MatmulShape { m, n, k } = row.shape;
            samples.product(
                &self.silicons[row.processor],
                ENGINE,
                format(row.precision),
                [m, n, k].map(f64::from),
                row.seconds,
            );
        }
        samples
    }

    /// Whether two processors are one chip: of boards on one die, one tells of the other.
    pub fn twins(&self, a: usize, b: usize) -> bool {
        let chip = |at: usize| {
            let processor = &self.processors[at];
            (
                &processor.vendor,
                &processor.generation,
                processor.capability,
            )
        };
        a == b || chip(a) == chip(b)
    }

    /// Whether two processors are of one architecture: they differ in no more than a stepping.
    pub fn kin(&self, a: usize, b: usize) -> bool {
        let family = |at: usize| {
            let processor = &self.processors[at];
            let major = processor.capability.map(|(major, _)| major);
            (&processor.vendor, &processor.generation, major)
        };
        a == b || family(a) == family(b)
    }
}

/// Counts one more of a name that is there already.
fn count(counts: &mut [(String, u64)], name: &str) -> bool {
    let known = counts.iter_mut().find(|(known, _)| known == name);
    known.map(|(_, count)| *count += 1).is_some()
}

/// Seconds of a launch that whoever knows nothing else assumes: `gpu.mem_empirical_constant_latency` of
/// the system descriptions of ai-dynamo/aiconfigurator.
const LAUNCH: f64 = 3e-6;

/// Seconds by the roofline of whoever knows nothing else: the longer of computing and reading at the
/// peaks, and a launch. What others are held against.
pub fn roofline(
    processor: &Processor,
    precision: MatmulPrecision,
    shape: MatmulShape,
) -> Option<f64> {
    let compute = shape.operations() / processor.peak(precision)?;
    let memory = shape.bytes(precision) / processor.bandwidth;
    Some(compute.max(memory) + LAUNCH)
}
