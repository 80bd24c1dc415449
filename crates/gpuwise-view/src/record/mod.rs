//! Nouns as records: one list of fields gives JSON, its schema, CSV and what people see.
//!
//! A noun says its fields once, each with its key and how its value is found. The kind of a value is
//! that of its Rust type, so what a program may expect follows from the declaration and is true of
//! every answer. A field that people see too has a [`Column`] with a heading.

mod kind;
mod rows;
mod schema;

pub use kind::{Datum, Kind};
pub use rows::{Shown, table};
pub use schema::{document_schema, rows_schema};

use crate::table::{Align, Column};
use serde_json::{Map, Value};

/// A noun that programs and people read.
pub trait Record: Sized {
    const NAME: &'static str;

    /// Says its fields, in order.
    fn fields(of: &mut Fields<'_, Self>);
}

/// A field: of a noun its value, of a kind of noun only what it is.
#[derive(Debug, Clone)]
pub struct Field {
    key: &'static str,
    kind: Kind,
    value: Value,
    /// Fields of what lies in it, where that is one object.
    inner: Vec<Field>,
    /// Its columns do without the field's own key.
    grouped: bool,
    seen: Option<(Column, Shown)>,
}

/// Where a noun says its fields.
#[derive(Debug)]
pub struct Fields<'a, T> {
    noun: Option<&'a T>,
    list: Vec<Field>,
}

impl<'a, T> Fields<'a, T> {
    fn of(noun: Option<&'a T>) -> Vec<Field>
    where
        T: Record,
    {
        let mut fields = Self {
            noun,
            list: Vec::new(),
        };
        T::fields(&mut fields);
        fields.list
    }

    /// The noun, where it is one and not its kind that is described.
    pub const fn noun(&self) -> Option<&'a T> {
        self.noun
    }

    fn push(&mut self, key: &'static str, kind: Kind, value: Value) -> &mut Field {
        self.list.push(Field {
            key,
            kind,
            value,
            inner: Vec::new(),
            grouped: false,
            seen: None,
        });
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    pub fn field<D: Datum>(
        &mut self,
        key: &'static str,
        get: impl FnOnce(&'a T) -> D,
    ) -> &mut Field {
        let value = self.noun.map_or(Value::Null, |noun| get(noun).value());
        self.push(key, D::kind(), value)
    }

    /// A value that people see too, in a column with this heading.
    pub fn column<D: Datum>(
        &mut self,
        key: &'static str,
        title: &str,
        get: impl FnOnce(&'a T) -> D,
    ) -> &mut Field {
        self.field(key, get).title(title)
    }

    /// An object; its columns begin with its key.
    pub fn part<U: Record>(
        &mut self,
        key: &'static str,
        get: impl for<'x> FnOnce(&'x T) -> &'x U,
    ) -> &mut Field {
        let inner = Fields::of(self.noun.map(get));
        let field = self.push(key, Kind::of::<U>(), object(&inner));
        field.inner = inner;
        field
    }

    /// An object whose columns need no prefix: they say themselves what they are.
    pub fn group<U: Record>(
        &mut self,
        key: &'static str,
        get: impl for<'x> FnOnce(&'x T) -> &'x U,
    ) {
        self.part(key, get).grouped();
    }

    /// An object that may be missing; its columns begin with its key.
    pub fn maybe<U: Record>(
        &mut self,
        key: &'static str,
        get: impl for<'x> FnOnce(&'x T) -> Option<&'x U>,
    ) -> &mut Field {
        let noun = self.noun.and_then(get);
        let inner = Fields::of(noun);
        let value = noun.map_or(Value::Null, |_| object(&inner));
        let field = self.push(key, Kind::Maybe(Box::new(Kind::of::<U>())), value);
        field.inner = inner;
        field
    }

