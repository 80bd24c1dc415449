//! What KEDA and an external scaler say to one another: the messages of package `externalscaler`, by their numbers.

use std::collections::HashMap;

/// Which object is asked about, and what its trigger says.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScaledObjectRef {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) namespace: String,
    #[prost(map = "string, string", tag = "3")]
    pub(super) scaler_metadata: HashMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct IsActiveResponse {
    #[prost(bool, tag = "1")]
    pub(super) result: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetMetricSpecResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) metric_specs: Vec<MetricSpec>,
}

/// A metric and its target for a replica: old clients read the integer, newer ones the float where it is not 0.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetricSpec {
    #[prost(string, tag = "1")]
    pub(super) metric_name: String,
    #[prost(int64, tag = "2")]
    pub(super) target_size: i64,
    #[prost(double, tag = "3")]
    pub(super) target_size_float: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetMetricsRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) scaled_object_ref: Option<ScaledObjectRef>,
    #[prost(string, tag = "2")]
    pub(super) metric_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetMetricsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) metric_values: Vec<MetricValue>,
}

#[expect(clippy::struct_field_names, reason = "KEDA calls them so")]
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetricValue {
    #[prost(string, tag = "1")]
    pub(super) metric_name: String,
    #[prost(int64, tag = "2")]
    pub(super) metric_value: i64,
    #[prost(double, tag = "3")]
    pub(super) metric_value_float: f64,
}
