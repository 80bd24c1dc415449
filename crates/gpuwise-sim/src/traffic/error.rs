/// Why traffic cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrafficError {
    /// A number is out of its range.
    #[error("{what} is {value}; expected {expected}")]
    Number {
        what: &'static str,
        value: f64,
        expected: &'static str,
    },
    /// Nothing would ever be sent.
    #[error("every rate is 0: no request would ever be sent")]
    NoRate,
    /// A list that must hold something.
    #[error("there are no {0}")]
    Nothing(&'static str),
    /// It would go on forever.
    #[error("traffic at a rate without an end: say how many requests or how long")]
    Endless,
}

impl TrafficError {
    /// That a number is within its range.
    pub(super) fn range(
        what: &'static str,
        value: f64,
        range: std::ops::RangeInclusive<f64>,
        expected: &'static str,
    ) -> Result<(), Self> {
        if range.contains(&value) {
            Ok(())
        } else {
            Err(Self::Number {
                what,
                value,
                expected,
            })
        }
    }
}
