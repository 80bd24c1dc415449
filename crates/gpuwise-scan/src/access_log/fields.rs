//! Which column or path of a log holds what: as the user maps it, or by the names that gateways,
//! engines and client libraries use.

use super::AccessLogError;

gpuwise_units::named! {
    /// What is read of a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Field:
        /// Its name in a mapping.
        name
    {
        Arrival = "arrival",
        /// Tokens of its prompt.
        Input = "isl",
        Output = "osl",
        /// Prompt tokens found in the prefix cache.
        Cached = "cached",
        /// The conversation that it is part of.
        Session = "session",
        Tenant = "tenant",
        /// The model that it asked for.
        Model = "model",
        /// The HTTP status of its answer.
        Status = "status",
    }
}

impl Field {
    /// Names under which it usually stands, best first; dots lead into objects.
    pub(super) fn usual(self) -> &'static [&'static str] {
        let found = USUAL.iter().find(|(field, _)| *field == self);
        found.map_or(&[], |(_, names)| names)
    }
}

/// Names under which fields usually stand, best first; dots lead into objects.
const USUAL: [(Field, &[&str]); 8] = [
    (
        Field::Arrival,
        &[
            "arrival",
            "arrival_time",
            "arrival_s",
            "arrived_at",
            "received_at",
            "start_time",
            "startTime",
            "request_start_time",
            "request.timestamp",
            "timestamp",
            "@timestamp",
            "ts",
            "time",
            "created_at",
            "created",
            "response.created",
            "response.body.created",
            "datetime",
            "date",
            "time_local",
            "time_iso8601",
        ],
    ),
    (
        Field::Input,
        &[
            "usage.prompt_tokens",
            "usage.input_tokens",
            "response.usage.prompt_tokens",
            "response.usage.input_tokens",
            "response.body.usage.prompt_tokens",
            "response.body.usage.input_tokens",
            "body.usage.prompt_tokens",
            "prompt_tokens",
            "input_tokens",
            "isl",
            "input_length",
            "promptTokens",
            "inputTokens",
            "usage.promptTokens",
            "usage.inputTokens",
            "num_prompt_tokens",
            "n_prompt_tokens",
            "prompt_token_count",
            "usageMetadata.promptTokenCount",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.prompt_tokens",
            "attributes.gen_ai.usage.input_tokens",
            "attributes.gen_ai.usage.prompt_tokens",
            "genai_tokens_input",
            "llm_input_token",
            "ContextTokens",
        ],
    ),
    (
        Field::Output,
        &[
            "usage.completion_tokens",
            "usage.output_tokens",
            "response.usage.completion_tokens",
            "response.usage.output_tokens",
            "response.body.usage.completion_tokens",
            "response.body.usage.output_tokens",
            "body.usage.completion_tokens",
            "completion_tokens",
            "output_tokens",
            "generated_tokens",
            "osl",
            "output_length",
            "completionTokens",
            "outputTokens",
            "usage.completionTokens",
            "usage.outputTokens",
            "num_output_tokens",
            "num_generation_tokens",
            "completion_token_count",
            "usageMetadata.candidatesTokenCount",
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "attributes.gen_ai.usage.output_tokens",
            "attributes.gen_ai.usage.completion_tokens",
            "genai_tokens_output",
            "llm_output_token",
            "GeneratedTokens",
        ],
    ),
    (
        Field::Cached,
        &[
            "usage.prompt_tokens_details.cached_tokens",
            "usage.input_tokens_details.cached_tokens",
            "usage.cache_read_input_tokens",
            "usage.prompt_cache_hit_tokens",
            "response.usage.prompt_tokens_details.cached_tokens",
            "response.usage.input_tokens_details.cached_tokens",
            "response.body.usage.prompt_tokens_details.cached_tokens",
            "prompt_tokens_details.cached_tokens",
            "cache_read_input_tokens",
            "cached_tokens",
            "num_cached_tokens",
            "genai_tokens_cached_input",
        ],
    ),
    (
        Field::Session,
        &[
            "session_id",
            "sessionId",
            "session",
            "conversation_id",
            "conversationId",
            "conversation",
            "thread_id",
            "chat_id",
            "metadata.session_id",
            "metadata.conversation_id",
            "gen_ai.conversation.id",
            "attributes.gen_ai.conversation.id",
            "prompt_cache_key",
        ],
    ),
    (
        Field::Tenant,
        &[
            "tenant",
            "tenant_id",
            "metadata.user_api_key_team_alias",
            "metadata.user_api_key_alias",
            "api_key_alias",
            "team_id",
            "organization",
            "org_id",
            "project",
            "client_id",
            "consumer",
            "client",
        ],
    ),
    (
        Field::Model,
        &[
            "model",
            "model_name",
            "model_id",
            "request.model",
            "response.model",
            "response.body.model",
            "gen_ai.request.model",
            "attributes.gen_ai.request.model",
            "genai_model_name",
        ],
    ),
    (
        Field::Status,
        &[
            "status_code",
            "status",
            "response_code",
            "http_status",
            "response.status_code",
            "http.response.status_code",
            "attributes.http.response.status_code",
            "code",
        ],
    ),
];

/// Where the user says that fields stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    /// (field, column or path), each field once.
    pub given: Vec<(Field, String)>,
}

impl Mapping {
    /// Reads `arrival=ts,isl=usage.prompt_tokens`.
    ///
    /// # Errors
    /// When a part is no `field=column`, or a field is unknown or stands twice.
    pub fn read(text: &str) -> Result<Self, AccessLogError> {
        let mut given: Vec<(Field, String)> = Vec::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let wrong = |problem: &str| AccessLogError::Mapping(format!("{part:?} {problem}"));
            let (name, column) = part
                .split_once('=')
                .map(|(name, column)| (name.trim(), column.trim()))
                .filter(|(_, column)| !column.is_empty())
                .ok_or_else(|| wrong("is no FIELD=COLUMN"))?;
            let field = Field::ALL
                .into_iter()
                .find(|field| field.name() == name)
                .ok_or_else(|| wrong("names no field that is read"))?;
            if given.iter().any(|(known, _)| *known == field) {
                return Err(wrong("maps a field that is mapped already"));
            }
            given.push((field, column.into()));
        }
        Ok(Self { given })
    }

    /// Where a field stands, if the user says so.
    pub fn column(&self, field: Field) -> Option<&str> {
        self.given
            .iter()
            .find(|(known, _)| *known == field)
            .map(|(_, column)| column.as_str())
    }
}
