//! What runs, operation by operation, while a network is walked through.

use alloc::{string::String, vec::Vec};
use gpuwise_domain::network::{Operation, OperationKind, Part, PartRole};

/// Gathers operations, parameters and the largest set of live activations of one part.
///
/// Products count as PyTorch's counter of floating-point operations counts them: a multiply-add is
/// two, padding of convolutions is multiplied too, masked attention is done in full; norms,
/// activations, biases and lookups count nothing, but their traffic is listed.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    operations: Vec<Operation>,
    parameters: u64,
    /// How often what is walked now is repeated.
    times: u64,
    /// Whether its weights were counted before.
    shared: bool,
    /// Elements that stay in memory beside what an operation reads and writes.
    held: u64,
    peak: u64,
}

/// Channels and kernel of a convolution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    pub(super) inputs: u64,
    pub(super) outputs: u64,
    /// Elements of the kernel: 9 for 3 × 3.
    pub(super) elements: u64,
    pub(super) groups: u64,
    pub(super) bias: bool,
    pub(super) kind: OperationKind,
}

impl Kernel {
    /// A square kernel of two dimensions with a bias.
    pub(super) fn square(inputs: u64, outputs: u64, side: u64) -> Self {
        Self {
            inputs,
            outputs,
            elements: side * side,
            groups: 1,
            bias: true,
            kind: OperationKind::Convolution,
        }
    }

    /// A cubic kernel of three dimensions with a bias.
    pub(super) fn cubic(inputs: u64, outputs: u64, side: u64) -> Self {
        Self {
            elements: side * side * side,
            kind: OperationKind::Convolution3d,
            ..Self::square(inputs, outputs, 1)
        }
    }

    pub(super) fn without_bias(self) -> Self {
        Self {
            bias: false,
            ..self
        }
    }

    pub(super) fn grouped(self, groups: u64) -> Self {
        Self { groups, ..self }
    }

    fn weights(&self) -> u64 {
        let inputs = self.inputs / self.groups.max(1);
        product(&[inputs, self.outputs, self.elements])
    }
}

/// Sizes of attention between two sequences.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attention {
    pub(super) queries: u64,
    pub(super) keys: u64,
    pub(super) heads: u64,
    pub(super) key_width: u64,
    pub(super) value_width: u64,
    pub(super) kv_heads: u64,
}

impl Attention {
    pub(super) fn full(queries: u64, keys: u64, heads: u64, width: u64) -> Self {
        Self {
            queries,
            keys,
            heads,
            key_width: width,
            value_width: width,
            kv_heads: heads,
        }
    }
}

/// Where products end: a few of them can still be added.
pub(super) const LARGEST: u64 = 1 << 60;

/// A product that ends at [`LARGEST`] instead of wrapping.
pub(super) fn product(factors: &[u64]) -> u64 {
    factors
        .iter()
        .fold(1, |all: u64, one| all.saturating_mul(*one).min(LARGEST))
}

impl Tracer {
    pub(super) fn new() -> Self {
        Self {
            times: 1,
            ..Self::default()
        }
    }

    pub(super) fn part(self, name: impl Into<String>, role: PartRole, passes: f64) -> Part {
        Part {
            name: name.into(),
            role,
            passes,
            parameters: self.parameters,
            operations: self.operations,
            live_elements: self.peak,
        }
    }

    /// A part of which only the parameters are kept.
    pub(super) fn stored(self, name: impl Into<String>, role: PartRole) -> Part {
        Part {
            operations: Vec::new(),
            live_elements: 0,
            ..self.part(name, role, 0.0)
        }
    }

    /// Walks through the first of `count` equal pieces for all of them.
    pub(super) fn repeat(&mut self, count: u64, piece: impl FnOnce(&mut Self)) {
        if count == 0 {
            return;
        }
        let before = self.times;
        self.times = before.saturating_mul(count);
        piece(self);
        self.times = before;
    }

    /// Walks through a piece whose weights were counted before.
    pub(super) fn shared(&mut self, piece: impl FnOnce(&mut Self)) {
        let before = core::mem::replace(&mut self.shared, true);
        piece(self);
        self.shared = before;
    }

    /// Walks through a piece while so many elements more stay in memory.
    pub(super) fn holding(&mut self, elements: u64, piece: impl FnOnce(&mut Self)) {
        self.hold(elements);
        piece(self);
        self.release(elements);
    }

    pub(super) fn hold(&mut self, elements: u64) {
        self.held = self.held.saturating_add(elements);
    }

    pub(super) fn release(&mut self, elements: u64) {
        self.held = self.held.saturating_sub(elements);
    }

    /// Parameters of no operation of their own.
    pub(super) fn parameters(&mut self, count: u64) {
        if !self.shared {
            let all = count.saturating_mul(self.times);
            self.parameters = self.parameters.saturating_add(all);
        }
    }

    /// A matmul of `rows` rows.
    pub(super) fn linear(&mut self, name: &str, rows: u64, shape: (u64, u64), bias: bool) {
        let (inputs, outputs) = shape;
        let matrix = product(&[inputs, outputs]);
        let weights = matrix.saturating_add(if bias { outputs } else { 0 });
        self.parameters(weights);
        self.push(Operation {
            name: name.into(),
            kind: OperationKind::Matmul,
            count: 1,
            flops: product(&[2, rows, matrix]),
            weights,
            reads: product(&[rows, inputs]),
            writes: product(&[rows, outputs]),
            rows,
            shared_weights: true,
        });
    }

