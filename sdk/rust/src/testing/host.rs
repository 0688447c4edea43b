//! The host, as a program calls it in a test. It refuses what a server refuses, in the same order. A program that runs natively has the host of
//! its kernel instead.

use crate::{
    Bytes, Failure, Full, Level, Outgoing, SendOptions, Value, cbor, native,
    testing::{
        Intent, Sending, Timer,
        meter::{
            CELL_KEY_BYTES_MAX, CELL_VALUE_BYTES_MAX, HEADERS_BYTES_MAX, HEADERS_MAX, NAME_BYTES_MAX,
            PAYLOAD_BYTES_MAX, PAYLOAD_INLINE_BYTES_MAX, SCAN_BYTES_MAX, SCAN_ITEMS_MAX, STEP_LOGS_MAX,
        },
        state::{State, with},
    },
};
use serde_json::{Map, json};

type Checked = Result<(), Failure>;

fn refused<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::coded("OUTPUT_REFUSED", reason))
}

fn check_name(what: &str, name: &str) -> Checked {
    match name.len() {
        0 => refused(format!("the {what} is empty")),
        len if len > NAME_BYTES_MAX => refused(format!("the {what} has {len} bytes")),
        _ => Ok(()),
    }
}

fn check_payload(bytes: &[u8]) -> Checked {
    if bytes.len() <= PAYLOAD_BYTES_MAX { Ok(()) } else { refused(format!("a payload has {} bytes", bytes.len())) }
}

/// An id: a prefix, and so many digits of an alphabet.
fn check_id(what: &str, text: &str, prefix: &str, len: usize, alphabet: &str) -> Checked {
    let digits = text.strip_prefix(prefix);
    if digits.is_some_and(|digits| digits.len() == len && digits.chars().all(|digit| alphabet.contains(digit))) {
        return Ok(());
    }
    refused(format!("`{text}` is not a {what}: expected `{prefix}` and {len} digits"))
}

const PROGRAM_NAME_BYTES_MAX: usize = 64;
const BASE32: &str = "0123456789abcdefghjkmnpqrstvwxyz";
const HEX: &str = "0123456789abcdef";

fn check_id128(what: &str, text: &str, prefix: &str) -> Checked {
    check_id(what, text, prefix, 26, BASE32)?;
    // The first digit carries three bits.
    if text[prefix.len()..].starts_with(|first: char| ('0'..='7').contains(&first)) {
        return Ok(());
    }
    refused(format!("`{text}` is not a {what}"))
}

/// A world by its id or its name.
fn check_world(text: &str) -> Checked {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    let is_name = !matches!(text, "" | "." | "..") && !text.starts_with("w_") && text.bytes().all(fits);
    if is_name && text.len() <= NAME_BYTES_MAX { Ok(()) } else { check_id128("world", text, "w_") }
}

/// A program by the hash of a manifest, or by its name and perhaps its version.
fn check_program(text: &str) -> Checked {
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = name.starts_with(|letter: char| letter.is_ascii_lowercase()) && name.bytes().all(fits);
    let is_version = version.is_none_or(|version| {
        !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit()) && version.parse::<u32>().is_ok()
    });
    if is_name && is_version && name.len() <= PROGRAM_NAME_BYTES_MAX {
        return Ok(());
    }
    check_id("program", text, "h_", 64, HEX)
}

fn check_headers(headers: &[(String, String)]) -> Checked {
    let headers: std::collections::BTreeMap<_, _> = headers.iter().map(|(name, text)| (name, text)).collect();
    let bytes: usize = headers.iter().map(|(name, text)| name.len() + text.len() + 8).sum();
    if headers.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
        return refused(format!("{} headers with {bytes} bytes", headers.len()));
    }
    Ok(())
}

pub(crate) fn world_id() -> String {
    if let Some(found) = native::call(|host| Ok(host.world_id())) {
        return found;
    }
    "w_00000000000000000000000001".to_owned()
}

pub(crate) fn height() -> u64 {
    if let Some(found) = native::call(|host| Ok(host.height())) {
        return found;
    }
    with(|state| Ok(state.height))
}

