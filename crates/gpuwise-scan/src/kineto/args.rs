//! What stands under `args`, by kind of event.

use super::{
    lex::{elements, fields, fields_while},
    names::text,
    number::{count, integer, real, unquoted},
};
use gpuwise_domain::profile::timeline::{
    Collective, CopyShape, Direction, LaunchShape, MemoryKind, Operands,
};

/// Tensors of more dimensions do not exist; the limit bounds memory.
const MOST_DIMENSIONS: usize = 64;
/// No operator has more arguments; the limit bounds memory.
const MOST_ARGUMENTS: usize = 256;

/// Arguments of a piece of GPU work.
#[derive(Default)]
pub(super) struct WorkArgs {
    pub(super) device: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) correlation: Option<u64>,
    pub(super) external: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) launch: LaunchShape,
    /// Direction of a copy as ROCm states it (`HtoD`).
    pub(super) direction: Option<Direction>,
    pub(super) collective: Option<Box<Collective>>,
}

fn three(array: &[u8]) -> Option<[u32; 3]> {
    let mut values = [1; 3];
    let mut seen = 0;
    let mut whole = true;
    elements(array, |value| {
        match (values.get_mut(seen), small(value)) {
            (Some(slot), Some(value)) => *slot = value,
            _ => whole = false,
        }
        seen += 1;
    });
    (whole && seen > 0).then_some(values)
}

/// An identifier; 0 and negative ones say that there is none.
fn identifier(value: &[u8]) -> Option<u64> {
    count(value).filter(|id| *id != 0)
}

/// Reads the arguments of a kernel, a copy or a fill.
pub(super) fn work(args: &[u8]) -> WorkArgs {
    let mut found = WorkArgs::default();
    fields(args, |key, value| match key {
        b"device" => found.device = integer(value),
        b"stream" => found.stream = integer(value),
        b"correlation" => found.correlation = identifier(value),
        b"External id" | b"external id" => found.external = identifier(value),
        b"bytes" => found.bytes = count(value),
        b"kind" => found.direction = direction(unquoted(value)),
        b"grid" => found.launch.grid = three(value),
        b"block" => found.launch.block = three(value),
        b"registers per thread" => {
            found.launch.registers_per_thread = small(value);
        }
        b"shared memory" => found.launch.shared_memory = count(value),
        b"blocks per SM" => found.launch.blocks_per_multiprocessor = real(value),
        b"est. achieved occupancy %" => found.launch.occupancy_percent = real(value),
        b"queued" | b"context" | b"warps per SM" | b"memory bandwidth (GB/s)" => {}
        _ => collective(&mut found.collective, key, value),
    });
    if let Some(collective) = &mut found.collective {
        collective.launch = found.launch;
    }
    found
}

fn small(value: &[u8]) -> Option<u32> {
    count(value).and_then(|count| u32::try_from(count).ok())
}

fn named(value: &[u8]) -> Option<String> {
    Some(text(value)).filter(|text| !text.is_empty())
}

fn collective(found: &mut Option<Box<Collective>>, key: &[u8], value: &[u8]) {
    let mut slot = |fill: fn(&mut Collective, &[u8])| fill(found.get_or_insert_default(), value);
    match key {
        b"Collective name" => slot(|it, value| it.name = named(value)),
        b"In msg nelems" => slot(|it, value| it.elements_in = count(value)),
        b"Out msg nelems" => slot(|it, value| it.elements_out = count(value)),
        b"dtype" => slot(|it, value| it.element_type = named(value)),
        b"Group size" => slot(|it, value| it.group_size = small(value)),
        b"Process Group Name" => slot(|it, value| it.group = named(value)),
        b"Seq" => slot(|it, value| it.sequence = count(value)),
        _ => {}
    }
}

/// The direction by the four letters that tools write.
fn direction(word: &[u8]) -> Option<Direction> {
    Some(match word {
        b"HtoD" | b"HtoA" => Direction::HostToDevice,
        b"DtoH" | b"AtoH" => Direction::DeviceToHost,
        b"DtoD" | b"AtoA" | b"AtoD" | b"DtoA" => Direction::DeviceToDevice,
        b"PtoP" => Direction::PeerToPeer,
        b"HtoH" => Direction::HostToHost,
        _ => return None,
    })
}

