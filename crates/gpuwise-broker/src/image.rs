//! The state as bytes: what a start reads in place of all events until then.

use crate::Broker;

/// The form of images that this build writes; another build's are made anew from the log.
pub const FORM: &str = env!("GPUWISE_STATE_FORM");

/// Why bytes are no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no image of a state: {0}")]
pub struct NoImage(String);

impl Broker {
    /// # Errors
    /// When something of it has no form in bytes.
    pub fn image(&self) -> Result<Vec<u8>, NoImage> {
        postcard::to_allocvec(self).map_err(|error| NoImage(error.to_string()))
    }

    /// The state again; of an image in another form than [`FORM`] nothing can be said.
    ///
    /// # Errors
    /// When the bytes are not those of an image.
    pub fn of_image(bytes: &[u8]) -> Result<Self, NoImage> {
        postcard::from_bytes(bytes).map_err(|error| NoImage(error.to_string()))
    }
}

/// Documents within an image, which leave out fields that say nothing: a text that says its fields.
pub(crate) mod document {
    use serde::{
        Deserialize as _, Deserializer, Serialize, Serializer, de::DeserializeOwned,
        de::Error as _, ser::Error as _,
    };

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        document: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(document).map_err(S::Error::custom)?;
        serializer.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        serde_json::from_str(text).map_err(D::Error::custom)
    }
}