pub(crate) fn now_ns() -> u64 {
    if let Some(found) = native::call(|host| Ok(host.now_ns())) {
        return found;
    }
    with(|state| Ok(state.now_ns))
}

pub(crate) fn get(key: &str) -> Option<Vec<u8>> {
    if let Some(found) = native::call(|host| host.get(key)) {
        return found;
    }
    with(|state| {
        state.meter.call(key.len())?;
        let found = state.cells.get(key).cloned();
        state.meter.bytes(found.as_ref().map_or(0, Vec::len))?;
        Ok(found)
    })
}

pub(crate) fn scan(prefix: &str, after: Option<&str>, items_max: u32) -> Vec<(String, Vec<u8>)> {
    if let Some(found) = native::call(|host| host.scan(prefix, after, items_max)) {
        return found;
    }
    with(|state| {
        state.meter.scan(prefix.len())?;
        let cells = state.cells.iter().filter(|(key, _)| key.starts_with(prefix));
        let cells = cells.filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
        let (mut found, mut bytes) = (Vec::new(), 0);
        for (key, value) in cells.take(items_max.min(SCAN_ITEMS_MAX) as usize) {
            bytes += key.len() + value.len();
            if bytes > SCAN_BYTES_MAX && !found.is_empty() {
                break;
            }
            found.push((key.clone(), value.clone()));
        }
        state.meter.charge(found.len() as u64)?;
        state.meter.bytes(found.iter().map(|(key, value)| key.len() + value.len()).sum())?;
        Ok(found)
    })
}

pub(crate) fn log(level: Level, text: &str) {
    if let Some(()) = native::call(|host| {
        host.log(level, text);
        Ok(())
    }) {
        return;
    }
    with(|state| {
        state.meter.charge(1)?;
        if state.step.logs.len() < STEP_LOGS_MAX {
            state.step.logs.push(text.to_owned());
        }
        Ok(())
    });
}

pub(crate) fn put(key: &str, value: &[u8]) {
    if let Some(()) = native::call(|host| host.put(key, value)) {
        return;
    }
    with(|state| {
        state.meter.call(key.len() + value.len())?;
        if key.is_empty() || key.len() > CELL_KEY_BYTES_MAX {
            return refused(format!("the key of a cell has {} bytes", key.len()));
        }
        if value.len() > CELL_VALUE_BYTES_MAX {
            return refused(format!("the cell `{key}` would have {} bytes", value.len()));
        }
        state.cells.insert(key.to_owned(), value.to_vec());
        Ok(())
    });
}

pub(crate) fn delete(key: &str) {
    if let Some(()) = native::call(|host| host.delete(key)) {
        return;
    }
    with(|state| {
        state.meter.call(key.len())?;
        state.meter.deleted += 1;
        state.cells.remove(key);
        Ok(())
    });
}

pub(crate) fn emit(kind: &str, params: &[u8], label: &str) -> Result<(), Full> {
    if let Some(found) = native::call(|host| host.emit(kind, params, label)) {
        return found;
    }
    with(|state| {
        state.meter.call(kind.len() + params.len() + label.len())?;
        if ["timer.set", "fabric.send", "world.spawn"].contains(&kind) {
            return refused(format!("the effect kind `{kind}` has a call of its own"));
        }
        check_name("effect kind", kind)?;
        check_payload(params)?;
        state.offer.check_effect(kind, params)?;
        open_effect(state, kind, params, label)
    })
}

