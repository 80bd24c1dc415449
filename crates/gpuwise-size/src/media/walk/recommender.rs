//! Recommenders: rows of tables, a network for dense features, crosses, a network on top.

use super::tracer::Tracer;
use gpuwise_domain::network::Recommender;

/// Reads rows of every table for one sample and adds up those of each.
pub(super) fn tables(tracer: &mut Tracer, shape: &Recommender) {
    for (index, &rows) in shape.rows.iter().enumerate() {
        let read = shape.lookups.get(index).copied().unwrap_or(1);
        tracer.lookup("table", (rows, shape.embedding), read, 1);
    }
}

/// What follows the tables, for one sample.
pub(super) fn networks(tracer: &mut Tracer, shape: &Recommender) {
    let mut width = shape.dense_features;
    for &next in &shape.bottom {
        layer(tracer, "bottom", (width, next));
        width = next;
    }
    let features = (shape.rows.len() as u64).saturating_add(1);
    let all = features.saturating_mul(shape.embedding);
    tracer.repeat(shape.crosses, |tracer| {
        tracer.linear("cross.narrow", 1, (all, shape.cross_rank), false);
        tracer.linear("cross.widen", 1, (shape.cross_rank, all), true);
        tracer.elementwise("cross.product", 3 * all, all);
    });
    width = all;
    for &next in &shape.top {
        layer(tracer, "top", (width, next));
        width = next;
    }
}

fn layer(tracer: &mut Tracer, name: &str, shape: (u64, u64)) {
    tracer.linear(name, 1, shape, true);
    tracer.elementwise("activation", shape.1, shape.1);
}
