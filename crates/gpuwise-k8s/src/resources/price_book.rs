//! `GpuPriceBook`: what an hour of a GPU costs here.

use super::{Column, Condition, Resource, Rule};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Prices of GPUs by their product, as nodes are labelled with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuPriceBookSpec {
    /// In which currency, by ISO 4217.
    #[schema(pattern = "^[A-Z]{3}$")]
    pub currency: String,
    /// One price for each product.
    #[schema(min_items = 1, max_items = 64)]
    pub prices: Vec<GpuPrice>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuPrice {
    /// As the label nvidia.com/gpu.product of nodes says it.
    #[schema(min_length = 1, max_length = 63)]
    pub product: String,
    /// What one costs an hour: a decimal number with up to six places.
    #[schema(pattern = "^[0-9]{1,9}(\\.[0-9]{1,6})?$")]
    pub per_hour: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GpuPriceBookStatus {
    pub observed_generation: i64,
    /// `Accepted`: these prices count.
    pub conditions: Vec<Condition>,
}

impl GpuPrice {
    /// Millionths of the currency an hour; `None`: it is no such number.
    pub fn micros(&self) -> Option<i64> {
        let (whole, part) = self
            .per_hour
            .split_once('.')
            .unwrap_or((&self.per_hour, ""));
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if whole.is_empty() || part.len() > 6 || !digits(whole) || !digits(part) {
            return None;
        }
        let part: i64 = format!("{part:0<6}").parse().ok()?;
        whole
            .parse::<i64>()
            .ok()?
            .checked_mul(1_000_000)?
            .checked_add(part)
    }
}

impl Resource for GpuPriceBookSpec {
    type Status = GpuPriceBookStatus;
    const KIND: &'static str = "GpuPriceBook";
    const PLURAL: &'static str = "gpupricebooks";
    const SINGULAR: &'static str = "gpupricebook";
    const SHORT: &'static str = "gpb";
    const NAMESPACED: bool = false;
    const ABOUT: &'static str = "What an hour of each GPU of the cluster costs.";
    const RULES: &'static [Rule] = &[
        Rule {
            at: "",
            rule: "self.metadata.name == 'default'",
            message: "one price book counts for a cluster: it is named `default`",
        },
        Rule {
            at: "spec",
            rule: "self.prices.all(p, self.prices.exists_one(q, q.product == p.product))",
            message: "a product has one price",
        },
    ];
    const COLUMNS: &'static [Column] = &[
        Column {
            name: "Currency",
            kind: "string",
            path: ".spec.currency",
        },
        Column {
            name: "Accepted",
            kind: "string",
            path: ".status.conditions[?(@.type==\"Accepted\")].status",
        },
    ];
}
