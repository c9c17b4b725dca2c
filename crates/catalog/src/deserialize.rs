//! Typed values from the values of a TOML document, with the place of what is wrong.
//!
//! `toml` can do this too, through a deserializer of its own for values, tables, arrays, keys, dates and places. Serde compiles the code
//! of every type once for each of them, which was two thirds of this crate. Here is one for values and one for keys. It reads the
//! document in place, so that a part that many clusters name is not copied each time.
//!
//! Not modelled: dates, which no file has; `Spanned` fields, for which [`Document::take_text`](crate::Document) is there.

use std::fmt;
use std::ops::Range;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use toml::map::Iter;

/// Reads the table of a whole document.
pub(crate) fn from_table<'de, T: Deserialize<'de>>(table: &DeTable<'_>) -> Result<T, Wrong> {
    T::deserialize(MapAccessDeserializer::new(Entries::of(table)))
}

/// What does not fit the type that was asked for.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub message: String,
    /// Bytes of the document; nothing if the error came from outside any value.
    pub span: Option<Range<usize>>,
}

impl Wrong {
    /// The innermost key or value that an error passes is its place.
    #[cold]
    fn within<T>(self, place: &Spanned<T>) -> Wrong {
        Wrong { span: self.span.or_else(|| Some(place.span())), ..self }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}

impl serde::de::Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Wrong {
        Wrong { message: message.to_string(), span: None }
    }
}

/// A value and where it stands.
#[derive(Clone, Copy)]
struct Value<'d>(&'d Spanned<DeValue<'d>>);

impl Value<'_> {
    #[cold]
    fn wrong(self, message: &str) -> Wrong {
        Wrong { message: message.to_owned(), span: Some(self.0.span()) }
    }
    fn show<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Boolean(truth) => visitor.visit_bool(*truth),
            DeValue::Integer(digits) => match Whole::parse(digits.as_str(), digits.radix()) {
                Some(Whole::Signed(number)) => visitor.visit_i64(number),
                Some(Whole::Unsigned(number)) => visitor.visit_u64(number),
                None => Err(Wrong::custom("integer number overflowed")),
            },
            DeValue::Float(digits) => match digits.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() || digits.as_str().contains("inf") || number.is_nan() => visitor.visit_f64(number),
                _ => Err(Wrong::custom("floating-point number overflowed")),
            },
            DeValue::Array(items) => visitor.visit_seq(Items(items.iter())),
            DeValue::Table(table) => visitor.visit_map(Entries::of(table)),
            DeValue::Datetime(_) => Err(Wrong::invalid_type(Unexpected::Other("a date or time"), &visitor)),
        }
    }
}

/// A whole number, in the type that holds it.
enum Whole {
    Signed(i64),
    Unsigned(u64),
}

impl Whole {
    fn parse(digits: &str, radix: u32) -> Option<Whole> {
        let signed = i64::from_str_radix(digits, radix).map(Whole::Signed);
        signed.or_else(|_| u64::from_str_radix(digits, radix).map(Whole::Unsigned)).ok()
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.show(visitor).map_err(|wrong| wrong.within(self.0))
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_some(self)
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self).map_err(|wrong| wrong.within(self.0))
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let choice = match self.0.get_ref() {
            DeValue::Table(table) => match (table.iter().next(), table.len()) {
                (Some((key, value)), 1) => Choice { name: key.get_ref(), place: key.span(), value: Some(value) },
                (_, 0) => return Err(self.wrong("wanted exactly 1 element, found none")),
                (_, several) => return Err(self.wrong(&format!("wanted exactly 1 element, found {several}"))),
            },
            DeValue::String(text) => Choice { name: text, place: self.0.span(), value: None },
            _ => return Err(self.wrong("wanted string or table")),
        };
        visitor.visit_enum(choice).map_err(|wrong| wrong.within(self.0))
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string seq struct
        bytes byte_buf map unit ignored_any unit_struct tuple_struct tuple identifier
    }
}

/// The items of an array.
struct Items<'d>(std::slice::Iter<'d, Spanned<DeValue<'d>>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        self.0.next().map(|item| seed.deserialize(Value(item))).transpose()
    }
}

/// The keys and values of a table, in their order.
struct Entries<'d> {
    rest: Iter<'d, Spanned<DeString<'d>>, Spanned<DeValue<'d>>>,
    value: Option<&'d Spanned<DeValue<'d>>>,
}

impl<'d> Entries<'d> {
    fn of(table: &'d DeTable<'_>) -> Entries<'d> {
        Entries { rest: table.iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let name: StrDeserializer<'_, Wrong> = key.get_ref().as_ref().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|wrong| wrong.within(key))
    }
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Wrong> {
        let value = self.value.take().ok_or_else(|| Wrong::custom("a value was asked for before its key"))?;
        seed.deserialize(Value(value)).map_err(|wrong| wrong.within(value))
    }
}

/// One of several: a name, or a name and a table below it.
struct Choice<'d> {
    name: &'d str,
    /// Where the name stands.
    place: Range<usize>,
    value: Option<&'d Spanned<DeValue<'d>>>,
}

impl<'d, 'de> EnumAccess<'de> for Choice<'d> {
    type Error = Wrong;
    type Variant = Below<'d>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Below<'d>), Wrong> {
        let name: StrDeserializer<'_, Wrong> = self.name.into_deserializer();
        let variant = seed.deserialize(name).map_err(|wrong| wrong.within(&Spanned::new(self.place, ())))?;
        Ok((variant, Below(self.value)))
    }
}

/// What stands below the name of a choice.
struct Below<'d>(Option<&'d Spanned<DeValue<'d>>>);

impl<'d> Below<'d> {
    fn needed(&self, wanted: &str) -> Result<Value<'d>, Wrong> {
        self.0.map(Value).ok_or_else(|| Wrong::invalid_type(Unexpected::UnitVariant, &wanted))
    }
}

impl<'de> VariantAccess<'de> for Below<'_> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        match self.0 {
            None => Ok(()),
            Some(value) if value.get_ref().as_table().is_some_and(DeTable::is_empty) => Ok(()),
            Some(value) => Err(Value(value).wrong("this choice has no keys")),
        }
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        seed.deserialize(self.needed("newtype variant")?)
    }
    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.needed("tuple variant")?.deserialize_any(visitor)
    }
    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Wrong> {
        let below = self.needed("struct variant")?;
        if let DeValue::Table(table) = below.0.get_ref()
            && let Some(unknown) = table.keys().find(|key| !fields.contains(&key.get_ref().as_ref()))
        {
            return Err(Wrong::unknown_field(unknown.get_ref(), fields).within(unknown));
        }
        below.deserialize_any(visitor)
    }
}
