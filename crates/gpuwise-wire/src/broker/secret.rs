//! Secrets of tenants.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// The value of a secret. It is kept apart from the log, and no answer has it.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretAsk {
    /// Of several lines, where it has them.
    pub secret: String,
}

/// Without its value, wherever it is printed.
impl fmt::Debug for SecretAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretAsk")
    }
}

/// A secret, but for its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretAnswer {
    pub name: String,
    pub tenant: String,
    /// When it was set last.
    pub set_at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretList {
    pub items: Vec<SecretAnswer>,
}
