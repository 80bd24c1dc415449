//! SGLang.

use super::settings::Policy;

/// What its rules remember from step to step.
#[derive(Debug)]
pub(super) struct SglangState {}

impl SglangState {
    pub(super) fn new(_policy: &Policy) -> Self {
        Self {}
    }
}
