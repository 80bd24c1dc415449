//! Sums over the tensors of a header.

use super::{Place, StoredTensor, module::Names, packing};
use gpuwise_domain::{
    model::{Architecture, Role},
    precision::Roles,
};
use std::collections::BTreeMap;

/// Sums over a header.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) by_role: BTreeMap<Role, u64>,
    pub(super) elements: u64,
    /// Left out: prediction layers.
    pub(super) prediction: u64,
    /// Left out: a head that is stored although it is tied.
    pub(super) tied_head: u64,
    /// Bytes of names that are not known, and one of them.
    pub(super) unknown: u64,
    pub(super) unknown_example: String,
}

impl Census {
    pub(super) fn take(
        architecture: &Architecture,
        tensors: &[StoredTensor],
        names: &Names<'_>,
    ) -> Self {
        let mut census = Self::default();
        let split = Split::of(architecture);
        for tensor in tensors {
            let (place, kind) = names.place(tensor);
            match place {
                Place::Prediction => {
                    census.prediction = census.prediction.saturating_add(tensor.bytes);
                    continue;
                }
                Place::Role(Role::Head) if architecture.tied_head => {
                    census.tied_head = census.tied_head.saturating_add(tensor.bytes);
                    continue;
                }
                Place::Unknown(_) => {
                    census.unknown = census.unknown.saturating_add(tensor.bytes);
                    if census.unknown_example.is_empty() {
                        census.unknown_example.clone_from(&tensor.name);
                    }
                }
                _ => {}
            }
            for (role, bytes) in split.shares(place, tensor.bytes) {
                let sum = census.by_role.entry(role).or_default();
                *sum = sum.saturating_add(bytes);
            }
            if !matches!(place, Place::Buffer(_)) {
                let elements = packing::elements(tensor, kind, names, architecture);
                census.elements = census.elements.saturating_add(elements);
            }
        }
        census
    }

    pub(super) fn total(&self) -> u64 {
        self.by_role
            .values()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// How the architecture divides what names leave open.
struct Split {
    has: Roles,
    /// Elements of query, key and value.
    fused: [(Role, u64); 3],
}

impl Split {
    fn of(architecture: &Architecture) -> Self {
        let mut has = Roles::NONE;
        let mut fused = [Role::Query, Role::Key, Role::Value].map(|role| (role, 0_u64));
        for (repeat, tensor) in architecture.tensors() {
            has = has.with(tensor.role);
            for (role, elements) in &mut fused {
                if *role == tensor.role {
                    *elements = elements.saturating_add(repeat.saturating_mul(tensor.elements()));
                }
            }
        }
        Self { has, fused }
    }

    fn shares(&self, place: Place, bytes: u64) -> Vec<(Role, u64)> {
        match place {
            Place::Role(role) | Place::Buffer(role) | Place::Unknown(role) => {
                vec![(self.counted_as(role), bytes)]
            }
            Place::FusedAttention => self.fused_shares(bytes),
            Place::Prediction => Vec::new(),
        }
    }

    /// Some families call a network for all tokens shared, others dense, whether or not routed
    /// experts stand beside it: the architecture's word counts.
    fn counted_as(&self, role: Role) -> Role {
        let other = match role {
            Role::MlpUp => Role::SharedUp,
            Role::MlpDown => Role::SharedDown,
            Role::SharedUp => Role::MlpUp,
            Role::SharedDown => Role::MlpDown,
            _ => return role,
        };
        let renamed = !self.has.contains(role) && self.has.contains(other);
        if renamed { other } else { role }
    }

    fn fused_shares(&self, bytes: u64) -> Vec<(Role, u64)> {
        let [_, key, value] = self.fused.map(|(_, elements)| u128::from(elements));
        let all: u128 = self
            .fused
            .iter()
            .map(|(_, elements)| u128::from(*elements))
            .sum();
        if all == 0 {
            return vec![(Role::Query, bytes)];
        }
        let part = |elements: u128| (u128::from(bytes) * elements / all) as u64;
        let (key, value) = (part(key), part(value));
        // The query takes what rounding leaves, so that the sum is exact.
        vec![
            (Role::Query, bytes - key - value),
            (Role::Key, key),
            (Role::Value, value),
        ]
    }
}
