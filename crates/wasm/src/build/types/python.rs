//! Types for Python.

use super::{Field, MADE, Shape, Vocabulary, quoted};
use crate::offer::Offer;
use std::fmt::Write;

/// `types.py` has the name of a module of the standard library: `vocabulary.py`.
pub fn python(offer: &Offer) -> String {
    let vocabulary = Vocabulary::of(offer);
    let mut text = format!("# {MADE}\n\nfrom typing import Any, Literal, NotRequired, Optional, TypedDict\n");
    for structure in &vocabulary.structures {
        // The form of a call takes keys that are no names.
        let _infallible = write!(text, "\n{0} = TypedDict(\"{0}\", {{\n", structure.name);
        structure.fields.iter().for_each(|field| write_field(field, &mut text));
        text.push_str("})\n");
    }
    write_names(
        "Event",
        "Events that the program accepts",
        vocabulary.events.iter().map(|event| &event.name),
        &mut text,
    );
    write_names(
        "Query",
        "Queries that the program answers",
        vocabulary.queries.iter().map(|query| &query.name),
        &mut text,
    );
    write_names(
        "Effect",
        "Effects that the program requests",
        vocabulary.effects.iter().map(|effect| &effect.kind),
        &mut text,
    );
    text
}

fn write_names<'n>(alias: &str, why: &str, names: impl Iterator<Item = &'n String>, text: &mut String) {
    let names: Vec<_> = names.map(|name| quoted(name)).collect();
    if !names.is_empty() {
        let _infallible = write!(text, "\n# {why}.\n{alias} = Literal[{}]\n", names.join(", "));
    }
}

fn write_field(field: &Field, text: &mut String) {
    let shape = name(&field.shape);
    let shape = if field.required { shape } else { format!("NotRequired[{shape}]") };
    let _infallible = writeln!(text, "    {}: {shape},", quoted(&field.name));
}

fn name(shape: &Shape) -> String {
    match shape {
        Shape::Null => "None".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Integer => "int".to_owned(),
        Shape::Number => "float".to_owned(),
        Shape::Text => "str".to_owned(),
        Shape::Bytes => "bytes".to_owned(),
        Shape::OneOf(texts) => {
            let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
            format!("Literal[{}]", texts.join(", "))
        }
        Shape::List(item) => format!("list[{}]", name(item)),
        Shape::Optional(inner) => format!("Optional[{}]", name(inner)),
        Shape::Structure(structure) => structure.clone(),
        Shape::Anything => "Any".to_owned(),
    }
}
