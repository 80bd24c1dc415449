//! Notes on plans for networks without autoregression.

use core::fmt;

/// What a plan for such a network rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaNote {
    /// How requests come and how replicas take them.
    RandomArrivals,
    /// What a format of 8 bits covers.
    EightBits,
}

impl fmt::Display for MediaNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RandomArrivals => {
                "arrivals are Poisson; replicas share a queue and take what waits, up to a batch"
            }
            Self::EightBits => {
                "8 bits: the main part alone, attention at 16; what that costs in quality is not known here"
            }
        })
    }
}