/// An effect of any kind but a timer.
fn open_effect(state: &mut State, kind: &str, params: &[u8], label: &str) -> Result<Result<(), Full>, Failure> {
    check_payload(params)?;
    // They are part of its token, which is one value of the engine.
    if kind == "child.spawn" && params.len() > PAYLOAD_INLINE_BYTES_MAX {
        return refused(format!("the parameters of a child have {} bytes", params.len()));
    }
    let label = if label.is_empty() { format!("{}.{}", state.height, state.emitted) } else { label.to_owned() };
    check_name("label", &label)?;
    if state.intents.contains_key(&label) {
        return refused(format!("the label `{label}` is in use"));
    }
    if state.intents.len() as u64 >= state.offer.limits.open_intents_max {
        return Ok(Err(Full::OpenIntents));
    }
    state.meter.output(params.len(), kind.len() + label.len())?;
    state.emitted += 1;
    let value = cbor::decode(params).map_err(|error| Failure::coded("OUTPUT_REFUSED", error.to_string()))?;
    let intent = Intent { kind: kind.to_owned(), label: label.clone(), params: value };
    state.step.intents.push(intent.clone());
    state.opened += 1;
    state.ages.insert(label.clone(), state.opened);
    state.intents.insert(label, intent);
    Ok(Ok(()))
}

pub(crate) fn cancel(label: &str) -> bool {
    if let Some(found) = native::call(|host| host.cancel(label)) {
        return found;
    }
    with(|state| {
        state.meter.call(label.len())?;
        let was_open = state.intents.remove(label).is_some();
        if was_open {
            state.meter.output(0, 0)?;
            state.closed.insert(label.to_owned());
            state.step.cancelled.push(label.to_owned());
        }
        Ok(was_open)
    })
}

pub(crate) fn set_timer(label: &str, due_ns: u64, payload: &[u8]) -> Result<(), Full> {
    if let Some(found) = native::call(|host| host.set_timer(label, due_ns, payload)) {
        return found;
    }
    with(|state| {
        state.meter.call(label.len() + payload.len())?;
        check_name("label", label)?;
        check_payload(payload)?;
        withdraw_timer(state, label)?;
        if state.timers.len() as u64 >= state.offer.limits.timers_max {
            return Ok(Err(Full::Timers));
        }
        state.meter.output(payload.len(), label.len())?;
        state.emitted += 1;
        let payload = cbor::decode(payload).map_err(|error| Failure::coded("OUTPUT_REFUSED", error.to_string()))?;
        let timer = Timer { label: label.to_owned(), due_ns, payload };
        state.step.timers.push(timer.clone());
        state.timers.insert(label.to_owned(), timer);
        Ok(Ok(()))
    })
}

fn withdraw_timer(state: &mut State, label: &str) -> Result<bool, Failure> {
    let was_set = state.timers.remove(label).is_some();
    if was_set {
        state.meter.output(0, 0)?;
        state.step.cancelled.push(label.to_owned());
    }
    Ok(was_set)
}

pub(crate) fn cancel_timer(label: &str) -> bool {
    if let Some(found) = native::call(|host| host.cancel_timer(label)) {
        return found;
    }
    with(|state| {
        state.meter.call(label.len())?;
        withdraw_timer(state, label)
    })
}

/// The params of a message, as the server makes them.
fn message_params(to: &str, manifest: Option<&str>, what: Option<&Outgoing>, options: &SendOptions) -> Value {
    let texts = |pairs: &mut dyn Iterator<Item = &(String, String)>| {
        pairs.map(|(name, text)| (name.clone(), text.as_str().into())).collect::<Map<_, _>>()
    };
    let bytes = |bytes: &[u8]| json!(Bytes(bytes.to_vec()));
    let mut params = Map::from_iter([("dest_world".to_owned(), to.into())]);
    let mut set = |name: &str, value: Value| params.insert(name.to_owned(), value);
    if let Some(manifest) = manifest {
        set("manifest", manifest.into());
    }
    match what {
        None => {}
        Some(Outgoing::Event { schema, value }) => {
            if !options.headers.is_empty() {
                set("headers", texts(&mut options.headers.iter()).into());
            }
            set("mode", "typed_event".into());
            set("schema", schema.as_str().into());
            set("value_cbor", bytes(value));
        }
        Some(Outgoing::Message { inbox, payload, headers }) => {
            set("mode", "inbox".into());
            set("inbox", inbox.as_str().into());
            set("payload_cbor", bytes(payload));
            set("headers", texts(&mut headers.iter().chain(&options.headers)).into());
        }
    }
    let options = [
        ("dest_universe", &options.universe),
        ("correlation_id", &options.correlation_id),
        ("message_id", &options.message_id),
    ];
    for (name, said) in options {
        said.as_ref().map(|said| set(name, said.as_str().into()));
    }
    params.into()
}