fn memory_kind(word: &[u8]) -> MemoryKind {
    match word {
        b"Pageable" => MemoryKind::Pageable,
        b"Pinned" => MemoryKind::Pinned,
        b"Device" | b"Device Static" | b"Array" => MemoryKind::Device,
        b"Managed" | b"Managed Static" => MemoryKind::Managed,
        _ => MemoryKind::Unknown,
    }
}

/// The shape of a copy: from its name (`Memcpy HtoD (Pageable -> Device)`) and its arguments.
pub(super) fn copy(name: &[u8], args: &WorkArgs) -> CopyShape {
    let mut shape = CopyShape {
        bytes: args.bytes,
        direction: args.direction,
        ..CopyShape::default()
    };
    let mut words = name.splitn(3, |byte| *byte == b' ');
    let (_, named, ends) = (words.next(), words.next(), words.next());
    shape.direction = named.and_then(direction).or(shape.direction);
    let ends = ends.and_then(|text| text.strip_prefix(b"(")?.strip_suffix(b")"));
    if let Some(ends) = ends
        && let Some(arrow) = memchr::memmem::find(ends, b" -> ")
        && let (Some(from), Some(to)) = (ends.get(..arrow), ends.get(arrow + 4..))
    {
        shape.source = memory_kind(from);
        shape.target = memory_kind(to);
    }
    shape
}

/// The identifier by which GPU work names its call, or its operator.
pub(super) fn link(args: &[u8], keys: [&[u8]; 2]) -> Option<u64> {
    let mut found = None;
    fields_while(args, |key, value| {
        let is_it = keys.contains(&key);
        if is_it {
            found = identifier(value);
        }
        !is_it
    });
    found
}

/// What an operator was given.
pub(super) fn operands(args: &[u8]) -> Option<Operands> {
    let mut operands = Operands::default();
    let mut has_shapes = false;
    fields(args, |key, value| match key {
        b"Input Dims" | b"Input dims" => {
            has_shapes = true;
            operands.shapes = shapes(value);
        }
        b"Input type" => operands.types = texts(value),
        b"Concrete Inputs" => operands.values = texts(value),
        _ => {}
    });
    has_shapes.then_some(operands)
}

fn shapes(array: &[u8]) -> Vec<Vec<u64>> {
    let mut shapes = Vec::new();
    elements(array, |shape| {
        if shapes.len() == MOST_ARGUMENTS {
            return;
        }
        let mut dimensions = Vec::new();
        let mut plain = true;
        elements(shape, |dimension| match count(dimension) {
            Some(dimension) if dimensions.len() < MOST_DIMENSIONS => dimensions.push(dimension),
            _ => plain = false,
        });
        // The shapes of a list of tensors are no shape of an argument.
        shapes.push(if plain { dimensions } else { Vec::new() });
    });
    shapes
}

fn texts(array: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    elements(array, |value| {
        if found.len() < MOST_ARGUMENTS {
            found.push(text(value));
        }
    });
    found
}

/// Arguments of a `[memory]` event.
#[derive(Default)]
pub(super) struct MemoryArgs {
    /// As c10::DeviceType numbers them: 0 is the host.
    pub(super) device_type: Option<i64>,
    pub(super) device: Option<i64>,
    pub(super) bytes: Option<i64>,
    pub(super) allocated: Option<u64>,
    pub(super) reserved: Option<u64>,
}

/// Reads the arguments of a `[memory]` event.
pub(super) fn memory(args: &[u8]) -> MemoryArgs {
    let mut found = MemoryArgs::default();
    fields(args, |key, value| match key {
        b"Device Type" => found.device_type = integer(value),
        b"Device Id" => found.device = integer(value),
        b"Bytes" => found.bytes = integer(value),
        b"Total Allocated" => found.allocated = count(value),
        b"Total Reserved" => found.reserved = count(value),
        _ => {}
    });
    found
}
