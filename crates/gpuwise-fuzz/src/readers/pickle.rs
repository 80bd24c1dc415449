//! A pickle of plain data, and a memory snapshot in one.

use gpuwise_measure::memory_snapshot::{live_timeline, memory_source};
use gpuwise_read::memory_snapshot::from_pickle;
use gpuwise_read::pickle::{Pickle, Value, is_pickle};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let _ = is_pickle(data);
    let Ok(pickle) = Pickle::read(data) else {
        return;
    };
    assert!(pickle.end() <= data.len());
    // Nothing can be made without a byte of the input for it.
    assert!(pickle.dict_count() <= data.len());
    if let Value::List(_) | Value::Tuple(_) = pickle.root() {
        assert!(pickle.items(pickle.root()).len() <= data.len());
    }
    if let Ok(snapshot) = from_pickle(&pickle) {
        for device in 0..snapshot.traces.len() {
            let points = live_timeline(&snapshot, device);
            assert_eq!(points.len(), snapshot.traces[device].len() + 1);
        }
        let source = memory_source(snapshot);
        assert_eq!(source.live.len(), source.figures.traces.len());
    }
}
