//! What a Redfish service answers.

use super::{Secret, Trouble, documents::ErrorDocument};
use ureq::{Body, http::Response};

/// An answer of a service.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) location: Option<String>,
    pub(super) token: Option<Secret>,
}

impl Answer {
    pub(super) fn of(mut response: Response<Body>, base: &str) -> Result<Self, Trouble> {
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let location = header("Location");
        let location = location.map(|one| one.strip_prefix(base).unwrap_or(&one).to_owned());
        let token = header("X-Auth-Token").map(Secret);
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string();
        let text = text.map_err(|error| Trouble::Unreachable(error.to_string()))?;
        Ok(Self {
            status,
            text,
            location,
            token,
        })
    }

    /// Itself, or why it was refused.
    pub(super) fn checked(self, path: &str) -> Result<Self, Trouble> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let said: ErrorDocument = serde_json::from_str(&self.text).unwrap_or_default();
        let first = said.error.more.into_iter().next().unwrap_or_default();
        let code = if first.message_id.is_empty() {
            said.error.code
        } else {
            first.message_id
        };
        let text = if first.message.is_empty() {
            said.error.message
        } else {
            first.message
        };
        let said = if text.is_empty() {
            path.to_owned()
        } else {
            text
        };
        Err(match self.status {
            401 | 403 => Trouble::Denied(self.status),
            404 => Trouble::Missing(path.to_owned()),
            409 => Trouble::Conflict(said),
            status => Trouble::Refused {
                status,
                id: code.rsplit('.').next().unwrap_or_default().to_owned(),
                said,
            },
        })
    }
}
