//! A program that does what a workload asks for.

use mundi_kernel::{
    manifest::{EffectRule, Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program},
};
use mundi_model::{Value, cbor};
use std::collections::BTreeMap;

/// - `effect`: asks for an effect, and replies when its receipt is there;
/// - `timer` with nanoseconds: sets a timer so far ahead, and replies when it fires with how late that was;
/// - `fill` with `[first, cells]`: writes so many cells of 4 KiB.
pub(super) struct Bench;

const CELL_BYTES: usize = 4_096;

pub(super) fn declare(manifest: &mut Manifest) {
    manifest.events = ["effect", "timer", "fill"].map(|name| (name.to_owned(), Schema::anything())).into();
    manifest.effects = BTreeMap::from([("blob.put".to_owned(), EffectRule::default())]);
}

fn integer(value: &Value) -> u64 {
    match value {
        Value::Integer(number) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

fn read(bytes: &[u8]) -> Result<Value, Failure> {
    cbor::decode(bytes).map_err(|error| Failure::new(error.to_string()))
}

impl Program for Bench {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Event { schema: "effect", .. } => {
                let params = Value::Map(BTreeMap::from([("bytes".to_owned(), Value::Bytes(b"content".to_vec()))]));
                host.emit("blob.put", &cbor::encode(&params), &event.seq.to_string())?;
            }
            Cause::Event { schema: "timer", value, .. } => {
                let due_ns = host.logical_now_ns() + integer(&read(value)?);
                host.set_timer(&event.seq.to_string(), due_ns, &due_ns.to_be_bytes())?;
            }
            Cause::Event { value, .. } => {
                let Value::Array(bounds) = read(value)? else { return Ok(()) };
                let [first, cells] = [0, 1].map(|index| bounds.get(index).map_or(0, integer));
                for number in first..first + cells {
                    let mut content = vec![7; CELL_BYTES];
                    content[..8].copy_from_slice(&number.to_be_bytes());
                    host.put(&format!("{number:08}"), &content)?;
                }
                host.reply(event.seq, &cbor::encode(&Value::Null))?;
            }
            Cause::Receipt { label, .. } => answer(host, label, 0)?,
            Cause::Timer { label, payload } => {
                let due_ns = payload.try_into().map_or(0, u64::from_be_bytes);
                let late_ns = host.logical_now_ns().saturating_sub(due_ns);
                answer(host, label, late_ns)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Replies to the call whose place is the label.
fn answer(host: &mut dyn Host, label: &str, value: u64) -> Result<(), Failure> {
    let call = label.parse().map_err(|_| Failure::new("the label names no call"))?;
    Ok(host.reply(call, &cbor::encode(&Value::Integer(value.into())))?)
}
