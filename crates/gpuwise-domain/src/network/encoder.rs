//! Shapes of what encodes text, and of recommenders.

use alloc::vec::Vec;

/// A stack of equal transformer layers with biases: attention, and a feed-forward without gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransformerSize {
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Heads of attention, which divide the width.
    pub heads: u64,
    /// Inner width of the feed-forward.
    pub width: u64,
}

/// BERT and RoBERTa: tables of words, positions and segments, a norm, layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextEncoder {
    pub size: TransformerSize,
    /// Rows of the table of words.
    pub vocabulary: u64,
    /// Rows of the table of positions.
    pub positions: u64,
    /// Positions that no token can have: RoBERTa keeps two.
    pub spare_positions: u64,
    /// Rows of the table of segments.
    pub segments: u64,
    pub head: BertHead,
}

/// What stands on an encoder of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BertHead {
    /// Nothing: the last layer's states are read.
    None,
    /// A dense layer over the first token.
    Pooler,
    /// Pooler, sentence order, and words by the tied table.
    PreTraining,
    /// Words by the tied table.
    Words,
    /// Two scores a token, without a pooler.
    Spans,
    /// Pooler and scores of a pair or text.
    Classes(u64),
    /// Two dense layers over the first token, as RoBERTa has them instead of a pooler.
    DenseClasses(u64),
    /// Scores of each token, without a pooler.
    TokenClasses(u64),
}

/// The text tower of CLIP: pre-norm layers over a fixed number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClipText {
    pub size: TransformerSize,
    /// Rows of the table of words.
    pub vocabulary: u64,
    /// Tokens that it takes, and to which prompts are padded.
    pub positions: u64,
    /// Width of the projection behind it, if it has one.
    pub projection: Option<u64>,
}

/// Which part of a language model is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LanguagePart {
    Encoder,
    /// Its decoder over a whole text, without the head.
    Body,
    /// Its decoder over a whole text, with the head.
    Decoder,
    /// Encoder once, decoder token by token.
    Whole,
}

/// Tables of embeddings of categories, a network for dense features, their interaction by low-rank
/// crosses, and a network on top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommender {
    pub rows: Vec<u64>,
    /// Rows that one sample reads of each table.
    pub lookups: Vec<u64>,
    /// Elements of a row.
    pub embedding: u64,
    pub dense_features: u64,
    /// Widths of the layers for dense features; the last is a row's.
    pub bottom: Vec<u64>,
    pub crosses: u64,
    pub cross_rank: u64,
    /// Widths of the layers on top.
    pub top: Vec<u64>,
}
