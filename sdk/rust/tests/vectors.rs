//! The codec agrees with those of the other SDKs, and with the host.

use mundi_sdk::{Bytes, Value, cbor};

/// Bytes are written as their hex digits in the shared file.
fn with_bytes(value: Value) -> Value {
    if let Some(hex) = value["$bytes"].as_str() {
        let digits: Vec<_> = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap()).collect();
        let bytes = digits.iter().map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        return serde_json::to_value(Bytes(bytes)).unwrap();
    }
    match value {
        Value::Array(items) => items.into_iter().map(with_bytes).collect(),
        Value::Object(entries) => entries.into_iter().map(|(name, item)| (name, with_bytes(item))).collect(),
        other => other,
    }
}

#[test]
fn the_shared_vectors_hold() {
    let vectors: Vec<(Value, String)> = serde_json::from_str(include_str!("../../vectors.json")).unwrap();
    for (value, hex) in vectors {
        let value = with_bytes(value);
        let bytes = cbor::encode(&value);
        let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, hex, "{value}");
        assert_eq!(cbor::decode(&bytes).unwrap(), value);
    }
}
