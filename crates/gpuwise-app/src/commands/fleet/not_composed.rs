//! Stands for what asks a Redfish service where that is not built in.

use super::{Context, Exit};
use crate::{error::Problem, settings::FleetImport};

pub(super) fn run(_: &Context, _: &FleetImport, _: &str) -> anyhow::Result<Exit> {
    Err(
        Problem::new("this gpuwise was built without the broker and cannot ask a Redfish service")
            .hint("build it with `cargo build --release -p gpuwise --features serve`")
            .into(),
    )
}
