//! One search, whatever is planned: candidates are tried, each test that one fails is a `Failure` with
//! its quantities and its fixes, what passes is rented on one market and stands by one rule, and of what
//! is not shown the nearest of each GPU is explained.
//!
//! Serving is searched here; training and networks without autoregression bring their candidates and
//! their physics ([`crate::training::search`], [`crate::media::plan`]).

mod failure;
mod limits;
mod market;
mod rank;
mod serving;

pub(crate) use failure::{Failure, one_per_gpu};
pub(crate) use limits::{Sought, affordable, can_widen, drawn, whole_gpus, widen, widened};
pub(crate) use market::{Market, per_million};
pub use market::{cheapest_rental, per_hour};
pub(crate) use rank::{Offered, ShortlistRule, Standing, shortlist};
pub use serving::{
    Choices, DraftModel, Fixed, LayoutWish, RebuildError, Request, model_summary, plan, setups,
};
pub(crate) use serving::{SPARE, devices_within, rounded_up};
