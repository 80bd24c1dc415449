//! Descriptions of tensors, checked against each other and the length of the file.

use super::{GgufError, cursor::Cursor, ggml};
use crate::stored::StoredTensor;
use gpuwise_domain::precision::WeightFormat;

/// ggml has no more.
const MOST_DIMENSIONS: u32 = 4;

/// A tensor and where its bytes begin in the data.
#[derive(Debug)]
pub(super) struct Description {
    tensor: StoredTensor,
    offset: u64,
}

pub(super) fn read(cursor: &mut Cursor<'_>, count: u64) -> Result<Vec<Description>, GgufError> {
    let mut descriptions = Vec::new();
    for _ in 0..count {
        descriptions.push(description(cursor)?);
    }
    Ok(descriptions)
}

fn description(cursor: &mut Cursor<'_>) -> Result<Description, GgufError> {
    let name = cursor.name("the name of a tensor")?;
    let fail = |name: &str, problem: String| GgufError::Tensor {
        tensor: name.into(),
        problem,
    };
    let dimensions = cursor.u32("the dimensions of a tensor")?;
    if dimensions > MOST_DIMENSIONS {
        return Err(fail(
            &name,
            format!("{dimensions} dimensions; at most {MOST_DIMENSIONS} exist"),
        ));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(cursor.u64("a dimension of a tensor")?);
    }
    let number = cursor.u32("the type of a tensor")?;
    let offset = cursor.u64("the offset of a tensor")?;
    let format = ggml::format(number).map_err(|problem| fail(&name, problem))?;
    let bytes = packed_bytes(&shape, format).map_err(|problem| fail(&name, problem))?;
    shape.reverse();
    Ok(Description {
        tensor: StoredTensor {
            name,
            format,
            shape,
            bytes,
        },
        offset,
    })
}

/// Bytes of a shape, innermost dimension first: rows are made of whole blocks.
fn packed_bytes(shape: &[u64], format: WeightFormat) -> Result<u64, String> {
    let elements = shape
        .iter()
        .try_fold(1_u64, |product, dimension| product.checked_mul(*dimension))
        .ok_or_else(|| format!("its shape {shape:?} has more than 2^64 elements"))?;
    let (block, block_bytes) = (u64::from(format.block), u64::from(format.block_bytes));
    let row = shape.first().copied().unwrap_or(1);
    if !row.is_multiple_of(block) {
        return Err(format!(
            "rows of {row} elements are no multiple of the {block} of a block of {}",
            format.name
        ));
    }
    (elements / block)
        .checked_mul(block_bytes)
        .ok_or_else(|| format!("its shape {shape:?} has more than 2^64 bytes"))
}

/// Checks places: aligned, within the data, apart from each other.
pub(super) fn check(
    descriptions: Vec<Description>,
    alignment: u64,
    data_length: u64,
) -> Result<Vec<StoredTensor>, GgufError> {
    let fail = |tensor: &StoredTensor, problem: String| GgufError::Tensor {
        tensor: tensor.name.clone(),
        problem,
    };
    let mut order: Vec<&Description> = descriptions.iter().collect();
    order.sort_by_key(|description| (description.offset, description.tensor.bytes));
    let mut free_from = 0;
    for Description { tensor, offset } in order {
        if !offset.is_multiple_of(alignment) {
            return Err(fail(
                tensor,
                format!("offset {offset} is no multiple of the alignment {alignment}"),
            ));
        }
        if *offset < free_from {
            return Err(fail(
                tensor,
                format!(
                    "it begins at byte {offset} of the data, the tensors before it end at {free_from}"
                ),
            ));
        }
        match offset.checked_add(tensor.bytes) {
            Some(end) if end <= data_length => free_from = end,
            _ => {
                return Err(fail(
                    tensor,
                    format!(
                        "its {} bytes from byte {offset} of the data end after the {data_length} bytes that the file holds: the file is cut short",
                        tensor.bytes
                    ),
                ));
            }
        }
    }
    let tensors: Vec<StoredTensor> = descriptions
        .into_iter()
        .map(|description| description.tensor)
        .collect();
    match duplicate(&tensors) {
        Some(twice) => Err(GgufError::Tensor {
            tensor: twice,
            problem: "its name stands twice".into(),
        }),
        None => Ok(tensors),
    }
}

/// A name that stands twice.
pub(super) fn duplicate(tensors: &[StoredTensor]) -> Option<String> {
    let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    names
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].into())
}
