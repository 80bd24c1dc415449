//! What was timed, as figures and as a table of matrix products.

use crate::{device::DeviceFacts, sample::Sample, work::Work};
use gpuwise_domain::profile::{
    figure::{Figure, Scope, Value},
    matmul::MatmulShape,
};
use std::fmt::Write as _;

/// A piece of work with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    pub work: Work,
    /// How long it took.
    pub sample: Sample,
}

impl Timing {
    /// Bytes a second that it moved; of products, none is given: caches may have helped.
    pub fn bytes_per_second(&self) -> Option<f64> {
        match self.work {
            Work::Matmul(..) => None,
            work => work.bytes().map(|bytes| bytes as f64 / self.sample.median),
        }
    }

    /// Floating-point operations a second.
    pub fn operations_per_second(&self) -> Option<f64> {
        self.work
            .operations()
            .map(|operations| operations / self.sample.median)
    }
}

/// All that was timed of one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub device: DeviceFacts,
    /// What was timed, in the order in which it ran.
    pub timings: Vec<Timing>,
    /// What could not be timed, and why.
    pub missing: Vec<String>,
}

impl Report {
    /// The figures to keep: rates of copies, times of launches and products.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for timing in &self.timings {
            let mut push = |name: &str, value: f64| {
                figures.push(Figure {
                    name: name.into(),
                    scope: Scope {
                        rank: None,
                        device: Some(i64::from(self.device.number)),
                        part: Some(timing.work.name()),
                    },
                    value: Value::Real(value),
                });
            };
            if let Some(rate) = timing.bytes_per_second() {
                push("gpu_copy_bytes_per_s", rate);
            } else if let Some(rate) = timing.operations_per_second() {
                push("gpu_matmul_ns", timing.sample.median * 1e9);
                push("gpu_matmul_flops_per_s", rate);
            } else {
                push("gpu_launch_ns", timing.sample.median * 1e9);
            }
        }
        figures
    }

    /// The matrix products as `system,dtype,m,n,k,ms`; `None` where there are none.
    pub fn matmuls(&self, system: &str) -> Option<String> {
        let mut text = String::from("system,dtype,m,n,k,ms\n");
        let head = text.len();
        // A cell with a comma or a quote is quoted (RFC 4180).
        let system = if system.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", system.replace('"', "\"\""))
        } else {
            system.to_owned()
        };
        for timing in &self.timings {
            if let Work::Matmul(precision, MatmulShape { m, n, k }) = timing.work {
                let (name, time) = (precision.name(), timing.sample.median * 1e3);
                // Writing to a text cannot fail.
                let _ = writeln!(text, "{system},{name},{m},{n},{k},{time:.7}");
            }
        }
        (text.len() > head).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Precision;

    fn report() -> Report {
        let timing = |work, median| Timing {
            work,
            sample: Sample {
                median,
                spread: 0.01,
                repeats: 20,
                pieces: 1,
            },
        };
        let shape = MatmulShape {
            m: 1000,
            n: 1000,
            k: 500,
        };
        Report {
            device: DeviceFacts {
                number: 2,
                ..DeviceFacts::default()
            },
            timings: vec![
                timing(Work::CopyWithin(1_000_000_000), 0.001),
                timing(
                    Work::ToGpu {
                        bytes: 1_000_000_000,
                        pinned: true,
                    },
                    0.02,
                ),
                timing(Work::Launch, 2.5e-6),
                timing(Work::Matmul(Precision::Bf16, shape), 1e-5),
            ],
            missing: Vec::new(),
        }
    }

    #[test]
    fn figures_have_their_units() {
        let figures = report().figures();
        let check = |name: &str, part: &str, expect: f64| {
            let found = figures
                .iter()
                .find(|figure| figure.name == name && figure.scope.part.as_deref() == Some(part));
            let found = found.unwrap_or_else(|| panic!("no {name} of {part}"));
            assert_eq!(found.scope.device, Some(2));
            let value = found.value.real().expect("known");
            assert!(
                (value / expect - 1.0).abs() < 1e-12,
                "{name} {part}: {value}"
            );
        };
        // A gigabyte read and written in a millisecond.
        check("gpu_copy_bytes_per_s", "copy within", 2e12);
        check("gpu_copy_bytes_per_s", "to GPU, pinned", 5e10);
        check("gpu_launch_ns", "launch", 2500.0);
        check("gpu_matmul_ns", "bf16 1000x1000x500", 10_000.0);
        check("gpu_matmul_flops_per_s", "bf16 1000x1000x500", 1e14);
        assert_eq!(figures.len(), 5);
    }

    #[test]
    fn products_are_a_table() {
        let mut report = report();
        assert_eq!(
            report.matmuls("h100_sxm").as_deref(),
            Some("system,dtype,m,n,k,ms\nh100_sxm,bf16,1000,1000,500,0.0100000\n")
        );
        let quoted = report.matmuls("a,\"b\"").expect("rows");
        assert!(quoted.ends_with("\n\"a,\"\"b\"\"\",bf16,1000,1000,500,0.0100000\n"));
        report.timings.truncate(3);
        assert_eq!(report.matmuls("h100_sxm"), None);
    }
}
