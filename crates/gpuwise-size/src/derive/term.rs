//! Expressions that keep what they were made of.

use super::{Amount, TermLabel};
use alloc::{
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::{
    iter::Sum,
    ops::{Add, Div, Mul, Sub},
};
use gpuwise_domain::derivation::{Derivation, Figure};
use gpuwise_units::significant;

/// A number with the expression that it is the value of.
#[derive(Debug, Clone)]
pub struct Term {
    value: f64,
    made: Arc<Made>,
}

#[derive(Debug)]
enum Made {
    Number,
    Named(TermLabel, Option<Term>),
    Two(Operator, Term, Term),
    Call(Function, Vec<Term>),
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Operator: sign {
        Plus = " + ",
        Minus = " − ",
        Times = " × ",
        Over = " ÷ ",
        Power = "^",
    }
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Function: name {
        Max = "max",
        Min = "min",
        Floor = "floor",
        Ceil = "ceil",
    }
}

impl Operator {
    /// How tightly it binds.
    const fn rank(self) -> u8 {
        match self {
            Self::Plus | Self::Minus => 1,
            Self::Times | Self::Over => 2,
            Self::Power => 3,
        }
    }
}

impl Term {
    fn new(value: f64, made: Made) -> Self {
        let made = Arc::new(made);
        Self { value, made }
    }

    /// Whether it is this number of a formula, and no input.
    fn is(&self, number: f64) -> bool {
        matches!(*self.made, Made::Number) && (self.value - number).abs() < f64::EPSILON
    }

    fn two(operator: Operator, left: Self, right: Self) -> Self {
        // What adds nothing is not printed.
        match operator {
            Operator::Plus if left.is(0.0) => return right,
            Operator::Plus | Operator::Minus if right.is(0.0) => return left,
            Operator::Times if left.is(0.0) || right.is(0.0) => return Self::number(0.0),
            Operator::Times if left.is(1.0) => return right,
            Operator::Times | Operator::Over if right.is(1.0) => return left,
            _ => {}
        }
        let (a, b) = (left.value, right.value);
        let value = match operator {
            Operator::Plus => a + b,
            Operator::Minus => a - b,
            Operator::Times => a * b,
            Operator::Over => a / b,
            Operator::Power => libm::pow(a, b),
        };
        Self::new(value, Made::Two(operator, left, right))
    }

    /// How it came about: the figure is the value of the expression that is printed beside it.
    pub fn derivation(&self) -> Derivation {
        self.derived(&mut Vec::new())
    }

    /// `above` holds what was explained already: each is explained once.
    fn derived(&self, above: &mut Vec<(String, f64)>) -> Derivation {
        let Made::Named(said, of) = &*self.made else {
            return Derivation::computed(
                "",
                significant(self.value, 3),
                self.formula(),
                Vec::new(),
            );
        };
        let value = match &said.shown {
            Some(shown) => shown.clone(),
            None => said.unit.written(self.value, said.digits),
        };
        let mut out = Derivation::fact(said.name.to_string(), value, said.source.clone());
        out.figure = Some(Figure {
            value: self.value,
            unit: said.unit,
        });
        let seen = (out.name.clone(), self.value);
        if above.contains(&seen) {
            out.source = "as above".into();
            return out;
        }
        above.push(seen);
        if let Some(of) = of {
            out.formula = of.formula();
            let mut inputs = Vec::new();
            of.inputs(&mut inputs);
            out.inputs = inputs.iter().map(|input| input.derived(above)).collect();
        }
        out
    }

    /// The named terms that its expression is over, each once, in order.
    fn inputs<'a>(&'a self, out: &mut Vec<&'a Self>) {
        match &*self.made {
            Made::Number => {}
            Made::Named(said, _) => {
                let known = out.iter().any(
                    |other| matches!(&*other.made, Made::Named(own, _) if own.name == said.name),
                );
                if !known {
                    out.push(self);
                }
            }
            Made::Two(_, left, right) => {
                left.inputs(out);
                right.inputs(out);
            }
            Made::Call(_, terms) => terms.iter().for_each(|term| term.inputs(out)),
        }
    }

    fn formula(&self) -> String {
        match &*self.made {
            Made::Number => significant(self.value, 9),
            Made::Named(said, _) => said.name.to_string(),
            Made::Two(operator, left, right) => {
                // What is taken away or divided by stands in brackets where it binds no tighter.
                let tight = !matches!(operator, Operator::Plus | Operator::Times);
                let left = left.within(operator.rank(), *operator == Operator::Power);
                let right = right.within(operator.rank(), tight);
                format!("{left}{}{right}", operator.sign())
            }
            Made::Call(function, terms) => {
                let terms: Vec<String> = terms.iter().map(Self::formula).collect();
                format!("{}({})", function.name(), terms.join(", "))
            }
        }
    }

    /// In brackets where it binds less tightly than what is around it.
    fn within(&self, rank: u8, tight: bool) -> String {
        let text = self.formula();
        match &*self.made {
            Made::Two(own, ..) if own.rank() < rank || tight && own.rank() == rank => {
                format!("({text})")
            }
            _ => text,
        }
    }
}

