//! The codec agrees with those of the other SDKs, and with the host.

use mundi_sdk::{Value, cbor};

#[test]
fn the_shared_vectors_hold() {
    let vectors: Vec<(Value, String)> = serde_json::from_str(include_str!("../../vectors.json")).unwrap();
    for (value, hex) in vectors {
        let bytes = cbor::encode(&value);
        let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, hex, "{value}");
        assert_eq!(cbor::decode(&bytes).unwrap(), value);
    }
}