fn require_declared(state: &State, kind: &str) -> Checked {
    if state.offer.effects.contains_key(kind) {
        return Ok(());
    }
    refused(format!("mundi.json does not declare the effect `{kind}`"))
}

fn check_options(state: &State, options: &SendOptions) -> Checked {
    if let Some(correlation_id) = &options.correlation_id {
        check_name("correlation id", correlation_id)?;
    }
    check_headers(&options.headers)?;
    let allowed = state.offer.effects.get("fabric.send").is_some_and(|rule| rule.message_ids);
    if options.message_id.is_some() && !allowed {
        return refused("mundi.json does not allow the program to choose message ids");
    }
    Ok(())
}

pub(crate) fn send(to: &str, what: &Outgoing, label: &str) -> Result<(), Full> {
    send_with(to, what, &SendOptions::default(), label)
}

pub(crate) fn send_with(to: &str, what: &Outgoing, options: &SendOptions, label: &str) -> Result<(), Full> {
    if let Some(found) = native::call(|host| host.send_with(to, what, options, label)) {
        return found;
    }
    with(|state| {
        check_world(to)?;
        options.universe.as_deref().map_or(Ok(()), |id| check_id128("universe id", id, "u_"))?;
        options.message_id.as_deref().map_or(Ok(()), |id| check_id("hash", id, "h_", 64, HEX))?;
        let params = cbor::encode(&message_params(to, None, Some(what), options));
        state.meter.call(params.len() + label.len())?;
        require_declared(state, "fabric.send")?;
        check_options(state, options)?;
        let before = state.step.intents.len();
        let opened = open_effect(state, "fabric.send", &params, label)?;
        if let Some(intent) = state.step.intents.get(before) {
            let sending = Sending::new(to, &intent.label, what, options)?;
            state.step.sent.push(sending);
        }
        Ok(opened)
    })
}

pub(crate) fn headers() -> Vec<(String, String)> {
    if let Some(found) = native::call(|host| Ok(host.headers())) {
        return found;
    }
    with(|state| {
        state.meter.charge(1)?;
        Ok(state.headers.clone())
    })
}

pub(crate) fn spawn(manifest: &str, first: Option<&Outgoing>, label: &str) -> Result<String, Full> {
    if let Some(found) = native::call(|host| host.spawn(manifest, first, label)) {
        return found;
    }
    with(|state| {
        check_program(manifest)?;
        let child = format!("w_{:026}", state.height * 1_000 + u64::from(state.emitted));
        let params = cbor::encode(&message_params(&child, Some(manifest), first, &SendOptions::default()));
        state.meter.call(params.len() + label.len())?;
        require_declared(state, "world.spawn")?;
        Ok(open_effect(state, "world.spawn", &params, label)?.map(|()| child))
    })
}

pub(crate) fn reply(to: &str, payload: &[u8]) {
    if let Some(()) = native::call(|host| host.reply(to, payload)) {
        return;
    }
    with(|state| {
        check_id("inbox sequence", to, "s_", 24, HEX)?;
        state.meter.call(payload.len())?;
        check_payload(payload)?;
        if state.step.replies.contains_key(to) {
            return refused(format!("a second reply to {to}"));
        }
        state.meter.output(payload.len(), 0)?;
        let value = cbor::decode(payload).map_err(|error| Failure::coded("OUTPUT_REFUSED", error.to_string()))?;
        state.step.replies.insert(to.to_owned(), value);
        Ok(())
    });
}

pub(crate) fn random() -> u64 {
    if let Some(found) = native::call(|host| host.random()) {
        return found;
    }
    // As good as any other sequence for a test: the same in each run, another one in each step.
    with(|state| {
        state.meter.call(8)?;
        state.drawn += 1;
        let mut mixed = (state.height << 32 | state.drawn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 29;
        Ok(mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9))
    })
}
