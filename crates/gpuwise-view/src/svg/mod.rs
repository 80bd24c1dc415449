//! Small pictures: real text, a title and a description, labels beside what they name, colours that
//! colour-blind readers tell apart, light and dark.

mod bill;
mod canvas;
mod efficiency;
mod fleet;
mod front;
mod load;
mod memory;
mod plot;
mod profile;
mod run;
mod sizes;

pub use bill::purchases;
pub use canvas::{Picture, STYLE};
pub use efficiency::{EfficiencySeries, efficiency};
pub use fleet::fleet;
pub use front::front;
pub use load::load;
pub use memory::memory;
pub(crate) use profile::{MemoryOverTime, memory_over_time, steps};
pub use run::{Panel, distribution, ladder, over_time};
pub use sizes::{SizeSeries, sizes};
