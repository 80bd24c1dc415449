//! What gpuwise shows: results in, text out.
//!
//! Terminal text, Markdown, CSV, JSON, SVG and one-file HTML reports of the nouns in
//! `gpuwise-domain`. Nothing here reads a file, a clock, the environment or a terminal: width and
//! colour are arguments ([`Style`]).

pub mod answer;
pub mod audit;
pub mod balance;
pub mod bill;
pub mod explain;
pub mod figures;
pub mod fleet;
pub mod forecast;
pub mod html;
pub mod launch;
mod markup;
pub mod media;
pub mod memory;
pub mod mig;
pub mod placement;
pub mod plan;
pub mod profile;
pub mod record;
pub mod rejected;
pub mod replay;
pub mod run;
pub mod scale;
mod style;
pub mod svg;
pub mod table;
pub mod training;
pub mod verdict;

pub use markup::{escape, escape_markdown};
pub use style::{State, Style};
