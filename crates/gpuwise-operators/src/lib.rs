//! Operator times: how long a GEMM, an attention kernel, an expert layer or a collective takes on a
//! GPU under an engine. Nothing of models and nothing of serving.
//!
//! A time is the roofline's ideal, which follows from specs, over an achieved share that follows from
//! measurements: a surface over the shape, shared by what is alike and bent by what was measured of
//! an engine, its kernel, a generation and a GPU.
//!
//! Everything here is a function of its arguments: no clock, no file, no chance.
#![no_std]

extern crate alloc;

mod code;
#[cfg(doctest)]
mod concepts;
mod curve;
mod example;
pub mod fit;
mod functions;
mod grid;
mod lane;
mod law;
mod memo;
mod operators;
mod plane;
mod row;
mod silicon;
pub mod tables;

pub use curve::Curve;
pub use example::{Example, Line, Size};
pub use functions::{Basis, Context, Functions, Generation, Prediction, Spread};
pub use lane::{LEVELS, Lane};
pub use operators::{On, Operators};
pub use row::{Columns, Row};
pub use silicon::{Class, Silicon};
pub use tables::{
    attention::{Heads, KvFormat},
    collective::Collective,
    exchange::{Exchange, Phase},
    gemm::GemmFormat,
    moe::{ExpertLoad, Experts, MoeFormat},
};

use alloc::string::String;

/// What is wrong with rows or with a table of functions.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OperatorError {
    /// A column that the table needs.
    #[error("no column {column:?}; {table} needs it")]
    NoColumn {
        /// Name of the operator's table, such as `gemm`.
        table: &'static str,
        /// Header that is missing from the file.
        column: &'static str,
    },
    #[error("{column}: {value:?} is not {wanted}")]
    Field {
        /// Header of the field that cannot be read.
        column: &'static str,
        value: String,
        wanted: &'static str,
    },
    /// A line of the table of functions.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        problem: String,
    },
    /// What is known rests on a wider basis than was asked for.
    #[error("what is known of {table} is {}", basis.name())]
    TooFar { table: String, basis: Basis },
    /// Nothing is known of the operator.
    #[error("no functions of {table} are known")]
    NoTable {
        /// Name that was asked for.
        table: String,
    },
}
