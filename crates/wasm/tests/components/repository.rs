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
fn the_saga_has_one_declaration_and_the_types_that_follow_from_it() {
    let declared = read("examples/order-saga/rust/mundi.json");
    for other in ["typescript", "python"] {
        assert_eq!(read(&format!("examples/order-saga/{other}/mundi.json")), declared, "{other}");
    }
    let offer = Offer::parse(&declared).unwrap();
    let saga = |path: &str| read(&format!("examples/order-saga/{path}"));
    assert_eq!(saga("rust/src/types.rs"), types::rust(&offer));
    assert_eq!(saga("typescript/src/types.ts"), types::typescript(&offer));
    assert_eq!(saga("python/vocabulary.py"), types::python(&offer));
}

#[test]
fn the_codecs_of_the_sdks_are_that_of_the_host() {
    let vectors: Vec<(serde_json::Value, String)> = serde_json::from_str(&read("sdk/vectors.json")).unwrap();
    for (value, expected) in vectors {
        assert_eq!(mundi_model::hex(&cbor::encode(&Value::from(value.clone()))), expected, "{value}");
    }
}
