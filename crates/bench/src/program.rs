//! The program of the workloads.

use mundi_kernel::{
    manifest::{EffectRule, Manifest, Schema},
    program::{Cause, Event, Failure, Host, Outgoing, Program, View},
};
use mundi_model::{
    Value, cbor,
    child::{CHILD_SPAWN, Spend, spec_params},
};
use mundi_server::programs::Programs;
use std::collections::BTreeMap;

/// - `effect`: asks for an effect, and replies when its receipt is there;
/// - `http` with a URL: the same through the loopback;
/// - `child`: spawns a child that does nothing, and replies when it has ended;
/// - `message` with a world: sends it a `note`, and replies when that is in its inbox;
/// - `timer` with nanoseconds: sets a timer so far ahead, and replies when it fires with how late that was;
/// - `timers` with `[timers, nanoseconds]`: sets so many; `fired` tells how many fired, `late` how late they were: how many by up to
///   25 ms, up to 50 ms, and so on;
/// - `fill` with `[first, cells]`: writes so many cells of 4 KiB.
struct Bench;

/// The programs of users, and the program of the benches.
pub(crate) fn programs() -> Programs {
    Programs::builtin().native("bench", 1, Bench, declare)
}

const CELL_BYTES: usize = 4_096;
/// The kind of children that the bench of children runs itself.
pub(crate) const NO_WORK: &str = "external.nothing";

fn declare(manifest: &mut Manifest) {
    let events = ["child", "effect", "http", "message", "note", "timer", "timers", "fill"];
    manifest.events = events.map(|name| (name.to_owned(), Schema::anything())).into();
    manifest.queries = BTreeMap::from(["fired", "late"].map(|name| (name.to_owned(), Schema::anything())));
    let effects = ["blob.put", "http.request", "fabric.send", CHILD_SPAWN];
    manifest.effects = effects.map(|kind| (kind.to_owned(), EffectRule::default())).into();
}

fn integer(value: &Value) -> u64 {
    match value {
        Value::Integer(number) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

fn pair(bytes: &[u8]) -> Result<[u64; 2], Failure> {
    let Value::Array(numbers) = read(bytes)? else { return Err(Failure::new("two numbers are needed")) };
    Ok([0, 1].map(|index| numbers.get(index).map_or(0, integer)))
}

fn read(bytes: &[u8]) -> Result<Value, Failure> {
    cbor::decode(bytes).map_err(|error| Failure::new(error.to_string()))
}

fn ask<const N: usize>(
    host: &mut dyn Host,
    kind: &str,
    params: [(&str, Value); N],
    label: &str,
) -> Result<(), Failure> {
    let params = Value::Map(params.map(|(name, value)| (name.to_owned(), value)).into());
    host.emit(kind, &cbor::encode(&params), label)?;
    Ok(())
}

impl Program for Bench {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let call = event.seq.to_string();
        match event.cause {
            Cause::Event { schema: "effect", .. } => {
                ask(host, "blob.put", [("bytes", Value::Bytes(b"content".to_vec()))], &call)
            }
            Cause::Event { schema: "child", .. } => {
                let params = spec_params(NO_WORK, &Value::Null, &Spend::default());
                Ok(host.spawn_child(&params, &call).map(drop)?)
            }
            Cause::Event { schema: "http", value, .. } => ask(host, "http.request", [("url", read(value)?)], &call),
            Cause::Event { schema: "message", value, .. } => {
                let Value::Text(to) = read(value)? else { return Err(Failure::new("a world is needed")) };
                let to = to.parse().map_err(|_| Failure::new("that names no world"))?;
                let one = cbor::encode(&Value::Integer(1.into()));
                Ok(host.send(to, &Outgoing::Event { schema: "note", value: &one }, &call)?)
            }
            Cause::Event { schema: "note", .. } => add(host, "notes", 1).map(drop),
            Cause::Event { schema: "timer", value, .. } => {
                let due_ns = host.logical_now_ns() + integer(&read(value)?);
                Ok(host.set_timer(&call, due_ns, &due_ns.to_be_bytes()).map(drop)?)
            }
            Cause::Event { schema: "timers", value, .. } => {
                let [timers, ahead_ns] = pair(value)?;
                let due_ns = host.logical_now_ns() + ahead_ns;
                for number in 0..timers {
                    host.set_timer(&format!("{call}{ONE_OF_MANY}{number}"), due_ns, &due_ns.to_be_bytes())?;
                }
                Ok(host.reply(event.seq, &cbor::encode(&Value::Null))?)
            }
            Cause::Event { value, .. } => {
                let [first, cells] = pair(value)?;
                for number in first..first + cells {
                    let mut content = vec![7; CELL_BYTES];
                    content[..8].copy_from_slice(&number.to_be_bytes());
                    host.put(&format!("{number:08}"), &content)?;
                }
                Ok(host.reply(event.seq, &cbor::encode(&Value::Null))?)
            }
            Cause::Receipt { label, .. } => answer(host, label, 0),
            Cause::Timer { label, payload } => {
                let due_ns = payload.try_into().map_or(0, u64::from_be_bytes);
                let late_ns = host.logical_now_ns().saturating_sub(due_ns);
                if !label.contains(ONE_OF_MANY) {
                    return answer(host, label, late_ns);
                }
                add(host, FIRED, 1)?;
                add(host, &late_cell((late_ns / LATE_STEP_NS).min(LATE_STEPS - 1)), 1).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn query(&self, view: &mut dyn View, name: &str, _params: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut number = |cell: &str| count(view, cell).map(|count| Value::Integer(count.into()));
        let answer = match name {
            "late" => Value::Array((0..LATE_STEPS).map(|step| number(&late_cell(step))).collect::<Result<_, _>>()?),
            _ => number(FIRED)?,
        };
        Ok(cbor::encode(&answer))
    }
}

const FIRED: &str = "fired";
pub(crate) const LATE_STEP_NS: u64 = 25_000_000;
/// Two minutes in all; what is later counts as that late.
const LATE_STEPS: u64 = 4_800;

fn late_cell(step: u64) -> String {
    format!("late {step}")
}

/// In the label of a timer that nobody waits for by itself.
const ONE_OF_MANY: char = '/';

fn count(view: &mut (impl View + ?Sized), cell: &str) -> Result<u64, Failure> {
    Ok(view.get(cell)?.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes))
}

fn add(host: &mut dyn Host, cell: &str, number: u64) -> Result<u64, Failure> {
    let sum = count(host, cell)?.saturating_add(number);
    host.put(cell, &sum.to_be_bytes())?;
    Ok(sum)
}

/// Replies to the call whose place is the label.
fn answer(host: &mut dyn Host, label: &str, value: u64) -> Result<(), Failure> {
    let call = label.parse().map_err(|_| Failure::new("the label names no call"))?;
    Ok(host.reply(call, &cbor::encode(&Value::Integer(value.into())))?)
}
