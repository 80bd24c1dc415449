//! The grammar of selectors, a part of CEL's.

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    Text(String),
    Int(i64),
    Bool(bool),
    List(Vec<Expr>),
    Name(String),
    /// `a.b`, or `a["b"]`.
    Member(Box<Expr>, String),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Compare(&'static str, Box<Expr>, Box<Expr>),
    /// A function, or a method of something.
    Call(Option<Box<Expr>>, String, Vec<Expr>),
}

/// More of a selector in one another is not read.
const DEEPEST: u32 = 32;

/// Longest first.
const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

/// `None`: it is not of this grammar.
pub(super) fn parse(text: &str) -> Option<Expr> {
    let mut rest = Rest { text, depth: 0 };
    let found = rest.or()?;
    rest.space();
    rest.text.is_empty().then_some(found)
}

struct Rest<'a> {
    text: &'a str,
    depth: u32,
}

impl Rest<'_> {
    fn space(&mut self) {
        self.text = self.text.trim_start();
    }

    fn eat(&mut self, sign: &str) -> bool {
        self.space();
        let rest = self.text.strip_prefix(sign);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    fn or(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut found = self.and()?;
        while self.eat("||") {
            found = Expr::Or(Box::new(found), Box::new(self.and()?));
        }
        self.depth -= 1;
        Some(found)
    }

    fn and(&mut self) -> Option<Expr> {
        let mut found = self.comparison()?;
        while self.eat("&&") {
            found = Expr::And(Box::new(found), Box::new(self.comparison()?));
        }
        Some(found)
    }

    fn comparison(&mut self) -> Option<Expr> {
        let one = self.unary()?;
        if let Some(how) = COMPARISONS.into_iter().find(|how| self.eat(how)) {
            return Some(Expr::Compare(how, Box::new(one), Box::new(self.unary()?)));
        }
        self.space();
        let within = self.text.strip_prefix("in");
        match within.filter(|rest| rest.starts_with([' ', '[', '('])) {
            Some(rest) => {
                self.text = rest;
                Some(Expr::Compare("in", Box::new(one), Box::new(self.unary()?)))
            }
            None => Some(one),
        }
    }

    fn unary(&mut self) -> Option<Expr> {
        let mut denied = false;
        while self.eat("!") {
            denied = !denied;
        }
        let one = self.primary()?;
        let one = self.postfix(one)?;
        Some(if denied {
            Expr::Not(Box::new(one))
        } else {
            one
        })
    }

    fn postfix(&mut self, mut one: Expr) -> Option<Expr> {
        loop {
            if self.eat(".") {
                let name = self.name()?;
                one = if self.eat("(") {
                    Expr::Call(Some(Box::new(one)), name, self.listed(")")?)
                } else {
                    Expr::Member(Box::new(one), name)
                };
            } else if self.eat("[") {
                let Expr::Text(key) = self.or()? else {
                    return None;
                };
                if !self.eat("]") {
                    return None;
                }
                one = Expr::Member(Box::new(one), key);
            } else {
                return Some(one);
            }
        }
    }

    fn primary(&mut self) -> Option<Expr> {
        if self.eat("(") {
            let found = self.or()?;
            return self.eat(")").then_some(found);
        }
        if self.eat("[") {
            return self.listed("]").map(Expr::List);
        }
        for quote in ["\"", "'"] {
            if self.eat(quote) {
                let (text, rest) = self.text.split_once(quote)?;
                self.text = rest;
                // An escape would have to be read.
                return (!text.contains('\\')).then(|| Expr::Text(text.to_owned()));
            }
        }
        let digits = self.text.strip_prefix('-').unwrap_or(self.text);
        if digits.starts_with(|c: char| c.is_ascii_digit()) {
            let sign = self.text.len() - digits.len();
            let end = digits.find(|c: char| !c.is_ascii_digit());
            let (number, rest) = self.text.split_at(sign + end.unwrap_or(digits.len()));
            self.text = rest;
            return number.parse().ok().map(Expr::Int);
        }
        let name = self.name()?;
        Some(match name.as_str() {
            "true" => Expr::Bool(true),
            "false" => Expr::Bool(false),
            _ if self.eat("(") => Expr::Call(None, name, self.listed(")")?),
            _ => Expr::Name(name),
        })
    }

    fn name(&mut self) -> Option<String> {
        self.space();
        let end = self
            .text
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = self.text.split_at(end.unwrap_or(self.text.len()));
        self.text = rest;
        let begins = name.starts_with(|c: char| !c.is_ascii_digit());
        begins.then(|| name.to_owned())
    }

    /// What stands with commas until a sign.
    fn listed(&mut self, end: &str) -> Option<Vec<Expr>> {
        let mut all = Vec::new();
        if self.eat(end) {
            return Some(all);
        }
        loop {
            all.push(self.or()?);
            if self.eat(end) {
                return Some(all);
            }
            if !self.eat(",") {
                return None;
            }
        }
    }
}