impl Amount for Term {
    fn number(value: f64) -> Self {
        Self::new(value, Made::Number)
    }

    fn input(value: f64, said: impl FnOnce() -> TermLabel) -> Self {
        Self::new(value, Made::Named(said(), None))
    }

    fn called(self, said: impl FnOnce() -> TermLabel) -> Self {
        if self.is(0.0) {
            return self;
        }
        Self::new(self.value, Made::Named(said(), Some(self)))
    }

    fn value(&self) -> f64 {
        self.value
    }

    fn or_more(self, other: Self) -> Self {
        let value = self.value.max(other.value);
        Self::new(value, Made::Call(Function::Max, Vec::from([self, other])))
    }

    fn or_less(self, other: Self) -> Self {
        let value = self.value.min(other.value);
        Self::new(value, Made::Call(Function::Min, Vec::from([self, other])))
    }

    fn to_power(self, exponent: Self) -> Self {
        Self::two(Operator::Power, self, exponent)
    }

    fn rounded_down(self) -> Self {
        let value = libm::floor(self.value);
        Self::new(value, Made::Call(Function::Floor, Vec::from([self])))
    }

    fn rounded_up(self) -> Self {
        let value = libm::ceil(self.value);
        Self::new(value, Made::Call(Function::Ceil, Vec::from([self])))
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $operator:ident;)*) => {$(
        impl $trait for Term {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Self::two(Operator::$operator, self, other)
            }
        }
    )*};
}
operator! {
    Add add Plus;
    Sub sub Minus;
    Mul mul Times;
    Div div Over;
}

impl Sum for Term {
    fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
        terms
            .reduce(|sum, term| sum + term)
            .unwrap_or_else(|| Self::number(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_domain::derivation::Unit;

    fn input(name: &'static str, value: f64) -> Term {
        Term::input(value, || TermLabel::new(name, Unit::Number).from("a test"))
    }

    #[test]
    fn brackets_stand_where_they_are_needed() {
        let (a, b, c) = (input("a", 6.0), input("b", 2.0), input("c", 1.0));
        let check = |term: Term, formula: &str, value: f64| {
            assert_eq!(term.formula(), formula);
            assert!((term.value - value).abs() < 1e-12, "{formula}");
        };
        check(a.clone() - (b.clone() - c.clone()), "a − (b − c)", 5.0);
        check(a.clone() - b.clone() - c.clone(), "a − b − c", 3.0);
        check((a.clone() + b.clone()) * c.clone(), "(a + b) × c", 8.0);
        check(a.clone() / (b.clone() * c.clone()), "a ÷ (b × c)", 3.0);
        check(a.clone() / b.clone() * c.clone(), "a ÷ b × c", 3.0);
        let smooth = a.clone().smooth_max(b.clone(), Term::number(2.0));
        check(smooth, "(a^2 + b^2)^(1 ÷ 2)", libm::sqrt(40.0));
        check(
            (a - b.clone()).or_more(c).rounded_down() / b,
            "floor(max(a − b, c)) ÷ b",
            2.0,
        );
    }

    #[test]
    fn a_step_is_explained_once() {
        let rate = (input("peak", 10.0) * input("share", 0.5))
            .called(|| TermLabel::new("rate", Unit::Number));
        let one = (input("x", 5.0) / rate.clone()).called(|| TermLabel::new("one", Unit::Number));
        let two = (input("y", 10.0) / rate).called(|| TermLabel::new("two", Unit::Number));
        let whole = (one + two)
            .called(|| TermLabel::new("whole", Unit::Number))
            .derivation();
        assert_eq!(
            (whole.formula.as_str(), whole.value.as_str()),
            ("one + two", "3")
        );
        assert_eq!(whole.inputs[0].inputs[1].formula, "peak × share");
        assert_eq!(whole.inputs[1].inputs[1].source, "as above");
        assert!(whole.inputs[1].inputs[1].inputs.is_empty());
    }
}
