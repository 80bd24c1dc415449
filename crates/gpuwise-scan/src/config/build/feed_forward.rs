//! Feed-forwards and experts with their tensors, from their dimensions.

use super::whole;
use crate::config::ConfigError;
use gpuwise_domain::model::{FeedForward, Role, Split, Tensor};

/// A dense feed-forward and its tensors.
pub(crate) fn dense(
    hidden: u64,
    width: u64,
    gated: bool,
    bias: bool,
) -> (FeedForward, Vec<Tensor>) {
    let mut tensors = mlp(
        ["up_proj", "down_proj"],
        [Role::MlpUp, Role::MlpDown],
        hidden,
        width,
        gated,
    );
    if bias {
        let ups = if gated { 2 } else { 1 };
        tensors.push(Tensor::vector("mlp.bias", Role::MlpUp, ups * width));
        tensors.push(Tensor::vector("mlp.down.bias", Role::MlpDown, hidden));
    }
    (FeedForward::Dense { width, gated }, tensors)
}

/// The two (or three, with a gate) matrices of a feed-forward.
pub(crate) fn mlp(
    names: [&'static str; 2],
    roles: [Role; 2],
    hidden: u64,
    width: u64,
    gated: bool,
) -> Vec<Tensor> {
    let ups = if gated { 2 } else { 1 };
    vec![
        Tensor::matrix(names[0], roles[0], width, hidden, Split::Output(width)).times(ups),
        Tensor::matrix(names[1], roles[1], hidden, width, Split::Input(width)),
    ]
}

/// Experts of a layer.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether a tensor is there, independently of the others"
)]
pub(crate) struct ExpertShape {
    pub(crate) hidden: u64,
    pub(crate) count: u64,
    pub(crate) chosen: u64,
    pub(crate) width: u64,
    /// Width of an expert's input and output: `hidden`, or a latent of it.
    pub(crate) input: u64,
    pub(crate) gated: bool,
    pub(crate) shared_width: u64,
    /// A gate on the shared experts, one number a token.
    pub(crate) shared_gate: bool,
    /// A bias, or a correction of the scores, that is a parameter; most corrections are buffers,
    /// which are not counted.
    pub(crate) router_bias: bool,
    pub(crate) expert_bias: bool,
    /// Experts that hold no weights and hand the token on: the router scores them too.
    pub(crate) empty: u64,
}

impl ExpertShape {
    /// Gated experts on the residual stream, with nothing beside them.
    pub(crate) fn new(hidden: u64, count: u64, chosen: u64, width: u64) -> Self {
        Self {
            hidden,
            count,
            chosen,
            width,
            input: hidden,
            gated: true,
            shared_width: 0,
            shared_gate: false,
            router_bias: false,
            expert_bias: false,
            empty: 0,
        }
    }

    /// At least one expert works on a token, and no more than there are; `field` says how many.
    pub(crate) fn checked(self, field: &str) -> Result<Self, ConfigError> {
        if self.chosen == 0 || self.count < self.chosen {
            return Err(ConfigError::Contradiction(format!(
                "`{field}` is {}; expected at least 1 and no more than the {} experts",
                self.chosen, self.count
            )));
        }
        Ok(self)
    }
}

/// Experts, their router and what they share, with their tensors.
pub(crate) fn experts(shape: &ExpertShape) -> (FeedForward, Vec<Tensor>) {
    let &ExpertShape {
        hidden,
        count,
        width,
        input,
        ..
    } = shape;
    let ups = if shape.gated { 2 } else { 1 };
    let expert =
        |name, role, rows, columns| Tensor::matrix(name, role, rows, columns, Split::Experts);
    let mut tensors = vec![
        whole("router", Role::Router, count + shape.empty, hidden),
        expert("experts.up_proj", Role::ExpertUp, width, input).times(count * ups),
        expert("experts.down_proj", Role::ExpertDown, input, width).times(count),
    ];
    if shape.router_bias {
        tensors.push(Tensor::vector("router.bias", Role::Router, count));
    }
    if shape.expert_bias {
        tensors.push(Tensor::vector("experts.up.bias", Role::ExpertUp, ups * width).times(count));
        tensors.push(Tensor::vector("experts.down.bias", Role::ExpertDown, input).times(count));
    }
    if input != hidden {
        tensors.push(whole("latent_in", Role::Router, input, hidden));
        tensors.push(whole("latent_out", Role::Router, hidden, input));
    }
    if shape.shared_width > 0 {
        tensors.extend(mlp(
            ["shared.up_proj", "shared.down_proj"],
            [Role::SharedUp, Role::SharedDown],
            hidden,
            shape.shared_width,
            shape.gated,
        ));
        if shape.shared_gate {
            tensors.push(Tensor::vector("shared.gate", Role::Router, hidden));
        }
    }
    let feed_forward = FeedForward::Experts {
        count,
        chosen: shape.chosen,
        width,
        input,
        gated: shape.gated,
        shared_width: shape.shared_width,
    };
    (feed_forward, tensors)
}
