//! A saved deployment or run: what is read is written and read again as the same.

use gpuwise_wire::{from_json, runs_from_json, runs_to_json, to_json};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(deployment) = from_json(text) {
        // Written again, because what is not a number is not equal to itself.
        let written = to_json(&deployment);
        assert_eq!(from_json(&written).as_ref().map(to_json), Ok(written));
    }
    if let Ok(runs) = runs_from_json(text) {
        let written = runs_to_json(&runs);
        assert_eq!(
            runs_from_json(&written).as_ref().map(runs_to_json),
            Ok(written)
        );
    }
}
