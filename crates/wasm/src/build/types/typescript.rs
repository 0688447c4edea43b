//! Types for TypeScript.

use super::{Field, MADE, Shape, Typed, Vocabulary, quoted};
use crate::offer::Offer;
use std::fmt::Write;

/// `types.ts`.
pub fn typescript(offer: &Offer) -> String {
    let vocabulary = Vocabulary::of(offer);
    let mut text = format!("// {MADE}\n");
    if vocabulary.effects.iter().any(|effect| effect.is_builtin()) {
        text.push_str("\nimport type { Kinds } from \"mundi-sdk\";\n");
    }
    for structure in &vocabulary.structures {
        let _infallible = write!(text, "\nexport interface {} {{\n", structure.name);
        structure.fields.iter().for_each(|field| write_field(field, &mut text));
        text.push_str("}\n");
    }
    write_map("Events", "Events that the program accepts.", &vocabulary.events, &mut text);
    write_map("Queries", "Queries that the program answers.", &vocabulary.queries, &mut text);
    text.push_str("\n/** Effects that the program requests. */\nexport interface Effects {\n");
    for effect in &vocabulary.effects {
        let kind = quoted(&effect.kind);
        let typed = |shape: &Shape, part: &str| match shape {
            Shape::Anything if effect.is_builtin() => format!("Kinds[{kind}][\"{part}\"]"),
            shape => name(shape),
        };
        let (params, receipt) = (typed(&effect.params, "params"), typed(&effect.receipt, "receipt"));
        let _infallible = writeln!(text, "  {kind}: {{ params: {params}; receipt: {receipt} }};");
    }
    text.push_str("}\n");
    text
}

fn write_map(map: &str, why: &str, named: &[Typed], text: &mut String) {
    let _infallible = write!(text, "\n/** {why} */\nexport interface {map} {{\n");
    for typed in named {
        let _infallible = writeln!(text, "  {}: {};", quoted(&typed.name), name(&typed.shape));
    }
    text.push_str("}\n");
}

fn write_field(field: &Field, text: &mut String) {
    let optional = if field.required { "" } else { "?" };
    let _infallible = writeln!(text, "  {}{optional}: {};", quoted(&field.name), name(&field.shape));
}

fn name(shape: &Shape) -> String {
    match shape {
        Shape::Null => "null".to_owned(),
        Shape::Bool => "boolean".to_owned(),
        Shape::Integer | Shape::Number => "number".to_owned(),
        Shape::Text => "string".to_owned(),
        Shape::Bytes => "Uint8Array".to_owned(),
        Shape::OneOf(texts) => texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(" | "),
        Shape::List(item) => format!("Array<{}>", name(item)),
        Shape::Optional(inner) => format!("{} | null", name(inner)),
        Shape::Structure(structure) => structure.clone(),
        Shape::Anything => "unknown".to_owned(),
    }
}
