//! Which column or path of a log holds what: as the user maps it, or by the names that gateways,
//! engines and client libraries use.

use super::AccessLogError;

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Field:
        name
    {
        Arrival = "arrival",
        /// Tokens of its prompt.
        Input = "isl",
        Output = "osl",
        /// Prompt tokens found in the prefix cache.
        Cached = "cached",
        /// The conversation that it is part of.
        Session = "session",
        Tenant = "tenant",
        /// The model that it asked for.
        Model = "model",
        /// The HTTP status of its answer.
        Status = "status",
    }
}

impl Field {
    /// Names under which it usually stands, best first.
    pub(super) fn usual(self) -> impl Iterator<Item = &'static str> {
        let of = |line: &'static str| {
            Some(line.split_once(": ")?).filter(|(key, _)| *key == self.name())
        };
        let names = USUAL.lines().find_map(of).map_or("", |(_, names)| names);
        names.split(' ')
    }
}

/// Names under which fields usually stand: `field: names`, best first; dots lead into objects.
const USUAL: &str = include_str!("fields.txt");

/// Where the user says that fields stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    /// (field, column or path), each field once.
    pub given: Vec<(Field, String)>,
}

impl Mapping {
    /// Reads `arrival=ts,isl=usage.prompt_tokens`.
    ///
    /// # Errors
    /// When a part is no `field=column`, or a field is unknown or stands twice.
    pub fn read(text: &str) -> Result<Self, AccessLogError> {
        let mut given: Vec<(Field, String)> = Vec::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let wrong = |problem: &str| AccessLogError::Mapping(format!("{part:?} {problem}"));
            let (name, column) = part
                .split_once('=')
                .map(|(name, column)| (name.trim(), column.trim()))
                .filter(|(_, column)| !column.is_empty())
                .ok_or_else(|| wrong("is no FIELD=COLUMN"))?;
            let field = Field::ALL
                .into_iter()
                .find(|field| field.name() == name)
                .ok_or_else(|| wrong("names no field that is read"))?;
            if given.iter().any(|(known, _)| *known == field) {
                return Err(wrong("maps a field that is mapped already"));
            }
            given.push((field, column.into()));
        }
        Ok(Self { given })
    }

    /// Where a field stands, if the user says so.
    pub fn column(&self, field: Field) -> Option<&str> {
        self.given
            .iter()
            .find(|(known, _)| *known == field)
            .map(|(_, column)| column.as_str())
    }
}
