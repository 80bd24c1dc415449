//! What a file had, or should have had, and what is not in the timeline.

use gpuwise_domain::profile::timeline::Loss;

/// Losses by what was wrong, each once.
#[derive(Default)]
pub(super) struct Losses {
    found: Vec<Loss>,
}

/// Where in a file an event stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its number, from 1.
    pub(super) event: u64,
    /// Its first byte in the uncompressed text, from 0.
    pub(super) byte: u64,
}

impl Losses {
    /// Counts one more of these, at a place.
    pub(super) fn at(&mut self, what: &str, place: Place) {
        match self.found.iter_mut().find(|loss| loss.what == what) {
            Some(loss) => loss.count += 1,
            None => self.found.push(Loss {
                what: what.into(),
                count: 1,
                first: Some(format!("event {} (byte {})", place.event, place.byte)),
            }),
        }
    }

    /// States something of the file as a whole.
    pub(super) fn of_file(&mut self, what: String, count: u64) {
        self.found.push(Loss {
            what,
            count,
            first: None,
        });
    }

    pub(super) fn into_vec(self) -> Vec<Loss> {
        self.found
    }
}
