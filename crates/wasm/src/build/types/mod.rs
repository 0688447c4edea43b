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
use mundi_kernel::manifest::Schema;
use shape::Named;
use std::collections::BTreeSet;

/// The head of each file.
const MADE: &str = "Made by `mundi program build` from mundi.json. Changes here are lost.";

/// Everything that gets a type.
struct Vocabulary {
    /// Structures, the inner ones before those that use them.
    structures: Vec<Named>,
    events: Vec<Typed>,
    queries: Vec<Typed>,
    effects: Vec<TypedEffect>,
}

/// Something that has a name in `mundi.json`, which may be any text.
struct Typed {
    name: String,
    /// The name among its kind, as a name of types.
    variant: String,
    shape: Shape,
}

struct TypedEffect {
    kind: String,
    /// The name of its params, which are a structure, or nothing.
    params: Shape,
    receipt: Shape,
}

/// The kinds that come with Mundi, for which the SDKs have types.
const BUILTIN: [&str; 9] = [
    "blob.get",
    "blob.put",
    "fabric.send",
    "http.request",
    "llm.chat",
    "process.run",
    "world.call",
    "world.fork",
    "world.spawn",
];

impl TypedEffect {
    fn is_builtin(&self) -> bool {
        BUILTIN.contains(&&*self.kind)
    }
}

impl Vocabulary {
    fn of(offer: &Offer) -> Self {
        let mut structures = Structures::default();
        let typed =
            |(name, schema): (&String, &Schema), suffix: &str, variants: &mut Names, all: &mut Structures| Typed {
                name: name.clone(),
                variant: variants.claim(&pascal(name)),
                shape: Shape::of(&(pascal(name) + suffix), &schema.0, all),
            };
        let (mut variants, events) = (Names::default(), offer.events.iter());
        let events = events.map(|event| typed(event, "", &mut variants, &mut structures)).collect();
        let (mut variants, queries) = (Names::default(), offer.queries.iter());
        let queries = queries.map(|query| typed(query, "Query", &mut variants, &mut structures)).collect();
        let effects = offer.effects.iter().map(|(kind, rule)| TypedEffect {
            kind: kind.clone(),
            params: Shape::of(&pascal(kind), &rule.params.0, &mut structures),
            receipt: Shape::of(&(pascal(kind) + "Receipt"), &rule.receipt.0, &mut structures),
        });
        let effects = effects.collect();
        Self { events, queries, effects, structures: structures.made }
    }
}

/// Names that mean something else in one of the languages, or in what is made here.
const KEPT: [&str; 29] = [
    "Any",
    "Array",
    "Bytes",
    "Deserialize",
    "DeserializeOwned",
    "Effect",
    "Effects",
    "Event",
    "Events",
    "Failure",
    "False",
    "Kinds",
    "Literal",
    "None",
    "NotRequired",
    "Ok",
    "Option",
    "Optional",
    "Queries",
    "Query",
    "Result",
    "Self",
    "Serialize",
    "String",
    "True",
    "TypedDict",
    "Value",
    "Uint8Array",
    "Vec",
];

/// Names of which each is given once: what people call things may be the same to a compiler.
struct Names(BTreeSet<String>);

impl Default for Names {
    /// No language has another use for what stands among its own kind, but for one word of Rust.
    fn default() -> Self {
        Self(["Self".to_owned()].into())
    }
}

impl Names {
    /// The name that is wished for, or the first after it that is free.
    fn claim(&mut self, wish: &str) -> String {
        let wish = match wish.chars().next() {
            None => "Unnamed".to_owned(),
            Some(first) if first.is_ascii_digit() => format!("N{wish}"),
            Some(_) => wish.to_owned(),
        };
        let numbered = (2..).map(|number: u64| format!("{wish}{number}"));
        let mut wishes = std::iter::once(wish.clone()).chain(numbered);
        let free = wishes.find(|name| !self.0.contains(name)).unwrap_or(wish);
        self.0.insert(free.clone());
        free
    }
}

/// Structures that were made, and their names.
struct Structures {
    made: Vec<Named>,
    names: Names,
}

impl Default for Structures {
    fn default() -> Self {
        Self { made: Vec::new(), names: Names(KEPT.map(str::to_owned).into()) }
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

/// A text as TypeScript and Python write it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
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
                            "photo": { "type": "string", "contentEncoding": "base64" },
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
                "effects": { "http.request": {}, "payment.charge": {
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

    /// Whatever things are called, nothing is declared twice and nothing has a name that a language keeps for itself.
    #[test]
    fn names_that_are_the_same_to_a_compiler_are_told_apart() {
        let made = rust(&crooked());
        let lines = |begins: &str, ends: &str| {
            let names = made.lines().filter_map(|line| line.trim().strip_prefix(begins));
            names.map(|rest| rest.split_once(ends).unwrap_or((rest, "")).0.to_owned()).collect::<Vec<_>>()
        };
        let structures = lines("pub struct ", " {");
        assert_eq!(structures, ["AB", "A", "AB2", "AB3", "Event2", "Self2", "AB4", "ABReceipt"], "{made}");
        let fields = lines("pub ", ": ");
        assert!(
            ["in_stock", "in_stock2", "const_", "_1st", "field"].iter().all(|name| fields.contains(&(*name).into())),
            "{made}"
        );
        let variants = [
            "    N1st(bool),",
            "    A(A),",
            "    AB(AB2),",
            "    AB2(AB3),",
            "    Event(Event2),",
            "    Self2(Self2),",
            "    Unnamed(Value),",
        ];
        assert!(made.contains(&variants.join("\n")), "{made}");
        // A text of Rust is not one of Python: combining letters are escaped in another way.
        assert!(python(&crooked()).contains("Literal[\"e\u{301}\", \"a\\\"b\"]"), "{}", python(&crooked()));
    }

    fn crooked() -> Offer {
        let object = |fields: serde_json::Value| json!({ "type": "object", "properties": fields });
        Offer::parse(
            &json!({
                "events": {
                    "a.b": object(json!({ "in-stock": true, "in_stock": true, "const": true, "1st": true, "": true })),
                    "a_b": object(json!({ "c": { "enum": ["e\u{301}", "a\"b"] } })),
                    "a": object(json!({ "b": object(json!({})) })),
                    "1st": { "type": "boolean" },
                    "event": object(json!({})),
                    "self": object(json!({})),
                    "\u{2615}": true,
                },
                "effects": { "a.b": { "params": object(json!({})), "receipt": object(json!({})) } },
            })
            .to_string(),
        )
        .unwrap()
    }

    #[test]
    fn names_become_names_of_types() {
        assert_eq!(pascal("payment.charge-back"), "PaymentChargeBack");
        assert_eq!(pascal("add"), "Add");
    }
}
