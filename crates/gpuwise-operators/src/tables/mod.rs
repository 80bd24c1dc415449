//! The operators: what each reads of a row, its roofline, and over what its share is a surface.

pub mod attention;
pub mod collective;
pub mod exchange;
pub mod gemm;
pub mod moe;

pub use crate::grid::Point;
use crate::{
    OperatorError, Row, Silicon,
    grid::Tensors,
    law::{Law, Product},
};
use alloc::string::String;

/// A kind of operator, and the table that measures it.
#[derive(Debug, Clone, Copy)]
pub struct Operator {
    /// The table's name, which is that of its file.
    pub name: &'static str,
    /// Columns that make a shape: rows that agree in them are held out together.
    pub shape: &'static [&'static str],
    /// What a surface is made of: grids that add up, fitted one after the other, so that the first
    /// takes the most; each of them tensors that add up, fitted together.
    pub(crate) grids: &'static [Tensors],
    /// By what factor hosts differ where GPUs have no link of their own.
    pub(crate) hosts: f64,
    /// How strongly deviations are smoothed, on second differences between knots.
    pub(crate) smooth: f64,
    pub(crate) read: fn(&Row<'_>, &Silicon) -> Result<Case, OperatorError>,
    /// Formats to borrow from where this one was not measured, nearest first.
    pub(crate) like: fn(&str) -> &'static [&'static str],
}

impl PartialEq for Operator {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All that `gpuwise operators` knows; files of the fit are found by their names.
pub const ALL: [&Operator; 11] = [
    &gemm::GEMM,
    &moe::MOE,
    &attention::context::CONTEXT,
    &attention::generation::GENERATION,
    &attention::encoder::ENCODER,
    &attention::latent::LATENT_ATTENTION,
    &attention::latent_block::LATENT_BLOCK,
    &attention::latent_product::LATENT_PRODUCT,
    &collective::LIBRARY,
    &collective::ENGINE,
    &exchange::EXCHANGE,
];

pub fn named(name: &str) -> Option<&'static Operator> {
    ALL.into_iter().find(|operator| operator.name == name)
}

/// What a row asks: which lane, beside the columns that all tables have, and which work.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The format, with what else sets kernels apart.
    pub format: String,
    /// The model whose shapes these are, where a table is of models; else empty.
    pub model: String,
    /// Its FLOP, bytes and place on the surfaces.
    pub work: Work,
    /// Why the row is no part of a fit, where it is not: a trap of the data.
    pub outside: Option<&'static str>,
}

/// An operator of a size on a GPU, by specs alone. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    pub(crate) ideal: Ideal,
    /// Its FLOP at the dense peak.
    pub compute: f64,
    /// Its bytes that cannot come out of a cache at the peak of the memory.
    pub memory: f64,
    pub at: Point,
}

/// What a work would take at full rates with the launches: what the share is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Ideal {
    Seconds(f64),
    /// By the law of its format.
    Product(Product),
}

impl Ideal {
    /// Under a law, that before any row where there is none.
    pub(crate) fn seconds(&self, law: Option<&Law>) -> f64 {
        match self {
            Self::Seconds(seconds) => *seconds,
            Self::Product(product) => law.copied().unwrap_or_else(Law::prior).seconds(product),
        }
    }
}

/// Whether weights may still be in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// As when measured: a few copies are read in turn, so that small ones stay cached.
    Rotated,
    /// As when serving: layers in between have replaced them.
    Cold,
}
