//! When an error budget burns so fast that somebody is called.
//!
//! Factors and windows are those of Google's SRE workbook, "Alerting on SLOs", table 5-8: both windows must
//! burn, the short one so that an alert ends soon after its cause.

use crate::period::HOUR;
use gpuwise_units::{Fraction, Nanoseconds};

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Severity:
        name
    {
        /// Somebody is called now.
        Page = "page",
        /// Somebody looks at it in working hours.
        Ticket = "ticket",
    }
}

gpuwise_units::named! {
    /// By the long window.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Rule:
        name
    {
        Hour = "1h",
        SixHours = "6h",
        Day = "1d",
        ThreeDays = "3d",
    }
}

impl Rule {
    /// The burn rate from which on it is broken, in tenths; a budget of 30 days lasts 30 days at 1.
    pub const fn tenths(self) -> i64 {
        match self {
            // 2 % of the budget in an hour.
            Self::Hour => 144,
            // 5 % in six hours.
            Self::SixHours => 60,
            // 10 % in a day.
            Self::Day => 30,
            // 10 % in three days.
            Self::ThreeDays => 10,
        }
    }

    pub const fn severity(self) -> Severity {
        match self {
            Self::Hour | Self::SixHours => Severity::Page,
            Self::Day | Self::ThreeDays => Severity::Ticket,
        }
    }

    pub const fn long(self) -> Nanoseconds {
        Nanoseconds(match self {
            Self::Hour => HOUR,
            Self::SixHours => 6 * HOUR,
            Self::Day => 24 * HOUR,
            Self::ThreeDays => 72 * HOUR,
        })
    }

    /// A twelfth of the long one.
    pub const fn short(self) -> Nanoseconds {
        Nanoseconds(self.long().0 / 12)
    }
}

/// A rule and how fast the budget burns in its windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    pub rule: Rule,
    pub long: Fraction,
    pub short: Fraction,
}

impl Alert {
    pub(super) fn is_broken(&self) -> bool {
        let limit = Fraction::new(i128::from(self.rule.tenths()), 10).unwrap_or(Fraction::ONE);
        self.long > limit && self.short > limit
    }
}
