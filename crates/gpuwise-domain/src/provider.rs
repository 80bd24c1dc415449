//! Who has the machines of an answer.

use alloc::string::String;
use core::fmt;

/// Who has the GPUs that something runs on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provider {
    /// One's own hosts: nothing more is paid for them.
    Owned,
    /// What runs already, at the price that is paid for it.
    Running,
    /// Somebody who rents them out, by name.
    Named(String),
}

impl Provider {
    /// The name in documents, tables and flags.
    pub fn name(&self) -> &str {
        match self {
            Self::Owned => "owned",
            Self::Running => "running",
            Self::Named(name) => name,
        }
    }

    /// Whether the GPUs are one's own.
    pub fn is_owned(&self) -> bool {
        *self == Self::Owned
    }
}

impl From<String> for Provider {
    fn from(name: String) -> Self {
        [Self::Owned, Self::Running]
            .into_iter()
            .find(|known| known.name() == name)
            .unwrap_or(Self::Named(name))
    }
}

impl From<&str> for Provider {
    fn from(name: &str) -> Self {
        String::from(name).into()
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq<Provider> for String {
    fn eq(&self, other: &Provider) -> bool {
        self == other.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_once() {
        for provider in [
            Provider::Owned,
            Provider::Running,
            Provider::Named("aws".into()),
        ] {
            assert_eq!(Provider::from(provider.name()), provider);
            assert_eq!(String::from(provider.name()), provider);
        }
        assert!(Provider::from("owned").is_owned() && !Provider::from("aws").is_owned());
    }
}
