//! The columns, each declared once.

use super::Decimal;
use crate::period::moment;
use gpuwise_units::Nanoseconds;

/// A moment as FOCUS writes it: whole seconds in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub Nanoseconds);

/// What a column holds, as text; nothing is the null of a CSV file.
trait Shown {
    fn shown(&self) -> String;
}

impl Shown for String {
    fn shown(&self) -> String {
        self.clone()
    }
}

impl Shown for Decimal {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for Moment {
    fn shown(&self) -> String {
        moment(self.0)
    }
}

impl<T: Shown> Shown for Option<T> {
    fn shown(&self) -> String {
        self.as_ref().map_or_else(String::new, Shown::shown)
    }
}

macro_rules! columns {
    ($($(#[$doc:meta])* $field:ident: $kind:ty = $column:literal,)*) => {
        /// A row: a charge.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Row {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl Row {
            /// The columns' names, in order.
            pub const COLUMNS: [&str; [$($column),*].len()] = [$($column),*];

            /// The row's cells, in the order of the columns.
            pub fn cells(&self) -> [String; Self::COLUMNS.len()] {
                [$(self.$field.shown()),*]
            }
        }
    };
}

columns! {
    billed_cost: Decimal = "BilledCost",
    billing_account_id: String = "BillingAccountId",
    billing_account_name: String = "BillingAccountName",
    billing_currency: String = "BillingCurrency",
    billing_period_end: Moment = "BillingPeriodEnd",
    billing_period_start: Moment = "BillingPeriodStart",
    capacity_reservation_id: Option<String> = "CapacityReservationId",
    capacity_reservation_status: Option<String> = "CapacityReservationStatus",
    charge_category: String = "ChargeCategory",
    /// `Correction` for months that were stated before.
    charge_class: Option<String> = "ChargeClass",
    charge_description: String = "ChargeDescription",
    charge_frequency: String = "ChargeFrequency",
    charge_period_end: Moment = "ChargePeriodEnd",
    charge_period_start: Moment = "ChargePeriodStart",
    commitment_discount_category: Option<String> = "CommitmentDiscountCategory",
    commitment_discount_id: Option<String> = "CommitmentDiscountId",
    commitment_discount_name: Option<String> = "CommitmentDiscountName",
    commitment_discount_quantity: Option<Decimal> = "CommitmentDiscountQuantity",
    commitment_discount_status: Option<String> = "CommitmentDiscountStatus",
    commitment_discount_type: Option<String> = "CommitmentDiscountType",
    commitment_discount_unit: Option<String> = "CommitmentDiscountUnit",
    consumed_quantity: Option<Decimal> = "ConsumedQuantity",
    consumed_unit: Option<String> = "ConsumedUnit",
    contracted_cost: Decimal = "ContractedCost",
    contracted_unit_price: Option<Decimal> = "ContractedUnitPrice",
    effective_cost: Decimal = "EffectiveCost",
    invoice_id: Option<String> = "InvoiceId",
    invoice_issuer_name: String = "InvoiceIssuerName",
    list_cost: Decimal = "ListCost",
    list_unit_price: Option<Decimal> = "ListUnitPrice",
    pricing_category: Option<String> = "PricingCategory",
    /// Prices are in the currency of the bill; these columns are there for readers that ask for them.
    pricing_currency: String = "PricingCurrency",
    pricing_currency_contracted_unit_price: Option<Decimal> = "PricingCurrencyContractedUnitPrice",
    pricing_currency_effective_cost: Decimal = "PricingCurrencyEffectiveCost",
    pricing_currency_list_unit_price: Option<Decimal> = "PricingCurrencyListUnitPrice",
    pricing_quantity: Option<Decimal> = "PricingQuantity",
    pricing_unit: Option<String> = "PricingUnit",
    provider_name: String = "ProviderName",
    publisher_name: String = "PublisherName",
    region_id: Option<String> = "RegionId",
    region_name: Option<String> = "RegionName",
    /// The lease.
    resource_id: Option<String> = "ResourceId",
    resource_name: Option<String> = "ResourceName",
    resource_type: Option<String> = "ResourceType",
    service_category: String = "ServiceCategory",
    service_name: String = "ServiceName",
    service_subcategory: String = "ServiceSubcategory",
    sku_id: Option<String> = "SkuId",
    sku_meter: Option<String> = "SkuMeter",
    sku_price_details: Option<String> = "SkuPriceDetails",
    sku_price_id: Option<String> = "SkuPriceId",
    /// The tenant.
    sub_account_id: String = "SubAccountId",
    sub_account_name: String = "SubAccountName",
    tags: Option<String> = "Tags",
    gpu: Option<String> = "x_GpuModel",
    devices: Option<Decimal> = "x_GpuDevices",
    isolation: Option<String> = "x_Isolation",
    class: Option<String> = "x_LeaseClass",
    granted_compute: Option<Decimal> = "x_GrantedComputeFraction",
    granted_memory: Option<Decimal> = "x_GrantedMemoryFraction",
    /// Hours of the part that was granted, over all devices.
    granted_hours: Option<Decimal> = "x_GrantedHours",
    /// Hours that minimum and steps of the price add.
    added_hours: Option<Decimal> = "x_AddedHours",
    /// Hours for which others had what was kept for the lease.
    lent_hours: Option<Decimal> = "x_LentHours",
    /// The share of what they pay for it that is earned.
    lent_share: Option<Decimal> = "x_LentShare",
    /// GPU-hours in which multiprocessors worked.
    used_hours: Option<Decimal> = "x_UsedComputeHours",
    /// Hours for which that was measured.
    measured_hours: Option<Decimal> = "x_MeasuredHours",
    /// Hours of the granted ones in which what was to run was still starting.
    start_hours: Option<Decimal> = "x_StartupHours",
    idle_share: Option<Decimal> = "x_IdleShare",
    used_memory: Option<Decimal> = "x_UsedMemoryGibibyteHours",
    energy: Option<Decimal> = "x_EnergyKilowattHours",
    tokens_in: Option<Decimal> = "x_TokensIn",
    tokens_out: Option<Decimal> = "x_TokensOut",
    unpriced: Option<String> = "x_UnpricedReason",
}
