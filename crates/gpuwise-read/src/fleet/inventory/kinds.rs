//! Kinds of GPU: those of the file, then those of the catalogue that it names.

use super::{
    FindGpu, KnownGpu, KnownParts,
    tables::{GeometryTable, KindTable},
};
use crate::fleet::text::{Found, Problems, TableText, memory_mib, money};
use gpuwise_domain::{
    catalogue::folded,
    placement::{GpuKind, KindId, Kinds as Set, MigGeometry, MigShape},
};
use gpuwise_units::HourlyPrice;
use std::collections::{BTreeMap, BTreeSet};

pub(in crate::fleet) struct Kinds<'a> {
    find: &'a FindGpu<'a>,
    known: Vec<KnownGpu>,
    /// By name as it was written, folded.
    names: BTreeMap<String, KindId>,
}

impl<'a> Kinds<'a> {
    pub(super) fn new(find: &'a FindGpu<'a>) -> Self {
        Self {
            find,
            known: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    /// Those that a fleet has already.
    pub(in crate::fleet) fn of(kinds: &[GpuKind], find: &'a FindGpu<'a>) -> Self {
        let known = kinds.iter().map(|kind| KnownGpu {
            kind: kind.clone(),
            joined: None,
            parts: find(&kind.name)
                .map(|known| known.parts)
                .unwrap_or_default(),
        });
        let names = kinds.iter().enumerate();
        Self {
            find,
            known: known.collect(),
            names: names
                .map(|(at, kind)| (folded(&kind.name), KindId(at as u32)))
                .collect(),
        }
    }

    /// The kinds that the file describes.
    pub(super) fn read(&mut self, pieces: &[TableText<'_>], problems: &mut Problems) {
        for piece in pieces {
            let Some(table) = piece.read::<KindTable>(problems) else {
                continue;
            };
            if table.name.trim().is_empty() {
                problems.add(piece.line_of("name"), "gpu_kind: the name is empty");
                continue;
            }
            if self.names.contains_key(&folded(&table.name)) {
                let what = format!("gpu_kind {:?} is there twice", table.name);
                problems.add(piece.line_of("name"), what);
                continue;
            }
            // What the catalogue knows of it holds where the file says nothing.
            let base = (self.find)(&table.name).ok();
            let Some(known) = described(&table, base, piece, problems) else {
                continue;
            };
            if let Err(problem) = self.push(&table.name, known) {
                problems.add(piece.line, problem);
            }
        }
    }

    /// The kind of this name, on nodes without features; the catalogue's where the file does not describe it.
    pub(in crate::fleet) fn named(&mut self, name: &str) -> Found<KindId> {
        self.named_on(name, &[])
    }

    /// The kind of this name on nodes with these features, which are sorted.
    pub(super) fn named_on(&mut self, name: &str, features: &[String]) -> Found<KindId> {
        let mut known = self.product(name)?;
        known.kind.features = features.to_vec();
        let same = |one: &KnownGpu| {
            one.kind.name == known.kind.name && one.kind.features == known.kind.features
        };
        if let Some(at) = self.known.iter().position(same) {
            let id = KindId(at as u32);
            self.names.entry(folded(name)).or_insert(id);
            return Ok(id);
        }
        self.push(name, known)
    }

    /// All kinds of this name, whatever features their nodes have.
    pub(in crate::fleet) fn all_named(&mut self, name: &str) -> Found<Set> {
        let product = self.product(name)?;
        let all = self.known.iter().zip((0..).map(KindId));
        let found = all
            .filter(|(one, _)| one.kind.name == product.kind.name)
            .fold(Set::NONE, |set, (_, id)| set.with(id));
        if found == Set::NONE {
            return self.push(name, product).map(Set::one);
        }
        Ok(found)
    }

    /// Kinds whose nodes have all of these features.
    pub(in crate::fleet) fn with_features(&self, features: &[String]) -> Set {
        let all = self.known.iter().zip((0..).map(KindId));
        all.filter(|(one, _)| one.kind.has_features(features))
            .fold(Set::NONE, |set, (_, id)| set.with(id))
    }

    /// What features there are, in words.
    pub(in crate::fleet) fn features(&self) -> String {
        let all = self.known.iter().flat_map(|one| &one.kind.features);
        let all: BTreeSet<&str> = all.map(String::as_str).collect();
        if all.is_empty() {
            return "not said in this fleet".into();
        }
        all.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// A GPU by name, of which nothing is said where it is.
    fn product(&self, name: &str) -> Found<KnownGpu> {
        let known = self.names.get(&folded(name)).and_then(|id| self.get(*id));
        let mut known = match known {
            Some(known) => known.clone(),
            None => (self.find)(name)?,
        };
        known.kind.features.clear();
        Ok(known)
    }

    fn push(&mut self, name: &str, known: KnownGpu) -> Found<KindId> {
        if self.known.len() >= Set::MOST {
            return Err(format!(
                "a fleet has at most {} kinds of GPU, each as often as the features of its nodes differ",
                Set::MOST
            ));
        }
        let id = KindId(self.known.len() as u32);
        self.names.entry(folded(name)).or_insert(id);
        self.known.push(known);
        Ok(id)
    }

    pub(in crate::fleet) fn get(&self, id: KindId) -> Option<&KnownGpu> {
        self.known.get(id.index())
    }

    pub(in crate::fleet) fn finish(&self) -> Vec<GpuKind> {
        self.known.iter().map(|known| known.kind.clone()).collect()
    }
}

fn described(
    table: &KindTable,
    base: Option<KnownGpu>,
    piece: &TableText<'_>,
    problems: &mut Problems,
) -> Option<KnownGpu> {
    let mut out = base.unwrap_or_else(|| KnownGpu {
        kind: GpuKind::named(table.name.trim()),
        joined: None,
        parts: KnownParts::default(),
    });
    let mut right = true;
    if let Some(text) = &table.memory {
        let mib = memory_mib("memory", text).and_then(|mib| {
            u32::try_from(mib).map_err(|_| format!("memory is {text:?}; no GPU has as much"))
        });
        let found = problems.take(piece.line_of("memory"), mib);
        right &= found.is_some();
        out.kind.memory_mib = found.or(out.kind.memory_mib);
    }
    if let Some(text) = &table.price {
        let found = problems.take(piece.line_of("price"), money("price", text));
        right &= found.is_some();
        out.kind.price = found.map(HourlyPrice).or(out.kind.price);
    }
    for (field, given, own) in [
        ("units", table.units, &mut out.kind.units),
        (
            "bandwidth_gbs",
            table.bandwidth_gbs,
            &mut out.kind.bandwidth_gbs,
        ),
        ("tflops", table.tflops, &mut out.kind.tflops),
    ] {
        if given == Some(0) {
            let what = format!("{field} is 0; leave out what is not known");
            problems.add(piece.line_of(field), what);
            right = false;
        }
        *own = given.or(*own);
    }
    if let Some(mig) = &table.mig {
        let found = problems.take(piece.line_of("mig"), geometry(mig));
        right &= found.is_some();
        out.kind.mig = found.or(out.kind.mig);
    }
    right.then_some(out)
}

fn geometry(table: &GeometryTable) -> Found<MigGeometry> {
    let shape = |one: &super::tables::ProfileTable| -> Found<MigShape> {
        let mut starts = 0_u16;
        for start in &one.starts {
            starts |= 1_u16.checked_shl(u32::from(*start)).ok_or_else(|| {
                format!(
                    "profile {:?}: no board has a memory slice {start}",
                    one.name
                )
            })?;
        }
        let memory = one.memory.as_deref().map(|text| {
            memory_mib("memory", text)
                .and_then(|mib| u32::try_from(mib).map_err(|_| format!("{text:?} is too much")))
        });
        Ok(MigShape {
            profile: one.name.clone(),
            memory_mib: memory.transpose()?,
            units: one.units,
            compute: one.compute,
            size: one.size,
            starts,
            most: one.most,
            media: one.media,
        })
    };
    let geometry = MigGeometry {
        compute_slices: table.compute_slices,
        memory_slices: table.memory_slices,
        shapes: table.profile.iter().map(shape).collect::<Found<_>>()?,
    };
    geometry.check().map_err(|fault| format!("mig: {fault}"))?;
    Ok(geometry)
}
