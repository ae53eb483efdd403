//! Finds the names of a record's fields, without a record.

use serde::de::value::Error as ProbeError;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// Returns the names of the fields that `T`, or the records of a list `T`, are read from. Empty if they depend on the
/// content, as in a flattened struct.
pub(super) fn field_names<T: DeserializeOwned>() -> Vec<&'static str> {
    let mut names = Vec::new();
    // Always fails: the probe has no content.
    let _ = T::deserialize(FieldProbe(&mut names));
    names
}

/// Records the fields that a struct asks for.
struct FieldProbe<'a>(&'a mut Vec<&'static str>);

impl<'de> Deserializer<'de> for FieldProbe<'_> {
    type Error = ProbeError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ProbeError> {
        Err(ProbeError::custom("the probe has no content"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        self.0.extend_from_slice(fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
        visitor.visit_seq(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de> SeqAccess<'de> for FieldProbe<'_> {
    type Error = ProbeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ProbeError> {
        seed.deserialize(FieldProbe(&mut *self.0)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::field_names;

    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Sample {
        #[expect(dead_code, reason = "only its name is read")]
        id: String,
        #[expect(dead_code, reason = "only its name is read")]
        created_at: Option<String>,
    }

    #[test]
    fn field_names_are_those_of_the_api() {
        assert_eq!(field_names::<Sample>(), ["id", "createdAt"]);
        assert_eq!(field_names::<Vec<Sample>>(), ["id", "createdAt"]);
        assert_eq!(field_names::<serde_json::Value>(), [""; 0]);
    }
}
