//! Converts a leftover to the data of a ConfigMap and back: each field is one key. Pure.

use std::collections::{BTreeMap, btree_map};
use std::fmt::Display;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::Value;

/// A record that does not describe a leftover.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record's {key} is missing or wrong")]
pub struct Unreadable {
    /// The field.
    pub key: String,
}

impl Error for Unreadable {
    fn custom<T: Display>(_: T) -> Self {
        let key = "content".to_owned(); // `Entries` replaces it by the key of the wrong value
        Self { key }
    }

    fn missing_field(field: &'static str) -> Self {
        let key = field.to_owned();
        Self { key }
    }
}

/// Every field of `value`, with its text if it has one.
pub(super) fn write(value: &impl Serialize) -> BTreeMap<String, Option<String>> {
    let fields = serde_json::to_value(value).expect("a leftover is plain data");
    let Value::Object(fields) = fields else {
        panic!("a leftover has named fields");
    };
    let text = |value: Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text).filter(|text| !text.is_empty()),
        other => Some(other.to_string()),
    };
    let texts = fields.into_iter().map(|(key, value)| (key, text(value)));
    texts.collect()
}

/// The value that `fields` describe.
pub(super) fn read<T: DeserializeOwned>(
    fields: &BTreeMap<String, String>,
) -> Result<T, Unreadable> {
    let entries = Entries {
        remaining: fields.iter(),
        current: None,
    };
    T::deserialize(MapAccessDeserializer::new(entries))
}

/// The keys that have a text.
struct Entries<'de> {
    remaining: btree_map::Iter<'de, String, String>,
    current: Option<(&'de String, &'de String)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Unreadable;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Unreadable> {
        self.current = self.remaining.find(|(_, text)| !text.is_empty());
        let key = self
            .current
            .map(|(key, _)| seed.deserialize(FieldText(key)));
        key.transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Unreadable> {
        let (key, text) = self.current.expect("a value is read after its key");
        let value = seed.deserialize(FieldText(text));
        value.map_err(|_| Unreadable { key: key.clone() })
    }
}

/// A text that is parsed by the type of its field: as a string, or as JSON.
struct FieldText<'de>(&'de str);

macro_rules! read_as_json {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
            let value: Value = serde_json::from_str(self.0).map_err(Unreadable::custom)?;
            value.$method(visitor).map_err(Unreadable::custom)
        }
    )*};
}

impl<'de> Deserializer<'de> for FieldText<'de> {
    type Error = Unreadable;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_some(self)
    }

    read_as_json! {
        deserialize_bool deserialize_i64 deserialize_u32 deserialize_u64 deserialize_seq deserialize_map
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde::Deserialize;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Disk {
        volume_id: String,
        #[serde(default)]
        comment: String,
        zone: Option<String>,
        size: Option<u64>,
        tags: Vec<String>,
    }

    fn volume() -> Disk {
        Disk {
            volume_id: "42".to_owned(),
            comment: String::new(),
            zone: None,
            size: Some(8),
            tags: vec!["a".to_owned(), "b".to_owned()],
        }
    }

    fn texts(volume: &Disk) -> BTreeMap<String, String> {
        let fields = write(volume).into_iter();
        fields
            .filter_map(|(key, text)| Some((key, text?)))
            .collect()
    }

    #[test]
    fn strings_are_written_as_text_and_other_values_as_json() {
        let written = texts(&volume());
        let fields: Vec<_> = written.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            fields,
            ["size=8", r#"tags=["a","b"]"#, "volumeId=42"],
            "null and the empty string have no key"
        );
        assert_eq!(write(&volume()).len(), 5);
    }

    #[test]
    fn fields_read_back_and_other_keys_are_ignored() {
        let mut fields = texts(&volume());
        fields.insert("attempts".to_owned(), "1".to_owned());
        fields.insert("zone".to_owned(), String::new());
        assert_eq!(read::<Disk>(&fields), Ok(volume()));
    }

    #[rstest]
    #[case::missing("volumeId", None)]
    #[case::empty("volumeId", Some(""))]
    #[case::not_a_number("size", Some("large"))]
    #[case::not_a_list("tags", Some("a, b"))]
    fn a_wrong_field_is_named(#[case] key: &str, #[case] text: Option<&str>) {
        let mut fields = texts(&volume());
        fields.remove(key);
        fields.extend(text.map(|text| (key.to_owned(), text.to_owned())));
        let key = key.to_owned();
        assert_eq!(read::<Disk>(&fields), Err(Unreadable { key }));
    }
}