    /// Matmuls of the same input one after the other, of which the outputs stay.
    pub(super) fn linears(
        &mut self,
        name: &str,
        count: u64,
        rows: u64,
        shape: (u64, u64),
        bias: bool,
    ) {
        self.repeat(count, |tracer| tracer.linear(name, rows, shape, bias));
    }

    /// A convolution from so many positions to so many.
    pub(super) fn convolution(&mut self, name: &str, kernel: &Kernel, from: u64, to: u64) {
        self.convolve(name, kernel, from, to, to);
    }

    /// A transposed convolution from so many positions to so many.
    pub(super) fn transposed(&mut self, name: &str, kernel: &Kernel, from: u64, to: u64) {
        self.convolve(name, kernel, from, to, from);
    }

    /// A convolution that is done piece by piece: positions of all, and of a piece, from and to.
    pub(super) fn chunked(
        &mut self,
        name: &str,
        kernel: &Kernel,
        all: (u64, u64),
        piece: (u64, u64),
    ) {
        let peak = self.peak;
        self.convolve(name, kernel, all.0, all.1, all.1);
        self.peak = peak;
        let reads = product(&[piece.0, kernel.inputs]);
        self.touch(reads.saturating_add(product(&[piece.1, kernel.outputs])));
    }

    /// A norm and an activation that are done piece by piece, with one parameter a channel.
    pub(super) fn chunked_norm(&mut self, name: &str, all: u64, piece: u64, channels: u64) {
        let peak = self.peak;
        self.norm(name, all, channels);
        self.elementwise("activation", all, all);
        self.peak = peak;
        self.touch(2 * piece);
    }

    /// A sum that is done piece by piece.
    pub(super) fn chunked_elementwise(&mut self, name: &str, all: u64, piece: u64) {
        let peak = self.peak;
        self.elementwise(name, 2 * all, all);
        self.peak = peak;
        self.touch(3 * piece);
    }

    /// Elements that live at once beside those that are held.
    pub(super) fn touch(&mut self, elements: u64) {
        self.peak = self.peak.max(self.held.saturating_add(elements));
    }

    /// Adds to the peak what lives all the time.
    pub(super) fn lift(&mut self, elements: u64) {
        self.peak = self.peak.saturating_add(elements);
    }

    fn convolve(&mut self, name: &str, kernel: &Kernel, from: u64, to: u64, multiplied: u64) {
        let matrix = kernel.weights();
        let bias = if kernel.bias { kernel.outputs } else { 0 };
        let weights = matrix.saturating_add(bias);
        self.parameters(weights);
        let depthwise = kernel.groups > 1 && kernel.groups == kernel.inputs;
        self.push(Operation {
            name: name.into(),
            kind: if depthwise {
                OperationKind::Depthwise
            } else {
                kernel.kind
            },
            count: 1,
            flops: product(&[2, multiplied, matrix]),
            weights,
            reads: product(&[from, kernel.inputs]),
            writes: product(&[to, kernel.outputs]),
            rows: to,
            shared_weights: true,
        });
    }

    /// Attention without its projections.
    pub(super) fn attention(&mut self, name: &str, size: &Attention) {
        let widths = size.key_width.saturating_add(size.value_width);
        let keys = product(&[size.keys, size.kv_heads, widths]);
        let queries = product(&[size.queries, size.heads, size.key_width]);
        self.push(Operation {
            name: name.into(),
            kind: OperationKind::Attention,
            count: 1,
            flops: product(&[2, size.queries, size.keys, size.heads, widths]),
            weights: 0,
            reads: keys.saturating_add(queries),
            writes: product(&[size.queries, size.heads, size.value_width]),
            rows: size.queries,
            shared_weights: true,
        });
    }

    /// A norm of so many elements, with so many parameters.
    pub(super) fn norm(&mut self, name: &str, elements: u64, parameters: u64) {
        self.parameters(parameters);
        self.pointwise(name, parameters, elements, elements);
    }

    /// Anything that is no product: activations, sums, resampling.
    pub(super) fn elementwise(&mut self, name: &str, reads: u64, writes: u64) {
        self.pointwise(name, 0, reads, writes);
    }

    fn pointwise(&mut self, name: &str, weights: u64, reads: u64, writes: u64) {
        self.push(Operation {
            name: name.into(),
            kind: OperationKind::Elementwise,
            count: 1,
            flops: 0,
            weights,
            reads,
            writes,
            rows: 0,
            shared_weights: true,
        });
    }

    /// Rows of a table: those that are read, and those that are written.
    pub(super) fn lookup(&mut self, name: &str, table: (u64, u64), read: u64, written: u64) {
        let (rows, width) = table;
        self.parameters(product(&[rows, width]));
        self.push(Operation {
            name: name.into(),
            kind: OperationKind::Lookup,
            count: 1,
            flops: 0,
            weights: product(&[read, width]),
            reads: 0,
            writes: product(&[written, width]),
            rows: 0,
            shared_weights: false,
        });
    }

    fn push(&mut self, operation: Operation) {
        self.touch(operation.reads.saturating_add(operation.writes));
        let same = |known: &&mut Operation| {
            known.name == operation.name
                && known.kind == operation.kind
                && known.flops == operation.flops
                && known.weights == operation.weights
                && known.reads == operation.reads
                && known.writes == operation.writes
        };
        match self.operations.iter_mut().find(same) {
            Some(known) => known.count = known.count.saturating_add(self.times),
            None => self.operations.push(Operation {
                count: self.times,
                ..operation
            }),
        }
    }
}
