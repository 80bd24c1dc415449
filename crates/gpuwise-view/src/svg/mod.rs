//! Small pictures: real text, a title and a description, labels beside what they name, colours that
//! colour-blind readers tell apart, light and dark.

mod arrivals;
mod bill;
mod canvas;
mod efficiency;
mod fleet;
mod forecast;
mod forms;
mod front;
mod labels;
mod lanes;
mod load;
mod memory;
mod mix;
mod plot;
mod profile;
mod roofline;
mod run;
mod savings;
mod scale;
mod sizes;
mod stacked;

pub(crate) use arrivals::arrivals;
pub use bill::purchases;
pub use canvas::{Picture, STYLE};
pub use efficiency::{EfficiencySeries, efficiency};
pub use fleet::fleet;
pub(crate) use forecast::forecast;
pub use forms::{FormPoint, forms};
pub use front::front;
pub(crate) use lanes::{Lane, LaneLine, Lanes};
pub use load::load;
pub(crate) use memory::held;
pub use memory::memory;
pub(crate) use mix::mix;
pub(crate) use profile::{MemoryOverTime, memory_over_time, steps};
pub(crate) use roofline::{Spot, roofline, speed_of_light};
pub use run::{Panel, distribution, ladder, over_time};
pub(crate) use savings::{costs, savings};
pub(crate) use scale::scale;
pub use sizes::{SizeSeries, sizes};
pub(crate) use stacked::Stacked;
