//! Formulas that engines compute defaults by: `min(max(max_model_len, 2048), 8192)`.
//!
//! Numbers, names, `+ - * /` and `//` (rounded down), brackets, and the functions `min`, `max`,
//! `int` and `round` (with a number of decimals). `GiB` behind a number makes it MiB.

/// Brackets within brackets, at most.
const DEEPEST: u32 = 16;

/// The value of a formula; `None` where it is none, or a name is unknown.
pub(super) fn evaluate(formula: &str, value_of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
    let mut parser = Parser {
        rest: formula,
        value_of,
        depth: 0,
    };
    let value = parser.sum()?;
    parser.rest.trim().is_empty().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
    value_of: &'a dyn Fn(&str) -> Option<f64>,
    depth: u32,
}

impl<'a> Parser<'a> {
    /// Takes a sign if it comes next.
    fn take(&mut self, sign: &str) -> bool {
        match self.rest.trim_start().strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Option<f64> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value += self.product()?;
            } else if self.take("-") {
                value -= self.product()?;
            } else {
                return Some(value);
            }
        }
    }

    fn product(&mut self) -> Option<f64> {
        let mut value = self.factor()?;
        loop {
            if self.take("*") {
                value *= self.factor()?;
            } else if self.take("//") {
                value = libm::floor(value / self.factor()?);
            } else if self.take("/") {
                value /= self.factor()?;
            } else {
                return Some(value);
            }
        }
    }

    fn factor(&mut self) -> Option<f64> {
        if self.take("(") {
            return self.within(Self::sum);
        }
        let word = self.word();
        if let Ok(number) = word.parse::<f64>() {
            return Some(if self.take("GiB") {
                number * 1024.0
            } else {
                number
            });
        }
        if word.is_empty() || !self.take("(") {
            return (self.value_of)(word);
        }
        self.within(|parser| {
            let mut value = parser.sum()?;
            while parser.take(",") {
                let next = parser.sum()?;
                value = match word {
                    "min" => value.min(next),
                    "max" => value.max(next),
                    "round" => rounded(value, next),
                    _ => return None,
                };
            }
            match word {
                "int" => Some(libm::trunc(value)),
                "min" | "max" | "round" => Some(value),
                _ => None,
            }
        })
    }

    /// What stands in brackets, the first of which is taken.
    fn within(&mut self, inner: impl FnOnce(&mut Self) -> Option<f64>) -> Option<f64> {
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let value = inner(self)?;
        self.depth -= 1;
        self.take(")").then_some(value)
    }

    /// A name or number.
    fn word(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        self.rest = rest;
        word
    }
}

fn rounded(value: f64, decimals: f64) -> f64 {
    let scale = libm::pow(10.0, decimals);
    libm::round(value * scale) / scale
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn formulas() {
        let names = |name: &str| match name {
            "M" => Some(81920.0),
            "tp" => Some(2.0),
            "kv_tokens" => Some(f64::INFINITY),
            _ => None,
        };
        for (formula, expected) in [
            ("2", Some(2.0)),
            ("1 + 2*3 - 4/2", Some(5.0)),
            ("7//2*2", Some(6.0)),
            ("(M - 16 GiB) / M", Some(0.8)),
            ("round(1/3, 3)", Some(0.333)),
            (
                "min(max(int(kv_tokens/8192*512), 2048), 4096)",
                Some(4096.0),
            ),
            ("512 + 128*tp", Some(768.0)),
            ("", None),
            ("max(", None),
            ("2 2", None),
            ("unknown + 1", None),
            ("sin(1)", None),
        ] {
            assert_eq!(evaluate(formula, &names), expected, "{formula}");
        }
        assert_eq!(evaluate(&"(".repeat(100_000), &names), None);
    }
}
