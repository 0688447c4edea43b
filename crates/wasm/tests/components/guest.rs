//! Guests, written by hand in the text form, so that no compiler is needed to be hostile.

use mundi_wasm::build::componentize;

/// The description that a guest gives unless it lies: one event, one effect, one query.
pub(crate) const OFFER: &str = r#"{"events":{"go":true},"effects":{"http.get":{}},"queries":{"ask":true}}"#;

/// A guest in the making: each part has a harmless default.
pub(crate) struct Guest {
    pub(crate) offer: String,
    /// Imports beside those of `IMPORTS`.
    pub(crate) imports: &'static str,
    /// Other definitions.
    pub(crate) extra: String,
    pub(crate) handle: String,
    pub(crate) query: String,
    pub(crate) memory: &'static str,
    /// Instructions that it runs at each allocation of memory.
    pub(crate) giving: &'static str,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            offer: OFFER.to_owned(),
            imports: "",
            extra: String::new(),
            handle: "i32.const 0".to_owned(),
            query: "i32.const 0".to_owned(),
            memory: "(memory (export \"memory\") 2)",
            giving: "",
        }
    }
}

/// The imports that guests use. Each has its canonical ABI form.
const IMPORTS: &str = r#"
  (import "mundi:program/host@1.1.0" "put" (func $put (param i32 i32 i32 i32)))
  (import "mundi:program/host@1.1.0" "get" (func $get (param i32 i32 i32)))
  (import "mundi:program/host@1.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32 i32 i32)))
  (import "mundi:program/host@1.1.0" "reply" (func $reply (param i32 i32 i32 i32)))
  (import "mundi:program/host@1.1.0" "log" (func $log (param i32 i32 i32)))
  (import "mundi:program/host@1.1.0" "random" (func $random (result i64)))
"#;

/// Memory: 0..256 stays zero (an `ok` of any shape), 256 is scratch for answers, 512 the texts below, 4096 the
/// description, and what is allocated begins at 65536.
const TEXTS: &str = r#"
  (data (i32.const 512) "cell")
  (data (i32.const 520) "http.get")
  (data (i32.const 536) "\f6")
  (data (i32.const 540) "\ff\fe\fd\fc")
"#;

impl Guest {
    pub(crate) fn handling(handle: &str) -> Self {
        Self { handle: handle.to_owned(), ..Self::default() }
    }

    pub(crate) fn asked(query: &str) -> Self {
        Self { query: query.to_owned(), ..Self::default() }
    }

    pub(crate) fn core(&self) -> Vec<u8> {
        let Self { offer, imports, extra, handle, query, memory, giving } = self;
        let escaped: String = offer.bytes().map(|byte| format!("\\{byte:02x}")).collect();
        let text = format!(
            r#"(module {IMPORTS} {imports}
              {memory}
              (global $free (mut i32) (i32.const 65536))
              {TEXTS}
              (data (i32.const 4096) "{escaped}")
              {extra}
              (func (export "cabi_realloc") (param $old i32) (param i32 i32) (param $size i32) (result i32)
                (local $at i32)
                {giving}
                (local.set $at (i32.and (i32.add (global.get $free) (i32.const 15)) (i32.const -16)))
                (global.set $free (i32.add (local.get $at) (local.get $size)))
                (block $fits
                  (br_if $fits (i32.le_u (global.get $free) (i32.mul (memory.size) (i32.const 65536))))
                  (drop (memory.grow (i32.const 64))))
                (local.get $at))
              (func (export "describe") (result i32)
                (i32.store (i32.const 256) (i32.const 4096))
                (i32.store (i32.const 260) (i32.const {len}))
                (i32.const 256))
              (func $handle (export "handle") (param $event i32) (result i32) (local $i i32) {handle})
              (func (export "query") (param $name i32) (param $name_len i32) (param $params i32) (param $params_len i32)
                (result i32) {query}))"#,
            len = offer.len(),
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    pub(crate) fn component(&self) -> Vec<u8> {
        componentize(&self.core()).unwrap()
    }
}

/// Counts its events in the cell `cell`, as one byte, and replies with the count as CBOR (up to 23).
pub(crate) fn counter() -> Guest {
    Guest::handling(
        r#"
        (call $get (i32.const 512) (i32.const 4) (i32.const 256))
        (if (i32.load8_u (i32.const 256)) (then
          (local.set $i (i32.load8_u (i32.load (i32.const 260))))))
        (i32.store8 (i32.const 300) (i32.add (local.get $i) (i32.const 1)))
        (call $put (i32.const 512) (i32.const 4) (i32.const 300) (i32.const 1))
        (call $reply (i32.load (local.get $event)) (i32.load offset=4 (local.get $event)) (i32.const 300) (i32.const 1))
        i32.const 0"#,
    )
}

/// Something good with changes that a fuzzer draws, so that it need not find out first what is good at all. Each change
/// is of five bytes: what is done, where, and with what.
pub(crate) fn changed(good: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for change in changes.chunks_exact(5).take(64) {
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % (bytes.len() + 1);
        let to = (at + usize::from(change[3])).min(bytes.len());
        match change[0] % 5 {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = change[4]),
            1 => bytes.insert(at, change[4]),
            2 => drop(bytes.drain(at..to)),
            // A part once more, here or elsewhere.
            3 => drop(bytes.splice(at..at, bytes[at..to].to_vec())),
            _ => drop(bytes.splice(bytes.len().min(usize::from(change[4])).., bytes[at..to].to_vec())),
        }
    }
    bytes
}
