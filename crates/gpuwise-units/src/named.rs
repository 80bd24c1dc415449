//! Enumerations whose variants have names.

/// An enumeration of plain variants with what each is called beside it: the type, `ALL` of them in
/// order, and a `const fn` for each kind of name that stands behind the type's own.
///
/// ```
/// gpuwise_units::named! {
///     /// What became of it.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum State: name, title {
///         Short = "short", "fell short",
///         Open = "open", "not applied",
///     }
/// }
/// assert_eq!(State::ALL.map(State::title), ["fell short", "not applied"]);
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $kind:ident: $(#[$doc:meta])* $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$meta])*
        $vis enum $kind {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $kind {
            /// All of them, in the order in which they are listed.
            $vis const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            $(#[$doc])*
            $vis const fn $name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $kind:ident:
        $(#[$doc:meta])* $name:ident, $(#[$more_doc:meta])* $more:ident
    {
        $($(#[$variant_meta:meta])* $variant:ident = $text:literal, $more_text:literal,)*
    }) => {
        $crate::named! {
            $(#[$meta])*
            $vis enum $kind: $(#[$doc])* $name {
                $($(#[$variant_meta])* $variant = $text,)*
            }
        }

        impl $kind {
            $(#[$more_doc])*
            $vis const fn $more(self) -> &'static str {
                match self { $(Self::$variant => $more_text,)* }
            }
        }
    };
}
