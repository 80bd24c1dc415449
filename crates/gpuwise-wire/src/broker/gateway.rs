//! What the gateway takes and gives: OpenAI's forms, of which it reads what it needs.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A request for a completion, in OpenAI's form. What is not named here goes to the engine as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompletionAsk {
    /// The model of a service.
    pub model: String,
    /// Whether the answer comes piece by piece (server-sent events).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// The conversation, for chat completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub messages: Option<Value>,
    /// The prompt, for completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub prompt: Option<Value>,
}

/// Models that can be asked for, in OpenAI's form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServedModels {
    /// `list`.
    pub object: String,
    pub data: Vec<ServedModel>,
}

/// A model that a service serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServedModel {
    /// What requests name.
    pub id: String,
    /// `model`.
    pub object: String,
    /// When its lease was requested: seconds since 1970, UTC.
    pub created: u64,
    /// The tenant.
    pub owned_by: String,
}
