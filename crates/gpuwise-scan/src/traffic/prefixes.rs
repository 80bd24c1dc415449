//! What prompts of a trace share: groups with a common beginning, and chained blocks.

use super::{Trace, TraceKind};
use gpuwise_domain::request::Segment;
use std::collections::BTreeSet;

/// Tokens of a block in Mooncake's traces; the last block of a prompt may be partial.
pub(super) const BLOCK_TOKENS: u32 = 512;

/// Other block lengths in use, tried where 512 does not fit the prompts.
const BLOCK_LENGTHS: [u32; 7] = [BLOCK_TOKENS, 16, 32, 64, 128, 256, 1024];

/// Steps in which the shared beginning of one group may grow.
const MOST_STEPS: usize = 16;

/// The content of that name; the same in every file.
pub(super) fn content(name: &str) -> u64 {
    mixed(name.bytes().fold(0x6a09_e667_f3bc_c908, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

/// The content of a group's beginning.
pub(super) fn group(name: &str) -> u64 {
    mixed(content(name) ^ 0xbb67_ae85_84ca_a73b)
}

/// Every bit of the result depends on every bit of the argument, and no two have one result.
const fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A prompt up to and with a segment, by what came before it.
pub(super) const fn chained(before: u64, segment: Segment) -> u64 {
    mixed(mixed(before ^ segment.content) ^ segment.tokens as u64)
}

/// A prompt's blocks by their ids; their tokens are known when all prompts are.
pub(super) fn blocks(ids: &[u64]) -> Option<Box<[Segment]>> {
    let segment = |id: &u64| Segment {
        content: *id,
        tokens: 0,
    };
    (!ids.is_empty()).then(|| ids.iter().map(segment).collect())
}

/// Gives blocks their tokens, and cuts the beginnings of groups where prompts share less.
pub(super) fn cut(trace: &mut Trace) {
    let unknown = |segment: &Segment| segment.tokens == 0;
    let blocked = trace.requests.iter().any(|request| {
        let mut segments = request.prefix.iter().flatten();
        segments.next().is_some_and(unknown)
    });
    if blocked {
        let tokens = block_tokens(trace);
        trace.block_tokens = Some(tokens);
        fill(trace, tokens);
    }
    if trace.kind != TraceKind::Mooncake {
        groups(trace);
    }
}

/// The block length that fits all prompts, 512 if none does.
fn block_tokens(trace: &mut Trace) -> u32 {
    let fits = |block: &u32| {
        trace.requests.iter().all(|request| {
            let Some(blocks) = &request.prefix else {
                return true;
            };
            let count = blocks.len() as u64;
            let block = u64::from(*block);
            let input = u64::from(request.input);
            count == input.div_ceil(block) || count == input / block
        })
    };
    if let Some(fitting) = BLOCK_LENGTHS.iter().find(|block| fits(block)) {
        if *fitting != BLOCK_TOKENS {
            trace.notes.push(format!(
                "blocks of {fitting} tokens fit the prompts and their `hash_ids`"
            ));
        }
        return *fitting;
    }
    trace.notes.push(format!(
        "the number of `hash_ids` fits no block length: taken for blocks of {BLOCK_TOKENS} tokens"
    ));
    BLOCK_TOKENS
}

/// Whole blocks, and what is left of the prompt in the last.
fn fill(trace: &mut Trace, block: u32) {
    for request in &mut trace.requests {
        let mut left = request.input;
        let Some(segments) = request.prefix.as_mut() else {
            continue;
        };
        for segment in segments.iter_mut().filter(|segment| segment.tokens == 0) {
            segment.tokens = block.min(left);
            left -= segment.tokens;
        }
        if segments.iter().any(|segment| segment.tokens == 0) {
            let kept: Box<[Segment]> = segments
                .iter()
                .copied()
                .filter(|segment| segment.tokens > 0)
                .collect();
            request.prefix = (!kept.is_empty()).then_some(kept);
        }
    }
}

/// Prompts of one group that share different lengths have their common beginning in pieces, so that
/// the longer ones share with the shorter.
fn groups(trace: &mut Trace) {
    let alone = |prefix: &Option<Box<[Segment]>>| match prefix.as_deref() {
        Some([segment]) => Some((segment.content, segment.tokens)),
        _ => None,
    };
    let prefixes = trace.requests.iter().map(|request| &request.prefix);
    let lengths: BTreeSet<(u64, u32)> = prefixes.filter_map(alone).collect();
    let lengths = Vec::from_iter(lengths);
    if !lengths.windows(2).any(same_group) {
        return;
    }
    let mut coarse: u64 = 0;
    let steps: Vec<(u64, u32)> = lengths
        .chunk_by(|a, b| a.0 == b.0)
        .flat_map(|group| {
            coarse += u64::from(group.len() > MOST_STEPS);
            let every = group.len().div_ceil(MOST_STEPS);
            group.iter().step_by(every).copied()
        })
        .collect();
    for request in &mut trace.requests {
        let Some((content, tokens)) = alone(&request.prefix) else {
            continue;
        };
        let from = steps.partition_point(|step| step.0 < content);
        let to = steps.partition_point(|step| *step <= (content, tokens));
        let mut begin = 0;
        let pieces = steps
            .get(from..to)
            .unwrap_or(&[])
            .iter()
            .map(|(group, end)| {
                let piece = Segment {
                    content: mixed(group ^ u64::from(*end)),
                    tokens: end - begin,
                };
                begin = *end;
                piece
            });
        request.prefix = Some(pieces.collect());
    }
    if coarse > 0 {
        trace.notes.push(format!(
            "prompts of {coarse} prefix groups share more than {MOST_STEPS} different lengths: rounded down to \
             {MOST_STEPS} of them"
        ));
    }
}

fn same_group(pair: &[(u64, u32)]) -> bool {
    matches!(pair, [a, b] if a.0 == b.0)
}