    /// Objects, which no row of a table has room for.
    pub fn list<U: Record>(
        &mut self,
        key: &'static str,
        get: impl for<'x> FnOnce(&'x T) -> &'x [U],
    ) {
        let value = self.noun.map_or(Value::Null, |noun| values(get(noun)));
        self.push(key, Kind::List(Box::new(Kind::of::<U>())), value);
    }

    /// The same of objects that are made for it.
    pub fn made<U: Record>(&mut self, key: &'static str, get: impl FnOnce(&'a T) -> Vec<U>) {
        let value = self.noun.map_or(Value::Null, |noun| values(&get(noun)));
        self.push(key, Kind::List(Box::new(Kind::of::<U>())), value);
    }

    /// An object that is made for it; its columns begin with its key.
    pub fn made_part<U: Record>(
        &mut self,
        key: &'static str,
        get: impl FnOnce(&'a T) -> U,
    ) -> &mut Field {
        let noun = self.noun.map(get);
        let inner = Fields::of(noun.as_ref());
        let field = self.push(key, Kind::of::<U>(), object(&inner));
        field.inner = inner;
        field
    }

    /// The same where it may be missing.
    pub fn made_maybe<U: Record>(
        &mut self,
        key: &'static str,
        get: impl FnOnce(&'a T) -> Option<U>,
    ) -> &mut Field {
        let noun = self.noun.and_then(get);
        let inner = Fields::of(noun.as_ref());
        let value = noun.as_ref().map_or(Value::Null, |_| object(&inner));
        let field = self.push(key, Kind::Maybe(Box::new(Kind::of::<U>())), value);
        field.inner = inner;
        field
    }

    /// The fields of something that it holds, as its own.
    pub fn inline<U: Record>(&mut self, get: impl for<'x> FnOnce(&'x T) -> &'x U) {
        self.list.extend(Fields::of(self.noun.map(get)));
    }

    /// A column that only people see: it says again what other fields say.
    pub fn shown(&mut self, column: Column, get: impl FnOnce(&'a T) -> Shown) {
        let shown = self.noun.map_or(Shown::Missing, get);
        self.push("", Kind::People, Value::Null).seen = Some((column, shown));
    }
}

/// A noun's name in schemas and its fields, in order.
#[macro_export]
macro_rules! record {
    ($noun:ty, $name:literal, |$of:ident| $fields:block) => {
        impl $crate::record::Record for $noun {
            const NAME: &'static str = $name;

            fn fields($of: &mut $crate::record::Fields<'_, Self>) $fields
        }
    };
}

impl<T: Record> Record for &T {
    const NAME: &'static str = T::NAME;

    fn fields(of: &mut Fields<'_, Self>) {
        of.list.extend(Fields::<T>::of(of.noun.copied()));
    }
}

impl Field {
    /// Its columns begin without its key: no other field of the row has their names.
    pub fn grouped(&mut self) -> &mut Self {
        self.grouped = true;
        self
    }

    /// People see it, in a column with this heading; numbers stand to the right.
    pub fn title(&mut self, title: impl Into<String>) -> &mut Self {
        let column = if self.kind.is_number() {
            Column::right(self.key, title)
        } else {
            Column::left(self.key, title)
        };
        self.seen = Some((column, Shown::of(&self.kind, &self.value)));
        self
    }

    fn column(&mut self, change: impl FnOnce(Column) -> Column) -> &mut Self {
        if let Some((column, shown)) = self.seen.take() {
            self.seen = Some((change(column), shown));
        }
        self
    }

    pub fn unit(&mut self, unit: &str) -> &mut Self {
        self.column(|column| column.unit(unit))
    }

    /// With a priority: the lowest is left out first.
    pub fn priority(&mut self, priority: u8) -> &mut Self {
        self.column(|column| column.priority(priority))
    }

    /// May be wrapped down to so many characters.
    pub fn wrap(&mut self, least: usize) -> &mut Self {
        self.column(|column| column.wrap(least))
    }

    /// A number of seconds, in a unit that all of its column are said in.
    pub fn time(&mut self) -> &mut Self {
        let seconds = self.value.as_f64();
        self.said(seconds.map_or(Shown::Missing, |seconds| Shown::Time(seconds, "")))
    }

    /// A share of 1, in percent.
    pub fn percent(&mut self) -> &mut Self {
        self.said_of(crate::figures::percent)
    }

    /// A number in so many of its unit: bytes in 2³⁰, say.
    pub fn scaled(&mut self, size: f64) -> &mut Self {
        self.said_of(|value| crate::figures::number(value / size))
    }

    /// Bytes in GiB.
    pub fn gib(&mut self) -> &mut Self {
        let bytes = self.value.as_u64();
        let shown = bytes.map(|bytes| crate::figures::gib(gpuwise_units::Bytes::new(bytes)));
        self.said(Shown::maybe(shown)).unit("GiB")
    }

    /// A number said in another way than numbers usually are.
    pub fn said_of(&mut self, say: impl FnOnce(f64) -> String) -> &mut Self {
        let said = self.value.as_f64().map(say);
        self.said(Shown::maybe(said))
    }

    /// A text said in fewer or other words.
    pub fn said_as(&mut self, say: impl FnOnce(&str) -> String) -> &mut Self {
        let said = self.value.as_str().map(say);
        self.said(Shown::maybe(said))
    }

    /// A text that stands to the right, as numbers do.
    pub fn right(&mut self) -> &mut Self {
        self.column(|column| Column {
            align: Align::Right,
            ..column
        })
    }

    /// What people see in place of its value, be it known or not.
    pub fn seen(&mut self, shown: Option<Shown>) -> &mut Self {
        if let (Some((_, seen)), Some(shown)) = (&mut self.seen, shown) {
            *seen = shown;
        }
        self
    }

    /// Shown in another way than values of its kind usually are.
    pub fn said(&mut self, shown: impl Into<Shown>) -> &mut Self {
        if let Some((_, seen)) = &mut self.seen
            && !self.value.is_null()
        {
            *seen = shown.into();
        }
        self
    }
}

pub fn json<T: Record>(noun: &T) -> Value {
    object(&Fields::of(Some(noun)))
}

fn values<T: Record>(nouns: &[T]) -> Value {
    nouns.iter().map(json).collect()
}

fn object(fields: &[Field]) -> Value {
    let data = fields
        .iter()
        .filter(|field| !matches!(field.kind, Kind::People));
    let pairs = data.map(|field| (field.key.to_owned(), field.value.clone()));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// What a kind of noun is made of.
fn described<T: Record>() -> Vec<Field> {
    Fields::<T>::of(None)
}
