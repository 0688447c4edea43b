//! Files that stand twice in the repository are the same.

use mundi_model::{Value, cbor};
use mundi_wasm::{build::types, offer::Offer};
use std::{fs, path::PathBuf};

fn read(path: &str) -> String {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_contract_is_the_same_everywhere() {
    assert_eq!(read("sdk/rust/wit/program.wit"), read("crates/wasm/wit/program.wit"));
}

#[test]
fn a_program_in_three_languages_has_one_declaration_and_the_types_that_follow_from_it() {
    let durable = ["order-saga", "payment-saga", "chat-agent"].map(|example| format!("examples/{example}/durable"));
    let others = ["examples/order-saga", "examples/todo-agent", "sdk/kinds", "sdk/awaits"].map(str::to_owned);
    for folder in durable.into_iter().chain(others) {
        let of = |path: &str| read(&format!("{folder}/{path}"));
        let declared = of("rust/mundi.json");
        for other in ["typescript", "python"] {
            assert_eq!(of(&format!("{other}/mundi.json")), declared, "{folder}: {other}");
        }
        let offer = Offer::parse(&declared).unwrap();
        assert_eq!(of("rust/src/types.rs"), types::rust(&offer), "{folder}");
        assert_eq!(of("typescript/src/types.ts"), types::typescript(&offer), "{folder}");
        assert_eq!(of("python/vocabulary.py"), types::python(&offer), "{folder}");
    }
}

/// Bytes are written as their hex digits in the shared file.
fn with_bytes(value: serde_json::Value) -> Value {
    if let Some(digits) = value["$bytes"].as_str() {
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        return Value::Bytes(pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect());
    }
    match value {
        serde_json::Value::Array(items) => Value::Array(items.into_iter().map(with_bytes).collect()),
        serde_json::Value::Object(entries) => {
            Value::Map(entries.into_iter().map(|(name, part)| (name, with_bytes(part))).collect())
        }
        other => Value::from(other),
    }
}

#[test]
fn the_codecs_of_the_sdks_are_that_of_the_host() {
    let vectors: Vec<(serde_json::Value, String)> = serde_json::from_str(&read("sdk/vectors.json")).unwrap();
    for (value, expected) in vectors {
        assert_eq!(mundi_model::hex(&cbor::encode(&with_bytes(value.clone()))), expected, "{value}");
    }
}
