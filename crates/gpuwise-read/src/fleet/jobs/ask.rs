//! What one worker of a job needs.

use super::{
    Build, Field,
    tables::{Gpus, JobTable, NeedTable, Share, Slice},
};
use crate::fleet::inventory::KnownGpu;
use crate::fleet::text::{
    Found, counted_gpu, cpu_milli, expand, features_of, memory_mib, share_milli,
};
use gpuwise_domain::placement::{
    GpuAsk, Isolation, KindId, Kinds, MigShape, Need, NodeId, SliceAsk, WorkerAsk, mps_milli,
    smallest_vgpu,
};

impl Build<'_> {
    pub(super) fn worker(&mut self, table: &JobTable) -> Field<WorkerAsk> {
        let memory = table.memory.as_deref();
        let memory = memory.map_or(Ok(0), |text| memory_mib("memory", text));
        Ok(WorkerAsk {
            cpu_milli: table
                .cpu
                .map_or(Ok(0), cpu_milli)
                .map_err(|problem| ("cpu", problem))?,
            memory_mib: memory.map_err(|problem| ("memory", problem))?,
            gpu: {
                let gpu = self.gpu(table)?;
                self.on_features(table, gpu)?
            },
        })
    }

    /// The same, on nodes with the features that it asks for alone.
    fn on_features(&self, table: &JobTable, mut gpu: GpuAsk) -> Field<GpuAsk> {
        let wrong = |problem| ("features", problem);
        let features = table.features.as_ref().map_or(&[][..], |all| all.all());
        let features = features_of(features).map_err(wrong)?;
        if features.is_empty() {
            return Ok(gpu);
        }
        let (GpuAsk::Whole { kinds, .. }
        | GpuAsk::Fraction { kinds, .. }
        | GpuAsk::Slice { kinds, .. }) = &mut gpu
        else {
            let what = "features are those of nodes with GPUs; say gpus, fraction or slice, too";
            return Err(wrong(what.into()));
        };
        *kinds = kinds.and(self.kinds.with_features(&features));
        if *kinds == Kinds::NONE {
            return Err(wrong(format!(
                "no node with such a GPU has {}; the features of nodes are {}",
                features.join(" and "),
                self.kinds.features()
            )));
        }
        Ok(gpu)
    }

    fn gpu(&mut self, table: &JobTable) -> Field<GpuAsk> {
        let several = "gpus, slice and fraction are three ways to ask; one of them is enough";
        let need = need(&table.need).map_err(|problem| ("need", problem))?;
        let typed = self.types(table)?;
        let kinds = typed.unwrap_or(Kinds::ANY);
        match (&table.gpus, &table.slice, &table.fraction) {
            (None, None, None) if need == Need::default() && typed.is_none() => Ok(GpuAsk::None),
            (None, None, None) => Ok(GpuAsk::Whole {
                count: 1,
                kinds,
                need,
            }),
            (Some(gpus), None, None) => self.whole(gpus, typed, need),
            (None, Some(_), None) | (None, None, Some(_)) if need != Need::default() => Err((
                "need",
                "what a whole GPU must have; a slice or fraction says its own memory".into(),
            )),
            (None, Some(slice), None) => self
                .slice(slice, kinds)
                .map_err(|problem| ("slice", problem)),
            (None, None, Some(share)) => self
                .fraction(share, kinds)
                .map_err(|problem| ("fraction", problem)),
            (Some(_), _, _) => Err(("gpus", several.into())),
            (None, Some(_), Some(_)) => Err(("slice", several.into())),
        }
    }

    fn whole(&mut self, gpus: &Gpus, typed: Option<Kinds>, need: Need) -> Field<GpuAsk> {
        let wrong = |problem| ("gpus", problem);
        let (count, kinds) = match gpus {
            Gpus::Count(count @ 1..=100_000) => (*count as u32, typed.unwrap_or(Kinds::ANY)),
            Gpus::Count(count) => {
                return Err(wrong(format!(
                    "gpus is {count}; expected a number from 1, or leave it out"
                )));
            }
            Gpus::Text(text) => {
                let (count, name) = counted_gpu("gpus", text).map_err(wrong)?;
                if typed.is_some() {
                    let what = "gpus names a type already; write gpus = 8 beside types";
                    return Err(("types", what.into()));
                }
                (count, self.kinds.all_named(&name).map_err(wrong)?)
            }
        };
        Ok(GpuAsk::Whole { count, kinds, need })
    }

    fn types(&mut self, table: &JobTable) -> Field<Option<Kinds>> {
        let Some(types) = &table.types else {
            return Ok(None);
        };
        let mut kinds = Kinds::NONE;
        for name in types.all() {
            let named = self.kinds.all_named(name);
            kinds = kinds.or(named.map_err(|problem| ("types", problem))?);
        }
        if kinds == Kinds::NONE {
            return Err(("types", "types is empty; leave it out for any".into()));
        }
        Ok(Some(kinds))
    }

    fn slice(&self, slice: &Slice, kinds: Kinds) -> Found<GpuAsk> {
        match slice {
            Slice::Profile(profile) => self.profile(profile.trim(), kinds),
            Slice::Least(least) => {
                let memory = least.memory.as_deref();
                let memory = memory.map_or(Ok(0), |text| memory_mib("slice: memory", text))?;
                let units = least.units.unwrap_or(0);
                if memory == 0 && units == 0 {
                    return Err("slice says neither memory nor units; one is needed".into());
                }
                Ok(GpuAsk::Slice {
                    slice: SliceAsk {
                        memory_mib: small(memory)?,
                        units,
                        media: least.media,
                        ..SliceAsk::default()
                    },
                    kinds,
                })
            }
        }
    }

    /// A profile by name: what the boards that have it have in common.
    fn profile(&self, profile: &str, kinds: Kinds) -> Found<GpuAsk> {
        let mut found: Vec<(KindId, &MigShape)> = Vec::new();
        for id in kinds.iter() {
            let mig = self.kinds.get(id).and_then(|known| known.kind.mig.as_ref());
            let shape = mig.and_then(|mig| mig.shape(mig.named(profile)?));
            found.extend(shape.map(|shape| (id, shape)));
        }
        let Some((_, first)) = found.first() else {
            return Err(format!(
                "slice: no GPU that is asked for has a MIG profile {profile:?}; ask for memory and units instead, or name types that have it"
            ));
        };
        let alike = |get: fn(&MigShape) -> u8| {
            let one = get(first);
            if found.iter().all(|(_, shape)| get(shape) == one) {
                one
            } else {
                0
            }
        };
        let memory = found.iter().filter_map(|(_, shape)| shape.memory_mib).min();
        Ok(GpuAsk::Slice {
            slice: SliceAsk {
                memory_mib: memory.unwrap_or(0),
                units: 0,
                compute: alike(|shape| shape.compute),
                memory_slices: alike(|shape| shape.size),
                media: first.media,
            },
            kinds: found
                .iter()
                .fold(Kinds::NONE, |kinds, (id, _)| kinds.with(*id)),
        })
    }

    fn fraction(&self, share: &Share, kinds: Kinds) -> Found<GpuAsk> {
        let (share, memory, isolation) = match share {
            Share::Of(share) => (*share, None, None),
            Share::Table(table) => (
                table.share,
                table.memory.as_deref(),
                table.isolation.as_deref(),
            ),
        };
        let memory = memory.map(|text| memory_mib("fraction: memory", text).and_then(small));
        let (memory_mib, milli) = (memory.transpose()?, share_milli("fraction", share)?);
        let ask = |isolation, milli, memory_mib, kinds| GpuAsk::Fraction {
            milli,
            memory_mib,
            isolation,
            kinds,
        };
        match isolation.map_or("time-slice", str::trim) {
            "time-slice" => Ok(ask(Isolation::TimeSlice, milli, memory_mib, kinds)),
            "mps" => {
                let clients = self
                    .asked(kinds)
                    .filter_map(|(_, known)| known.parts.mps_clients);
                let milli = mps_milli(milli, clients.min());
                Ok(ask(Isolation::Mps, milli, memory_mib, kinds))
            }
            "vgpu" => {
                let (milli, mib, kinds) = self.vgpu(milli, memory_mib.unwrap_or(0), kinds)?;
                Ok(ask(Isolation::Vgpu { mib }, milli, Some(mib), kinds))
            }
            word => Err(format!(
                "isolation is {word:?}; expected \"time-slice\", \"mps\" or \"vgpu\"; for MIG ask for a slice"
            )),
        }
    }

    /// What the smallest vGPU type takes that is enough: thousandths of time and memory, alike on all kinds
    /// that have one.
    fn vgpu(&self, milli: u32, memory_mib: u32, kinds: Kinds) -> Found<(u32, u32, Kinds)> {
        let mut found: Vec<(KindId, u32, u32, &str)> = Vec::new();
        for (id, known) in self.asked(kinds) {
            let (name, profiles) = (&known.kind.name, &known.parts.vgpu);
            let Some(profile) = smallest_vgpu(profiles, name, memory_mib, milli) else {
                continue;
            };
            let most = profile.most.max(1);
            // Together they have no more than the board, whatever a type is called.
            let part = known.kind.memory_mib.map_or(u32::MAX, |all| all / most);
            let memory = profile.frame_buffer_mib.min(part);
            found.push((id, 1000 / most, memory, &profile.profile));
        }
        let Some((_, time, memory, _)) = found.first().copied() else {
            return Err(format!(
                "isolation is \"vgpu\", and no GPU that is asked for is known to have a vGPU type with \
                 {memory_mib} MiB and {} % of its time",
                f64::from(milli) / 10.0
            ));
        };
        if found.iter().any(|one| (one.1, one.2) != (time, memory)) {
            let types: Vec<&str> = found.iter().map(|one| one.3).collect();
            return Err(format!(
                "isolation is \"vgpu\", and its types differ between GPUs ({}); name GPUs of one size with types",
                types.join(", ")
            ));
        }
        let kinds = found
            .iter()
            .fold(Kinds::NONE, |kinds, one| kinds.with(one.0));
        Ok((time, memory, kinds))
    }

    fn asked(&self, kinds: Kinds) -> impl Iterator<Item = (KindId, &KnownGpu)> {
        let each = kinds.iter();
        each.filter_map(|id| Some((id, self.kinds.get(id)?)))
    }

    pub(super) fn speeds(&mut self, table: &JobTable) -> Field<Vec<(KindId, u32)>> {
        let mut out = Vec::new();
        for (name, speed) in &table.speeds {
            let named = self.kinds.all_named(name);
            let named = named.map_err(|problem| ("speeds", problem))?;
            if !(*speed >= 0.001 && *speed <= 1000.0) {
                let what =
                    format!("speeds: {name} is {speed}; expected a factor above 0, such as 0.5");
                return Err(("speeds", what));
            }
            if out.iter().any(|(other, _)| named.has(*other)) {
                return Err(("speeds", format!("speeds has {name} twice")));
            }
            let milli = (speed * 1000.0 + 0.5) as u32;
            out.extend(named.iter().map(|kind| (kind, milli)));
        }
        Ok(out)
    }

    pub(super) fn near(&self, table: &JobTable) -> Field<Vec<NodeId>> {
        let mut out = Vec::new();
        for text in table.near.as_ref().map_or(&[][..], |near| near.all()) {
            for name in expand(text).map_err(|problem| ("near", problem))? {
                let node = self.nodes.get(name.as_str()).copied();
                let what = || ("near", format!("the fleet has no node {name:?}"));
                out.push(node.ok_or_else(what)?);
            }
        }
        Ok(out)
    }
}

fn small(mib: u64) -> Found<u32> {
    u32::try_from(mib).map_err(|_| format!("{mib} MiB is more than any GPU has"))
}

fn need(table: &NeedTable) -> Found<Need> {
    let memory = table.memory.as_deref();
    let memory = memory.map_or(Ok(0), |text| memory_mib("need: memory", text))?;
    Ok(Need {
        memory_mib: small(memory)?,
        tflops: table.tflops.unwrap_or(0),
        bandwidth_gbs: table.bandwidth_gbs.unwrap_or(0),
    })
}
