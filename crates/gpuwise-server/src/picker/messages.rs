//! What a gateway and an external processor say to one another: messages of package `envoy.service.ext_proc.v3`, by
//! their numbers, as far as an endpoint picker needs them.

use prost_types::Struct;
use std::collections::HashMap;

/// `ProcessingMode.BodySendMode`: how a body comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum BodyMode {
    None = 0,
    Streamed = 1,
    Buffered = 2,
    BufferedPartial = 3,
    FullDuplexStreamed = 4,
    Grpc = 5,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProcessingRequest {
    #[prost(oneof = "Asked", tags = "2, 3, 4, 5, 6, 7")]
    pub(super) request: Option<Asked>,
    #[prost(message, optional, tag = "8")]
    pub(super) metadata_context: Option<Metadata>,
    #[prost(bool, tag = "10")]
    pub(super) observability_mode: bool,
    /// In the first message of a stream alone.
    #[prost(message, optional, tag = "11")]
    pub(super) protocol_config: Option<ProtocolConfiguration>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Asked {
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
    #[prost(message, tag = "6")]
    RequestTrailers(HttpTrailers),
    #[prost(message, tag = "7")]
    ResponseTrailers(HttpTrailers),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ProtocolConfiguration {
    #[prost(enumeration = "BodyMode", tag = "1")]
    pub(super) request_body_mode: i32,
    #[prost(enumeration = "BodyMode", tag = "2")]
    pub(super) response_body_mode: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Metadata {
    #[prost(map = "string, message", tag = "1")]
    pub(super) filter_metadata: HashMap<String, Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HttpHeaders {
    #[prost(message, optional, tag = "1")]
    pub(super) headers: Option<HeaderMap>,
    #[prost(bool, tag = "3")]
    pub(super) end_of_stream: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HttpBody {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) body: prost::bytes::Bytes,
    #[prost(bool, tag = "2")]
    pub(super) end_of_stream: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HttpTrailers {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub(super) headers: Vec<HeaderValue>,
}

/// One of `value` and `raw_value` is set; Envoy sets the latter.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) raw_value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProcessingResponse {
    #[prost(oneof = "Answered", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(super) response: Option<Answered>,
    #[prost(message, optional, tag = "8")]
    pub(super) dynamic_metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Answered {
    #[prost(message, tag = "1")]
    RequestHeaders(CommonAnswer),
    #[prost(message, tag = "2")]
    ResponseHeaders(CommonAnswer),
    #[prost(message, tag = "3")]
    RequestBody(CommonAnswer),
    #[prost(message, tag = "4")]
    ResponseBody(CommonAnswer),
    #[prost(message, tag = "5")]
    RequestTrailers(TrailersAnswer),
    #[prost(message, tag = "6")]
    ResponseTrailers(TrailersAnswer),
    #[prost(message, tag = "7")]
    Immediate(ImmediateResponse),
}

/// `HeadersResponse` and `BodyResponse`, which have the same field.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CommonAnswer {
    #[prost(message, optional, tag = "1")]
    pub(super) response: Option<CommonResponse>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CommonResponse {
    #[prost(message, optional, tag = "2")]
    pub(super) header_mutation: Option<HeaderMutation>,
    #[prost(message, optional, tag = "3")]
    pub(super) body_mutation: Option<BodyMutation>,
    #[prost(bool, tag = "5")]
    pub(super) clear_route_cache: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrailersAnswer {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderMutation {
    #[prost(message, repeated, tag = "1")]
    pub(super) set_headers: Vec<HeaderValueOption>,
    #[prost(string, repeated, tag = "2")]
    pub(super) remove_headers: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<HeaderValue>,
    /// `HeaderAppendAction`.
    #[prost(int32, tag = "3")]
    pub(super) append_action: i32,
}

/// `HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD`.
pub(super) const OVERWRITE: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BodyMutation {
    #[prost(message, optional, tag = "3")]
    pub(super) streamed_response: Option<StreamedBodyResponse>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StreamedBodyResponse {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) body: prost::bytes::Bytes,
    #[prost(bool, tag = "2")]
    pub(super) end_of_stream: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ImmediateResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<HttpStatus>,
    #[prost(message, optional, tag = "2")]
    pub(super) headers: Option<HeaderMutation>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) body: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) details: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct HttpStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
}
