//! Components that were written by hand: no compiler of guests is needed to have some.

use mundi_wasm::build::componentize;

/// A component of a module in text form, with a memory, an allocator that never frees, and `describe`. `strings` stands at 512 in its memory; the
/// schema is what `describe` answers; `functions` exports `handle` and `query`.
pub(crate) fn component(imports: &str, strings: &str, schema: &str, functions: &str) -> Vec<u8> {
    let (length, schema) = (schema.len(), schema.replace('"', "\\\""));
    let text = format!(
        r#"(module
      {imports}
      (memory (export "memory") 1)
      (global $free (mut i32) (i32.const 8192))
      (data (i32.const 512) "{strings}")
      (data (i32.const 1024) "{schema}")
      (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        (local $at i32)
        (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
        (global.set $free (i32.add (local.get $at) (local.get 3)))
        (local.get $at))
      (func (export "describe") (result i32)
        (i32.store (i32.const 256) (i32.const 1024)) (i32.store (i32.const 260) (i32.const {length})) (i32.const 256))
      {functions})"#
    );
    componentize(&wat::parse_str(text).unwrap()).unwrap()
}

/// Adds the CBOR byte that it is sent (0 to 23) to a cell of one byte, and replies with the sum.
pub(crate) fn adder() -> Vec<u8> {
    // An event in memory: 8 bytes of place, 64 of origin, 4 of the cause's case, 8 of the schema's name.
    let functions = r#"
  (func $sum (result i32)
    (call $get (i32.const 512) (i32.const 3) (i32.const 256))
    (if (result i32) (i32.load8_u (i32.const 256)) (then (i32.load8_u (i32.load (i32.const 260)))) (else (i32.const 0))))
  (func (export "handle") (param $event i32) (result i32)
    ;; The value of an event: its pointer stands behind the name of its schema.
    (i32.store8 (i32.const 300) (i32.add (call $sum)
      (i32.load8_u (i32.load offset=VALUE (local.get $event)))))
    (call $put (i32.const 512) (i32.const 3) (i32.const 300) (i32.const 1))
    (call $reply (i32.load (local.get $event)) (i32.load offset=4 (local.get $event)) (i32.const 300) (i32.const 1))
    (i32.const 0))
  (func (export "query") (param i32 i32 i32 i32) (result i32)
    (i32.store8 (i32.const 300) (call $sum))
    (i32.store (i32.const 260) (i32.const 300)) (i32.store (i32.const 264) (i32.const 1))
    (i32.store8 (i32.const 256) (i32.const 0)) (i32.const 256))"#;
    let imports = r#"
(import "mundi:program/host@1.1.0" "get" (func $get (param i32 i32 i32)))
(import "mundi:program/host@1.1.0" "put" (func $put (param i32 i32 i32 i32)))
(import "mundi:program/host@1.1.0" "reply" (func $reply (param i32 i32 i32 i32)))"#;
    let schema = r#"{"events":{"add":{"type":"integer","maximum":23}},"queries":{"sum":true}}"#;
    component(imports, "sum", schema, &functions.replace("VALUE", "84"))
}

/// Asks for an effect that nobody carries out, on each event; `then` is what it does after that.
pub(crate) fn asker(then: &str) -> Vec<u8> {
    let functions = r#"
      (func $handle (export "handle") (param $event i32) (result i32)
        ;; Only on an event: the case of the cause stands behind the origin.
        (if (i32.eqz (i32.load8_u offset=72 (local.get $event))) (then
          (call $emit (i32.const 512) (i32.const 7) (i32.const 519) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 256))
          THEN))
        (i32.const 0))
      (func (export "query") (param i32 i32 i32 i32) (result i32) (i32.const 0))"#;
    let imports = r#"
    (import "mundi:program/host@1.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32 i32 i32)))
    (import "mundi:program/host@1.1.0" "put" (func $put (param i32 i32 i32 i32)))"#;
    let schema = r#"{"events":{"go":true},"effects":{"outside":{}}}"#;
    component(imports, r"outside\f6", schema, &functions.replace("THEN", then))
}

/// Logs a line on each event, traps if it is sent 13, and replies with what it was sent.
pub(crate) fn superstitious() -> Vec<u8> {
    let functions = r#"
      (func (export "handle") (param $event i32) (result i32)
        (local $value i32)
        (local.set $value (i32.load offset=84 (local.get $event)))
        (call $log (i32.const 1) (i32.const 512) (i32.const 13))
        (if (i32.eq (i32.load8_u (local.get $value)) (i32.const 13)) (then unreachable))
        (call $reply (i32.load (local.get $event)) (i32.load offset=4 (local.get $event)) (local.get $value) (i32.const 1))
        (i32.const 0))
      (func (export "query") (param i32 i32 i32 i32) (result i32) (i32.const 0))"#;
    let imports = r#"
    (import "mundi:program/host@1.1.0" "log" (func $log (param i32 i32 i32)))
    (import "mundi:program/host@1.1.0" "reply" (func $reply (param i32 i32 i32 i32)))"#;
    let schema = r#"{"events":{"go":{"type":"integer","maximum":23}}}"#;
    component(imports, "a number came", schema, functions)
}
