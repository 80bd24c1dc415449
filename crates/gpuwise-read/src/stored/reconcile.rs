//! The number formats of a header against those of the configuration.

use super::{Naming, Place, StoredTensor, module::Names, packing, packing::Weight};
use gpuwise_domain::{
    model::{Architecture, Role},
    precision::{Assignment, Compute, Quantization, Roles, WeightFormat},
};
use std::collections::BTreeMap;

/// Formats of one role, with their elements.
type Formats = Vec<(Weight, u64)>;

/// Sets the native format and the quantization to what the header shows, where it differs from
/// what the configuration says.
pub(super) fn formats(
    architecture: &mut Architecture,
    tensors: &[StoredTensor],
    names: &Names<'_>,
) {
    let by_role = by_role(tensors, names, architecture);
    // A GGUF file has no other configuration with which it could disagree.
    let is_told = names.naming == Naming::HuggingFace;
    native(architecture, &by_role, is_told);
    let stored: BTreeMap<Role, Weight> = by_role
        .iter()
        .filter_map(|(role, formats)| dominant(formats).map(|weight| (*role, weight)))
        .collect();
    let all: u64 = by_role
        .values()
        .flatten()
        .fold(0, |sum, (_, elements)| sum.saturating_add(*elements));
    let mut differing = Vec::new();
    for (role, weight) in &stored {
        let elements = by_role[role]
            .iter()
            .fold(0_u64, |sum, (_, elements)| sum.saturating_add(*elements));
        // Small parts are often kept in other formats than the configuration lists.
        if elements < all / 100 {
            continue;
        }
        let stated = stated(architecture, *role);
        let ratio = weight.format.bytes_per_element() / stated.bytes_per_element();
        if !(0.95..=1.05).contains(&ratio) {
            differing.push((*role, stated, weight.format));
        }
    }
    if differing.is_empty() {
        return;
    }
    if is_told {
        architecture.assumptions.push(said(&differing));
    }
    architecture.quantization = quantization(&stored, architecture);
}

fn by_role(
    tensors: &[StoredTensor],
    names: &Names<'_>,
    architecture: &Architecture,
) -> BTreeMap<Role, Formats> {
    let mut by_role: BTreeMap<Role, Formats> = BTreeMap::new();
    for tensor in tensors {
        let Some(weight) = packing::weight_of(tensor, names, architecture) else {
            continue;
        };
        let elements = tensor.elements().saturating_mul(weight.per_item);
        let roles = match names.place(tensor).0 {
            Place::Role(role) => vec![role],
            Place::FusedAttention => vec![Role::Query, Role::Key, Role::Value],
            _ => continue,
        };
        for role in roles {
            let formats = by_role.entry(role).or_default();
            match formats.iter_mut().find(|(known, _)| *known == weight) {
                Some((_, sum)) => *sum = sum.saturating_add(elements),
                None => formats.push((weight, elements)),
            }
        }
    }
    by_role
}

/// The format of most elements.
fn dominant(formats: &Formats) -> Option<Weight> {
    let most = formats.iter().max_by_key(|(_, elements)| *elements)?;
    Some(most.0)
}

fn is_float(format: WeightFormat) -> bool {
    [
        WeightFormat::BF16,
        WeightFormat::F16,
        WeightFormat::F32,
        WeightFormat::F64,
    ]
    .contains(&format)
}

/// The floating-point format of most unquantized elements, if any matrix has one.
fn native(architecture: &mut Architecture, by_role: &BTreeMap<Role, Formats>, is_told: bool) {
    let mut floats: Formats = Vec::new();
    for (role, formats) in by_role {
        for (weight, elements) in formats {
            if !is_float(weight.format) {
                continue;
            }
            // Routers and convolutions are often kept in single precision beside everything else.
            if matches!(role, Role::Router | Role::StateOther | Role::AttentionOther) {
                continue;
            }
            match floats
                .iter_mut()
                .find(|(known, _)| known.format == weight.format)
            {
                Some((_, sum)) => *sum = sum.saturating_add(*elements),
                None => floats.push((*weight, *elements)),
            }
        }
    }
    let Some(stored) = dominant(&floats).map(|weight| weight.format) else {
        return;
    };
    if stored == architecture.native {
        return;
    }
    if is_told {
        architecture.assumptions.push(format!(
            "the header stores unquantized weights in {}, the configuration says {}: the header is followed",
            stored.name, architecture.native.name
        ));
    }
    architecture.native = stored;
}

fn stated(architecture: &Architecture, role: Role) -> WeightFormat {
    let assigned = architecture
        .quantization
        .as_ref()
        .and_then(|quantization| quantization.assignment(role));
    assigned.map_or(architecture.native, |assignment| assignment.format)
}

fn said(differing: &[(Role, WeightFormat, WeightFormat)]) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for (role, stated, stored) in differing {
        let one = format!(
            "{} in {} instead of {}",
            role.kind(),
            stored.name,
            stated.name
        );
        if !kinds.contains(&one) {
            kinds.push(one);
        }
    }
    format!(
        "the header stores {}: the header is followed",
        kinds.join(", ")
    )
}

/// A quantization with what the header stores of each role; `None` where all is native.
fn quantization(
    stored: &BTreeMap<Role, Weight>,
    architecture: &Architecture,
) -> Option<Quantization> {
    let mut assignments: Vec<Assignment> = Vec::new();
    for (role, weight) in stored {
        if is_float(weight.format) && weight.format == architecture.native {
            continue;
        }
        let compute = compute(weight);
        let same =
            |known: &&mut Assignment| known.format == weight.format && known.compute == compute;
        match assignments.iter_mut().find(same) {
            Some(known) => known.roles = known.roles.with(*role),
            None => assignments.push(Assignment {
                roles: Roles::of(&[*role]),
                format: weight.format,
                compute,
            }),
        }
    }
    let method = match &architecture.quantization {
        Some(stated) => stated.method.clone(),
        None => assignments
            .first()
            .map_or(String::new(), |first| first.format.name.into()),
    };
    (!assignments.is_empty()).then_some(Quantization {
        cache: architecture
            .quantization
            .as_ref()
            .and_then(|stated| stated.cache),
        method,
        assignments,
    })
}

/// In what matmuls with these weights compute, where the hardware can.
fn compute(weight: &Weight) -> Compute {
    match weight.format.name {
        "fp8" | "fp8-block" | "mxfp8" => Compute::Fp8,
        "int8" if weight.activations => Compute::Int8,
        "nvfp4" if weight.activations => Compute::Fp4,
        "mxfp4" => Compute::Fp4,
        "fp32" => Compute::Full,
        _ => Compute::Half,
    }
}
