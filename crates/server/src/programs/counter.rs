//! `counter`: the smallest program. `add` takes an integer (or null, for one) and replies with the sum.

use super::{declare_all, value};
use mundi_kernel::{
    manifest::Manifest,
    program::{Cause, Event, Failure, Host, Program, View},
};
use mundi_model::{Value, cbor};
use serde_json::json;

pub(super) struct Counter;

const CELL: &str = "count";

pub(super) fn declare(manifest: &mut Manifest) {
    declare_all(manifest, &[("add", json!({"type": ["integer", "null"]}))], &[("count", json!(true))]);
}

fn count(view: &mut (impl View + ?Sized)) -> Result<i64, Failure> {
    let stored = view.get(CELL)?.map(|bytes| value(&bytes)).transpose()?;
    Ok(stored.map_or(0, |value| integer(&value)))
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => i64::try_from(*number).unwrap_or(i64::MAX),
        _ => 1,
    }
}

impl Program for Counter {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let Cause::Event { value: added, .. } = event.cause else { return Ok(()) };
        let sum = count(host)?.checked_add(integer(&value(added)?));
        let sum = cbor::encode(&Value::Integer(sum.ok_or_else(|| Failure::new("the sum has no room"))?.into()));
        host.put(CELL, &sum)?;
        if event.origin.wants_reply {
            host.reply(event.seq, &sum)?;
        }
        Ok(())
    }

    fn query(&self, view: &mut dyn View, _name: &str, _params: &[u8]) -> Result<Vec<u8>, Failure> {
        Ok(cbor::encode(&Value::Integer(count(view)?.into())))
    }
}
