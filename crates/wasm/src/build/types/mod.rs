//! Types from the JSON Schemas of a program's `mundi.json`, in the language of the program.
//!
//! Schemas can say more than types. What has no type of its own (a choice, a reference, a pattern) becomes a value of any
//! shape; the schema itself is checked by the world in any case.

mod python;
mod rust;
mod shape;
mod typescript;

pub use python::python;
pub use rust::rust;
pub use shape::{Field, Shape};
pub use typescript::typescript;

use crate::offer::Offer;
use shape::Named;

/// What stands at the head of each file.
const MADE: &str = "Made by `mundi program build` from mundi.json. Changes here are lost.";

/// Everything that gets a type.
struct Vocabulary {
    /// Structures, the inner ones before those that use them.
    structures: Vec<Named>,
    events: Vec<(String, Shape)>,
    queries: Vec<(String, Shape)>,
    effects: Vec<TypedEffect>,
}

struct TypedEffect {
    kind: String,
    /// The name of its params, which are a structure, or nothing.
    params: Shape,
    receipt: Shape,
}

impl Vocabulary {
    fn of(offer: &Offer) -> Self {
        let mut structures = Vec::new();
        let mut shape = |name: String, schema: &serde_json::Value| Shape::of(&name, schema, &mut structures);
        let events = offer.events.iter().map(|(name, schema)| (name.clone(), shape(pascal(name), &schema.0))).collect();
        let queries = offer.queries.iter();
        let queries = queries.map(|(name, schema)| (name.clone(), shape(pascal(name) + "Query", &schema.0))).collect();
        let effects = offer.effects.iter().map(|(kind, rule)| TypedEffect {
            kind: kind.clone(),
            params: shape(pascal(kind), &rule.params.0),
            receipt: shape(pascal(kind) + "Receipt", &rule.receipt.0),
        });
        let effects = effects.collect();
        Self { events, queries, effects, structures }
    }
}

/// `payment.charge` becomes `PaymentCharge`.
fn pascal(name: &str) -> String {
    let parts = name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(capital).collect()
}

fn capital(part: &str) -> String {
    let mut letters = part.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

/// A name that every language takes: letters, digits and `_`, and no digit first.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn offer() -> Offer {
        Offer::parse(
            &json!({
                "events": {
                    "place.order": {
                        "type": "object",
                        "required": ["order", "lines"],
                        "properties": {
                            "order": { "type": "string" },
                            "note": { "type": "string" },
                            "kind": { "enum": ["new", "again"] },
                            "type": { "type": "number" },
                            "lines": { "type": "array", "items": {
                                "type": "object",
                                "required": ["sku", "in-stock"],
                                "properties": { "sku": { "type": "string" }, "in-stock": { "type": "boolean" } },
                            } },
                        },
                    },
                    "add": { "type": "integer" },
                    "any": true,
                },
                "effects": { "payment.charge": {
                    "params": { "type": "object", "required": ["cents"], "properties": { "cents": { "type": "integer" } } },
                    "receipt": { "type": "object", "properties": { "charge": { "type": ["string", "null"] } } },
                } },
                "queries": { "order": { "type": "string" } },
            })
            .to_string(),
        )
        .unwrap()
    }

    /// The whole of each file is pinned: whoever changes a generator sees what becomes of programs.
    #[test]
    fn the_files_are_as_they_were() {
        for (name, made, expected) in [
            ("types.rs.txt", rust(&offer()), include_str!("expected/types.rs.txt")),
            ("types.ts.txt", typescript(&offer()), include_str!("expected/types.ts.txt")),
            ("types.py.txt", python(&offer()), include_str!("expected/types.py.txt")),
        ] {
            if std::env::var_os("MUNDI_BLESS").is_some() {
                let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/build/types/expected/");
                std::fs::write(format!("{path}{name}"), &made).unwrap();
            } else {
                assert_eq!(made, expected, "{name}");
            }
        }
    }

    #[test]
    fn names_become_names_of_types() {
        assert_eq!(pascal("payment.charge-back"), "PaymentChargeBack");
        assert_eq!(pascal("add"), "Add");
    }
}
