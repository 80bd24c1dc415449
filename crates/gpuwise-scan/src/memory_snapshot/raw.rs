//! The raw form of `export_memory_timeline`: `[time, action, bytes, category]`.

use super::MemorySnapshotError;
use gpuwise_domain::profile::memory_snapshot::{CategoryEvent, CategoryTimeline, MemoryCategory};
use serde::de::{Deserializer, SeqAccess, Visitor};

/// Reads a timeline of memory by category.
///
/// Actions 1 to 4 are: was there, created, changed its category, destroyed. Bytes carry their sign
/// and a change is two events, so that a running sum over all is what was live.
///
/// # Errors
///
/// Where the text is no list of such events.
pub fn read_category_timeline(bytes: &[u8]) -> Result<CategoryTimeline, MemorySnapshotError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut timeline = CategoryTimeline::default();
    let result = json.deserialize_seq(Events(&mut timeline));
    let at = timeline.events.len();
    result
        .and_then(|()| json.end())
        .map_err(|error| MemorySnapshotError::Timeline {
            event: at + 1,
            what: error.to_string(),
        })?;
    Ok(timeline)
}

struct Events<'t>(&'t mut CategoryTimeline);

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some((at, action, bytes, category)) = list.next_element::<(i64, u8, i64, u8)>()? {
            if !(1..=4).contains(&action) {
                return Err(serde::de::Error::custom(format!(
                    "action {action} is none of 1 to 4"
                )));
            }
            let category = MemoryCategory::ALL.get(usize::from(category)).copied();
            let category = category.ok_or_else(|| {
                serde::de::Error::custom("category is none of 0 to 7".to_string())
            })?;
            self.0.events.push(CategoryEvent {
                at_ns: (at >= 0).then_some(at),
                bytes,
                category,
            });
        }
        Ok(())
    }
}
