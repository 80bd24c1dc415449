//! Printed formulas, evaluated from what is printed of their inputs: a reader of its own, which knows
//! nothing of how they were made.

/// Everything that a printed number may stand for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Span {
    const fn exact(value: f64) -> Self {
        let (low, high) = (value, value);
        Self { low, high }
    }

    fn of(corners: impl IntoIterator<Item = f64>) -> Self {
        let mut span = Self {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
        };
        for corner in corners {
            span.low = span.low.min(corner);
            span.high = span.high.max(corner);
        }
        span
    }

    /// By every combination of ends: what is printed is monotonic in each input.
    fn with(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self::of([
            f(self.low, other.low),
            f(self.low, other.high),
            f(self.high, other.low),
            f(self.high, other.high),
        ])
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        let slack = 1e-9 * (self.high.abs() + other.high.abs());
        self.low <= other.high + slack && other.low <= self.high + slack
    }
}

/// A printed figure such as `26.1 ms (22–31)`, `short by 1.2 GiB`, `131,072 tokens` in base units.
pub(crate) fn printed(text: &str) -> Option<Span> {
    let (sign, text) = match text.strip_prefix("short by ") {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '-')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let plain = number.replace(',', "");
    let value: f64 = plain.parse().ok()?;
    let unit = unit.split('(').next().unwrap_or("").trim();
    let scale = match unit {
        "" | "tokens" | "B" | "W" | "requests/s" | "concurrent requests" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "kFLOP" => 1e3,
        "GB/s" | "GFLOP" => 1e9,
        "TFLOP/s" => 1e12,
        money if money.ends_with("/h") => 1.0,
        _ => return None,
    };
    let half = rounding(&plain, value);
    Some(Span::of([
        sign * (value - half) * scale,
        sign * (value + half) * scale,
    ]))
}

/// Half of the last place, where at least three digits are known to be right.
fn rounding(plain: &str, value: f64) -> f64 {
    if value == 0.0 {
        return 0.5e-9;
    }
    let places = |count: usize| i32::try_from(count).unwrap_or(0);
    let last = if let Some((_, decimals)) = plain.split_once('.') {
        -places(decimals.len())
    } else {
        places(plain.len() - plain.trim_end_matches('0').len())
    };
    let third = value.abs().log10().floor() as i32 - 2;
    0.5 * 10f64.powi(last.min(third))
}

/// Evaluates a formula over named inputs.
///
/// # Errors
/// What could not be read.
pub(crate) fn evaluate(formula: &str, inputs: &[(String, Span)]) -> Result<Span, String> {
    let mut names: Vec<&(String, Span)> = inputs.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let mut reader = Reader {
        rest: formula,
        names,
    };
    let value = reader.sum()?;
    if reader.rest.trim().is_empty() {
        Ok(value)
    } else {
        Err(format!("{:?} is left of {formula:?}", reader.rest))
    }
}

struct Reader<'a> {
    rest: &'a str,
    /// The longest first.
    names: Vec<&'a (String, Span)>,
}

impl Reader<'_> {
    fn takes(&mut self, sign: &str) -> bool {
        let trimmed = self.rest.trim_start();
        let Some(rest) = trimmed.strip_prefix(sign) else {
            return false;
        };
        self.rest = rest;
        true
    }

    fn sum(&mut self) -> Result<Span, String> {
        let mut value = self.product()?;
        loop {
            if self.takes("+") {
                value = value.with(self.product()?, |a, b| a + b);
            } else if self.takes("−") {
                value = value.with(self.product()?, |a, b| a - b);
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<Span, String> {
        let mut value = self.power()?;
        loop {
            if self.takes("×") {
                value = value.with(self.power()?, |a, b| a * b);
            } else if self.takes("÷") {
                value = value.with(self.power()?, |a, b| a / b);
            } else {
                return Ok(value);
            }
        }
    }

    fn power(&mut self) -> Result<Span, String> {
        let value = self.atom()?;
        if self.takes("^") {
            return Ok(value.with(self.power()?, f64::powf));
        }
        Ok(value)
    }

    fn atom(&mut self) -> Result<Span, String> {
        self.rest = self.rest.trim_start();
        let named = self
            .names
            .iter()
            .find(|(name, _)| self.rest.starts_with(name.as_str()));
        if let Some((name, value)) = named {
            self.rest = &self.rest[name.len()..];
            return Ok(*value);
        }
        if self.takes("(") {
            let value = self.sum()?;
            return self.closed(value);
        }
        for (function, f) in [
            ("max(", f64::max as fn(f64, f64) -> f64),
            ("min(", f64::min),
        ] {
            if self.takes(function) {
                let one = self.sum()?;
                if !self.takes(",") {
                    return Err(format!("no comma before {:?}", self.rest));
                }
                let other = self.sum()?;
                return self.closed(one.with(other, f));
            }
        }
        for (function, f) in [
            ("floor(", f64::floor as fn(f64) -> f64),
            ("ceil(", f64::ceil),
        ] {
            if self.takes(function) {
                let one = self.sum()?;
                return self.closed(Span::of([f(one.low), f(one.high)]));
            }
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',')))
            .unwrap_or(self.rest.len());
        let number = self.rest[..end].trim_end_matches(',');
        let value = number
            .replace(',', "")
            .parse()
            .map_err(|_| format!("{:?} is neither an input nor a number", self.rest))?;
        self.rest = &self.rest[number.len()..];
        Ok(Span::exact(value))
    }

    fn closed(&mut self, value: Span) -> Result<Span, String> {
        if self.takes(")") {
            Ok(value)
        } else {
            Err(format!("not closed before {:?}", self.rest))
        }
    }
}

#[test]
fn what_is_printed_is_read() {
    let inputs = [
        ("peak of 16-bit".to_owned(), Span::exact(6.0)),
        ("peak".to_owned(), Span::exact(2.0)),
    ];
    let check = |formula: &str, value: f64| {
        assert_eq!(
            evaluate(formula, &inputs),
            Ok(Span::exact(value)),
            "{formula}"
        );
    };
    check("peak of 16-bit ÷ peak − 1", 2.0);
    check("max(peak^3, 1,000) + floor(peak ÷ 4 × 3)", 1001.0);
    check("2 × (peak + 1)", 6.0);
    assert!(evaluate("peak + unknown", &inputs).is_err());
    let near = |text: &str, low: f64, high: f64| {
        let span = printed(text).expect("a figure");
        assert!(
            (span.low - low).abs() < 1e-9 && (span.high - high).abs() < 1e-9,
            "{text}: {span:?}"
        );
    };
    near("26.1 ms (22–31)", 0.02605, 0.02615);
    near("32", 31.95, 32.05);
    near("12,300 tokens", 12_250.0, 12_350.0);
    assert_eq!(printed("unknown"), None);
}
