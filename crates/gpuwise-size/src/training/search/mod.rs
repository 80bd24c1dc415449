//! The best way to train: layouts on given machines, or machines, layouts and where to rent them.

mod best;
mod change;
mod dropped;
mod engines;
mod explain;
mod fewest;
mod flags;
mod formulas;
mod market;
mod mended;
mod needs;
mod physics;
mod plan;
mod refuse;
mod request;
mod run;
mod shape;
mod space;

pub use best::{Best, Kind, Outcome, SearchResult, best};
pub use change::{ParallelDegree, QuestionChange};
pub use fewest::fewest;
pub use formulas::Formulas;
pub use market::cluster;
pub use physics::{Cluster, Physics};
pub use plan::train;
pub use refuse::{Refusal, refusals};
pub use request::{Degrees, Machines, Market, RankBy, TrainChoices, TrainRequest};
pub use shape::Shape;
pub use space::global_batch;
