//! `gpuwise operators`: how long operators take, and what that rests on.

mod fit;
mod predict;
mod rows;
mod show;

use super::{Context, Exit};
use crate::settings::OperatorsCommand;

pub fn run(context: &Context, command: &OperatorsCommand) -> anyhow::Result<Exit> {
    match command {
        OperatorsCommand::Predict(flags) => predict::run(context, flags),
        OperatorsCommand::Show(flags) => show::run(context, flags),
        OperatorsCommand::Fit(flags) => fit::run(context, flags),
        OperatorsCommand::Check(flags) => fit::check(context, flags),
    }
}
