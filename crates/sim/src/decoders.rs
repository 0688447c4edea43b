//! All decoders of bytes from a disk, an object or another process, each as a function that must not panic.
//!
//! `fuzz/` feeds them to a fuzzer; a test feeds them a fixed corpus. Each also says what holds for bytes that it accepts:
//! written again they are the same, because hashes are taken over them.

use mundi_kernel::snapshot::KernelSnapshot;
use mundi_model::{
    Value, cbor,
    record::{InboxItem, Record},
};
use mundi_runtime::shell::Frame;
use mundi_store::keyspace::{Parts, world_meta::WorldMeta};

/// A decoder and its name, which is also that of its fuzz target.
pub type Decoder = (&'static str, fn(&[u8]));

pub const ALL: &[Decoder] = &[
    ("record", record),
    ("item", item),
    ("value", value),
    ("meta", meta),
    ("snapshot", snapshot),
    ("frame", frame),
    ("key", key),
];

fn canonical<V: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>>(bytes: &[u8]) {
    if let Ok(decoded) = cbor::decode::<V>(bytes) {
        assert_eq!(cbor::encode(&decoded), bytes, "two encodings of one value");
    }
}

pub fn record(bytes: &[u8]) {
    canonical::<Record>(bytes);
}

pub fn item(bytes: &[u8]) {
    canonical::<InboxItem>(bytes);
}

pub fn value(bytes: &[u8]) {
    canonical::<Value>(bytes);
}

pub fn meta(bytes: &[u8]) {
    canonical::<WorldMeta>(bytes);
}

pub fn snapshot(bytes: &[u8]) {
    if let Ok(snapshot) = KernelSnapshot::from_bytes(bytes) {
        assert_eq!(snapshot.to_bytes(), bytes, "two encodings of one snapshot");
    }
}

pub fn frame(bytes: &[u8]) {
    if let Ok(frame) = Frame::decode(bytes) {
        assert_eq!(frame.encode().ok().as_deref(), Some(bytes), "two encodings of one frame");
    }
}

pub fn key(bytes: &[u8]) {
    if let Some(parts) = Parts::of(bytes) {
        assert!(bytes.ends_with(parts.rest));
    }
}
