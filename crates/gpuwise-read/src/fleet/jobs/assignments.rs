//! Where a job runs already: `gpu-01:0-7`, `gpu-{02..08}:0-7`, `gpu-09:3@4`, `cpu-1`; one for each worker.

use super::Build;
use crate::fleet::text::{Found, expand, parts};
use gpuwise_domain::placement::{Assignment, GpuAsk, GpuId, GpuShare, Job, MigShape, NodeId, Part};

impl Build<'_> {
    /// The assignments of a job's workers.
    pub(super) fn assignments(&self, job: &Job, texts: &[String]) -> Found<Vec<Assignment>> {
        let mut out = Vec::new();
        for text in texts {
            let (nodes, rest) = match text.rsplit_once(':') {
                Some((nodes, rest)) => (nodes, Some(rest)),
                None => (text.as_str(), None),
            };
            for name in expand(nodes)? {
                let node = self.nodes.get(name.as_str()).copied();
                let node = node.ok_or_else(|| format!("the fleet has no node {name:?}"))?;
                let gpus = self.shares(job, node, &name, rest)?;
                out.push(Assignment { node, gpus });
            }
        }
        let count = out.len() as u64;
        if !(u64::from(job.gang.least)..=u64::from(job.gang.most)).contains(&count) {
            return Err(format!(
                "it names {count} assignments, and the job has {} to {} workers; one for each is expected",
                job.gang.least, job.gang.most
            ));
        }
        Ok(out)
    }

    fn shares(
        &self,
        job: &Job,
        node: NodeId,
        name: &str,
        rest: Option<&str>,
    ) -> Found<Vec<GpuShare>> {
        let Some(rest) = rest else {
            return match job.worker.gpu {
                GpuAsk::None => Ok(Vec::new()),
                _ => Err(format!("{name:?}: on which GPUs? such as {name}:0-7")),
            };
        };
        let (numbers, start) = match rest.split_once('@') {
            Some((numbers, start)) => (numbers, Some(start)),
            None => (rest, None),
        };
        let numbers = parts(numbers, 100_000)?;
        let expected = match job.worker.gpu {
            GpuAsk::None => 0,
            GpuAsk::Whole { count, .. } => count as usize,
            GpuAsk::Fraction { .. } | GpuAsk::Slice { .. } => 1,
        };
        if numbers.len() != expected {
            return Err(format!(
                "{name}:{rest} are {} GPUs, and a worker has {expected}",
                numbers.len()
            ));
        }
        let mut out: Vec<GpuShare> = Vec::new();
        for number in numbers {
            let gpu = self.gpu_of(node, name, number)?;
            let part = match job.worker.gpu {
                GpuAsk::None | GpuAsk::Whole { .. } => Part::Whole,
                GpuAsk::Fraction {
                    milli,
                    memory_mib,
                    isolation,
                    ..
                } => Part::Fraction {
                    milli,
                    memory_mib: memory_mib.unwrap_or(0),
                    isolation,
                },
                GpuAsk::Slice { .. } => self.instance(job, gpu, name, start)?,
            };
            if out.iter().any(|other| other.gpu == gpu) {
                return Err(format!("{name}:{rest} names GPU {number} twice"));
            }
            out.push(GpuShare { gpu, part });
        }
        Ok(out)
    }

    fn gpu_of(&self, node: NodeId, name: &str, number: u32) -> Found<GpuId> {
        let found = self.fleet.nodes.get(node.index());
        let gpus = found.map_or(&[][..], |node| &node.gpus);
        gpus.get(number as usize).copied().ok_or_else(|| {
            format!(
                "node {name:?} has no GPU {number}; it has {}, which count from 0",
                gpus.len()
            )
        })
    }

    /// The instance that starts at a memory slice: the smallest profile that gives what is asked.
    fn instance(&self, job: &Job, gpu: GpuId, name: &str, start: Option<&str>) -> Found<Part> {
        let GpuAsk::Slice { slice, .. } = job.worker.gpu else {
            return Ok(Part::Whole);
        };
        let start: u8 = start
            .and_then(|text| text.trim().parse().ok())
            .ok_or_else(|| format!("{name}: at which memory slice? such as {name}:3@4"))?;
        let kind = self.fleet.gpus.get(gpu.index()).map(|gpu| gpu.kind);
        let known = kind.and_then(|kind| self.kinds.get(kind));
        let fits = |shape: &MigShape| {
            shape.mask(start).is_some()
                && (slice.compute == 0 || shape.compute == slice.compute)
                && (slice.memory_slices == 0 || shape.size == slice.memory_slices)
                && shape.memory_mib.is_none_or(|mib| mib >= slice.memory_mib)
                && shape.units.is_none_or(|units| units >= slice.units)
                && shape.media == slice.media
        };
        let shapes = known.and_then(|known| known.kind.mig.as_ref());
        let shapes = shapes.map_or(&[][..], |mig| &mig.shapes);
        let smallest = (0_u8..)
            .zip(shapes)
            .filter(|(_, shape)| fits(shape))
            .min_by_key(|(_, shape)| (shape.compute, shape.size));
        smallest
            .map(|(shape, _)| Part::Slice { shape, start })
            .ok_or_else(|| {
                format!(
                    "{name}: no profile that gives what is asked can start at memory slice {start}"
                )
            })
    }
}
