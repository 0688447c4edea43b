//! The part of JSON Schema that has a type in every language.

use super::{Structures, capital, pascal};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    Null,
    Bool,
    Integer,
    Number,
    Text,
    /// A byte string: a text with `"contentEncoding": "base64"` to a schema.
    Bytes,
    /// One of these texts.
    OneOf(Vec<String>),
    List(Box<Shape>),
    Optional(Box<Shape>),
    /// A structure, by its name.
    Structure(String),
    Anything,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub shape: Shape,
    pub required: bool,
}

/// A structure that has a name.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

impl Shape {
    /// The shape of a schema; structures in it are named after where they stand.
    pub(super) fn of(name: &str, schema: &Value, structures: &mut Structures) -> Self {
        if let Some(texts) = schema["enum"].as_array() {
            let texts: Option<Vec<_>> = texts.iter().map(|text| text.as_str().map(str::to_owned)).collect();
            return texts.map_or(Self::Anything, Self::OneOf);
        }
        match &schema["type"] {
            Value::String(kind) => Self::of_kind(kind, name, schema, structures),
            // A type or null is the one choice that every language has a word for.
            Value::Array(kinds) => match kinds.iter().map(Value::as_str).collect::<Option<Vec<_>>>().as_deref() {
                Some([kind, "null"] | ["null", kind]) => {
                    Self::Optional(Box::new(Self::of_kind(kind, name, schema, structures)))
                }
                _ => Self::Anything,
            },
            _ => Self::Anything,
        }
    }

    fn of_kind(kind: &str, name: &str, schema: &Value, structures: &mut Structures) -> Self {
        match kind {
            "null" => Self::Null,
            "boolean" => Self::Bool,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" if schema["contentEncoding"] == "base64" => Self::Bytes,
            "string" => Self::Text,
            "array" => Self::List(Box::new(Self::of(&format!("{name}Item"), &schema["items"], structures))),
            "object" => Self::structure(name, schema, structures),
            _ => Self::Anything,
        }
    }

    fn structure(name: &str, schema: &Value, structures: &mut Structures) -> Self {
        let Some(properties) = schema["properties"].as_object() else { return Self::Anything };
        // A structure could not keep what it has no field for.
        if schema["additionalProperties"].is_object() {
            return Self::Anything;
        }
        // What is outside is named before what is in it.
        let name = &*structures.names.claim(name);
        let required = |key: &str| {
            schema["required"].as_array().is_some_and(|required| required.iter().any(|name| name.as_str() == Some(key)))
        };
        let fields = properties.iter().map(|(key, schema)| Field {
            name: key.clone(),
            shape: Self::of(&format!("{name}{}", capital(&pascal(key))), schema, structures),
            required: required(key),
        });
        let fields = fields.collect();
        structures.made.push(Named { name: name.to_owned(), fields });
        Self::Structure(name.to_owned())
    }
}
