//! Closed sets of texts: an enum, its texts and its schema from one table.

use std::fmt;

/// A text that is no value of a closed set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownValue {
    pub(super) set: &'static str,
    pub(super) text: String,
}

impl fmt::Display for UnknownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no {}", self.text, self.set)
    }
}

impl std::error::Error for UnknownValue {}

/// Declares an enum whose values are written as the given texts, in objects, events and metrics.
macro_rules! closed_set {
    ($(#[$about:meta])* $set:ident { $($(#[$about_value:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $set {
            $($(#[$about_value])* $value,)*
        }

        impl $set {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// The text in objects, events and metrics.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $set {
            type Err = $crate::migrate::UnknownValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$value),)*
                    _ => Err($crate::migrate::UnknownValue {
                        set: stringify!($set),
                        text: text.to_owned(),
                    }),
                }
            }
        }

        impl serde::Serialize for $set {
            fn serialize<S: serde::Serializer>(&self, target: S) -> Result<S::Ok, S::Error> {
                target.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $set {
            fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(source)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $set {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($set).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "enum": Self::ALL})
            }
        }
    };
}
pub(super) use closed_set;
