//! Conditions by the API conventions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One aspect of an object's state, as was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect, in CamelCase.
    #[serde(rename = "type")]
    #[schema(max_length = 316)]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// Generation of the object that was looked at.
    #[schema(minimum = 0)]
    pub observed_generation: i64,
    /// When the status last changed (RFC 3339).
    #[schema(format = DateTime)]
    pub last_transition_time: String,
    /// Why, in one word of CamelCase.
    #[schema(
        min_length = 1,
        max_length = 1024,
        pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    )]
    pub reason: String,
    /// Why, in a sentence for people.
    #[schema(max_length = 32768)]
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Status {
    True,
    False,
    Unknown,
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// A condition beside those that are there: the time of its last change stays where its status does.
/// Whether anything but that time is new comes with it: what says the same is not written again.
pub fn settled(there: &[Condition], mut new: Condition) -> (Vec<Condition>, bool) {
    let mut all = there.to_vec();
    if let Some(old) = all.iter_mut().find(|one| one.kind == new.kind) {
        if old.status == new.status {
            new.last_transition_time
                .clone_from(&old.last_transition_time);
        }
        let changed = *old != new;
        *old = new;
        (all, changed)
    } else {
        all.push(new);
        (all, true)
    }
}
