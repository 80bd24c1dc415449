//! Sizes at which decode steps are captured as CUDA graphs.
//!
//! A step of fewer sequences runs the next larger graph, with rows that nobody needs; above the largest
//! there is no graph. vLLM captures 1, 2, 4, then every 8 below 256 and every 16 from there
//! (`vllm/config/vllm.py`, 0.33.0); SGLang's and TensorRT-LLM's lists are as dense and taken to be the
//! same.

/// The sizes of one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Graphs {
    /// The largest; 0 where steps run without graphs.
    pub largest: u32,
}

impl Graphs {
    /// The sequences that a step of so many is computed for.
    ///
    /// ```
    /// use gpuwise_sim::cost::Graphs;
    /// let graphs = Graphs { largest: 512 };
    /// assert_eq!([1, 3, 5, 9, 250, 257, 512].map(|n| graphs.padded(n)), [1, 4, 8, 16, 256, 272, 512]);
    /// assert_eq!(graphs.padded(513), 513, "above the largest there is no graph");
    /// ```
    pub const fn padded(self, sequences: u32) -> u32 {
        if sequences > self.largest {
            return sequences;
        }
        let size = match sequences {
            0..=2 => sequences,
            3..=4 => 4,
            5..=256 => sequences.next_multiple_of(8),
            _ => sequences.next_multiple_of(16),
        };
        if size < self.largest {
            size
        } else {
            self.largest
        }
    }
}
