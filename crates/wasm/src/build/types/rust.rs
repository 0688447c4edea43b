//! Types for Rust.

use super::{Field, MADE, Named, Names, Shape, Typed, Vocabulary};
use crate::offer::Offer;
use std::fmt::Write;

/// Words that are no names. Raw identifiers would do for most, and not for all.
const RESERVED: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// `types.rs`.
pub fn rust(offer: &Offer) -> String {
    let vocabulary = Vocabulary::of(offer);
    let mut text = format!(
        "// {MADE}\n#![allow(dead_code, non_snake_case, unused_imports)]\n\nuse mundi_sdk::{{Bytes, Effect, Failure, Value}};\n"
    );
    text.push_str("use serde::{Deserialize, Serialize, de::DeserializeOwned};\n");
    for structure in &vocabulary.structures {
        write_structure(structure, &mut text);
    }
    write_choice("Events", "Events that the program accepts.", &vocabulary.events, &mut text);
    write_choice("Queries", "Queries that the program answers.", &vocabulary.queries, &mut text);
    for effect in &vocabulary.effects {
        let Shape::Structure(params) = &effect.params else { continue };
        let receipt = name(&effect.receipt);
        let kind = &effect.kind;
        let _infallible = write!(
            text,
            "\nimpl Effect for {params} {{\n    const KIND: &'static str = {kind:?};\n    type Receipt = {receipt};\n}}\n"
        );
    }
    text
}

fn name(shape: &Shape) -> String {
    match shape {
        Shape::Null => "()".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Integer => "i64".to_owned(),
        Shape::Number => "f64".to_owned(),
        Shape::Text | Shape::OneOf(_) => "String".to_owned(),
        Shape::Bytes => "Bytes".to_owned(),
        Shape::List(item) => format!("Vec<{}>", name(item)),
        Shape::Optional(inner) => format!("Option<{}>", name(inner)),
        Shape::Structure(structure) => structure.clone(),
        Shape::Anything => "Value".to_owned(),
    }
}

fn write_structure(structure: &Named, text: &mut String) {
    let _infallible = write!(
        text,
        "\n#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]\npub struct {} {{\n",
        structure.name
    );
    let mut names = Names::default();
    structure.fields.iter().for_each(|field| write_field(field, &mut names, text));
    text.push_str("}\n");
}

/// Any text as a name of a field.
fn plain(name: &str) -> String {
    let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    match name.trim_start_matches('_').chars().next() {
        None => "field".to_owned(),
        Some(_) if RESERVED.contains(&&*name) => format!("{name}_"),
        Some(_) if name.starts_with(|first: char| first.is_ascii_digit()) => format!("_{name}"),
        Some(_) => name,
    }
}

fn write_field(field: &Field, names: &mut Names, text: &mut String) {
    let plain = names.claim(&plain(&field.name));
    if plain != field.name {
        let _infallible = writeln!(text, "    #[serde(rename = {:?})]", field.name);
    }
    let shape = name(&field.shape);
    let shape = match (&field.shape, field.required) {
        (Shape::Optional(_), _) | (_, true) => shape,
        (_, false) => format!("Option<{shape}>"),
    };
    if !field.required {
        text.push_str("    #[serde(default, skip_serializing_if = \"Option::is_none\")]\n");
    }
    let _infallible = writeln!(text, "    pub {plain}: {shape},");
}

/// An enum of what has names, and how it is read.
fn write_choice(choice: &str, why: &str, named: &[Typed], text: &mut String) {
    if named.is_empty() {
        return;
    }
    let _infallible = write!(text, "\n/// {why}\n#[derive(Debug, Clone, PartialEq)]\npub enum {choice} {{\n");
    for Typed { variant, shape, .. } in named {
        let _infallible = writeln!(text, "    {variant}({}),", name(shape));
    }
    let _infallible = write!(
        text,
        "}}\n\nimpl {choice} {{\n    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {{\n        \
         fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {{\n            \
         Ok(serde_json::from_value(value)?)\n        }}\n        match name {{\n"
    );
    for Typed { name, variant, .. } in named {
        let _infallible = writeln!(text, "            {name:?} => Ok(Self::{variant}(typed(value)?)),");
    }
    text.push_str(
        "            other => Err(Failure::new(format!(\"`{other}` is not declared\"))),\n        }\n    }\n}\n",
    );
}
