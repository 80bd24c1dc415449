//! What one token asks of all layers, before any parallelism.

use gpuwise_domain::model::{Architecture, FeedForward, Layer, Mixer, Role};

/// Amounts of all layers for one token, before any parallelism.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) layers: f64,
    pub(super) expert_layers: f64,
    pub(super) weights: f64,
    pub(super) attention: f64,
    pub(super) width: f64,
    pub(super) keys: f64,
    pub(super) expert_active: f64,
    pub(super) expert_by_width: f64,
    pub(super) expert_stored: f64,
    pub(super) copies: f64,
    pub(super) cast: f64,
    pub(super) biased: f64,
    /// Tokens times experts chosen, and experts: of the last layer that has any.
    pub(super) chosen: f64,
}

/// The amounts of an architecture at a length of sequences.
pub(super) fn totals(architecture: &Architecture, sequence: f64) -> Totals {
    let mut out = Totals::default();
    for run in &architecture.layers {
        let count = run.count as f64;
        let layer = &run.layer;
        out.layers += count;
        for tensor in layer.tensors.iter().filter(|t| t.is_matrix()) {
            if !tensor.role.is_routed_expert() {
                out.weights += count * tensor.elements() as f64;
            }
        }
        let (attention, keys) = mixing(&layer.mixer, sequence);
        out.attention += count * attention;
        out.keys += count * keys;
        out.width += count * (keys + inner(layer));
        experts(layer, count, &mut out);
    }
    out
}

/// Attention operations of a token forward, and elements of its keys and values.
fn mixing(mixer: &Mixer, sequence: f64) -> (f64, f64) {
    // A token sees half of a causal context in the mean, or its window.
    let seen = mixer.window().visible(sequence).min(sequence / 2.0);
    (
        2.0 * seen * mixer.attention_width() as f64,
        mixer.trained_keys_and_values() as f64,
    )
}

/// Width inside a dense feed-forward or a recurrent mixer.
fn inner(layer: &Layer) -> f64 {
    let dense = match layer.feed_forward {
        FeedForward::Dense { width, .. } => width as f64,
        _ => 0.0,
    };
    let recurrent: u64 = layer
        .tensors
        .iter()
        .filter(|t| t.role == Role::StateInput && t.is_matrix())
        .map(|t| t.rows)
        .sum();
    dense + recurrent as f64
}

fn experts(layer: &Layer, count: f64, out: &mut Totals) {
    let FeedForward::Experts {
        count: all,
        chosen,
        width,
        input,
        ..
    } = layer.feed_forward
    else {
        return;
    };
    let routed = layer.tensors.iter().filter(|t| t.role.is_routed_expert());
    let mut stored = 0.0;
    let mut biased = false;
    for tensor in routed {
        if tensor.is_matrix() {
            stored += tensor.elements() as f64;
        } else {
            biased = true;
        }
    }
    let (all, chosen, width, input) = (all as f64, chosen as f64, width as f64, input as f64);
    out.expert_layers += count;
    out.chosen = chosen;
    out.expert_stored += count * stored;
    let active = count * stored * chosen / all.max(1.0);
    out.expert_active += active;
    out.expert_by_width += active / width.max(1.0);
    out.copies += count * chosen * (2.0 * input + 3.0 * width);
    out.cast += count * chosen * (input + 2.0 * width);
    if biased {
        out.biased += count * chosen * 3.0 * width;
    }
}
