//! Documents as mirrors of nouns: one list of fields gives the form and both directions.

/// A document type and the noun that it is the form of: what is read back is what was written.
pub trait Mirror: Sized {
    /// The noun.
    type Noun;
    /// Its form.
    fn of(noun: &Self::Noun) -> Self;
    /// The noun again.
    fn noun(self) -> Self::Noun;
}

macro_rules! same {
    ($($kind:ty),*) => {$(
        impl Mirror for $kind {
            type Noun = Self;
            fn of(noun: &Self) -> Self {
                noun.clone()
            }
            fn noun(self) -> Self {
                self
            }
        }
    )*};
}
same!(bool, i32, i64, u8, u16, u32, u64, String);

impl<M: Mirror> Mirror for Option<M> {
    type Noun = Option<M::Noun>;
    fn of(noun: &Self::Noun) -> Self {
        noun.as_ref().map(M::of)
    }
    fn noun(self) -> Self::Noun {
        self.map(M::noun)
    }
}

impl<M: Mirror, const N: usize> Mirror for [M; N] {
    type Noun = [M::Noun; N];
    fn of(noun: &Self::Noun) -> Self {
        noun.each_ref().map(M::of)
    }
    fn noun(self) -> Self::Noun {
        self.map(M::noun)
    }
}

impl<M: Mirror> Mirror for Vec<M> {
    type Noun = Vec<M::Noun>;
    fn of(noun: &Self::Noun) -> Self {
        noun.iter().map(M::of).collect()
    }
    fn noun(self) -> Self::Noun {
        self.into_iter().map(M::noun).collect()
    }
}

/// A struct: `key (field of the noun): type of the document`.
macro_rules! document {
    ($(#[$doc:meta])* pub $($rest:tt)*) => {
        crate::mirror::document! { @ (pub) $(#[$doc])* $($rest)* }
    };
    (@ ($($vis:tt)*) $(#[$doc:meta])* $name:ident = $noun:ident {
        $($(#[$field_doc:meta])* $key:ident ($field:ident): $kind:ty,)*
    }) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        $(#[$doc])*
        #[serde(deny_unknown_fields)]
        #[allow(clippy::struct_field_names, reason = "keys of documents name their units")]
        $($vis)* struct $name {
            $($(#[$field_doc])* pub(crate) $key: $kind,)*
        }

        impl crate::mirror::Mirror for $name {
            type Noun = $noun;
            fn of(noun: &$noun) -> Self {
                Self { $($key: crate::mirror::Mirror::of(&noun.$field),)* }
            }
            fn noun(self) -> $noun {
                $noun { $($field: crate::mirror::Mirror::noun(self.$key),)* }
            }
        }
    };
    ($($rest:tt)*) => {
        crate::mirror::document! { @ (pub(crate)) $($rest)* }
    };
}

/// An enumeration by its words.
macro_rules! words {
    ($(#[$doc:meta])* pub $($rest:tt)*) => {
        crate::mirror::words! { @ (pub) $(#[$doc])* $($rest)* }
    };
    (@ ($($vis:tt)*) $(#[$doc:meta])* $name:ident = $noun:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $word:tt,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        $($vis)* enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl crate::mirror::Mirror for $name {
            type Noun = $noun;
            fn of(noun: &$noun) -> Self {
                match noun { $($noun::$variant => Self::$variant,)* }
            }
            fn noun(self) -> $noun {
                match self { $(Self::$variant => $noun::$variant,)* }
            }
        }
    };
    ($($rest:tt)*) => {
        crate::mirror::words! { @ (pub(crate)) $($rest)* }
    };
}

/// An enumeration with fields: `Variant { key (field of the noun): type of the document }`; the field
/// of a tuple is its number.
macro_rules! variants {
    ($(#[$doc:meta])* pub $($rest:tt)*) => {
        crate::mirror::variants! { @ (pub) $(#[$doc])* $($rest)* }
    };
    (@ ($($vis:tt)*) $(#[$doc:meta])* $name:ident = $noun:ident {
        $($(#[$variant_doc:meta])* $variant:ident {
            $($(#[$field_doc:meta])* $key:ident ($field:tt): $kind:ty,)*
        })*
    }) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        $(#[$doc])*
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        $($vis)* enum $name {
            $($(#[$variant_doc])* $variant { $($(#[$field_doc])* $key: $kind,)* },)*
        }

        impl crate::mirror::Mirror for $name {
            type Noun = $noun;
            fn of(noun: &$noun) -> Self {
                match noun {$(
                    $noun::$variant { $($field: $key,)* } => Self::$variant {
                        $($key: crate::mirror::Mirror::of($key),)*
                    },
                )*}
            }
            fn noun(self) -> $noun {
                match self {$(
                    Self::$variant { $($key,)* } => $noun::$variant {
                        $($field: crate::mirror::Mirror::noun($key),)*
                    },
                )*}
            }
        }
    };
    ($($rest:tt)*) => {
        crate::mirror::variants! { @ (pub(crate)) $($rest)* }
    };
}

/// A form that is written and never read back: `key: type = value`, of a noun by the name it has here.
macro_rules! written {
    ($(#[$doc:meta])* $vis:vis $name:ident = |$noun:tt: $kind:ty| {
        $($(#[$field_doc:meta])* $key:ident: $field:ty = $value:expr,)*
    }) => {
        #[derive(serde::Serialize, utoipa::ToSchema)]
        $(#[$doc])*
        $vis struct $name {
            $($(#[$field_doc])* $key: $field,)*
        }

        impl From<$kind> for $name {
            fn from($noun: $kind) -> Self {
                Self { $($key: $value,)* }
            }
        }
    };
}

/// The forms of some nouns, in their order.
pub(crate) fn forms<N, D: From<N>>(nouns: impl IntoIterator<Item = N>) -> Vec<D> {
    nouns.into_iter().map(D::from).collect()
}

pub(crate) use {document, variants, words, written};
