//! The host, as a program calls it in a test.

use crate::{
    Full, Level, Outgoing, SendOptions, Value, cbor,
    testing::{Intent, Timer, state::with},
};

fn value(bytes: &[u8]) -> Value {
    cbor::decode(bytes).expect("the SDK writes canonical CBOR")
}

pub(crate) fn world_id() -> String {
    "w_00000000000000000000000001".to_owned()
}

pub(crate) fn height() -> u64 {
    with(|state| state.height)
}

pub(crate) fn now_ns() -> u64 {
    with(|state| state.now_ns)
}

pub(crate) fn get(key: &str) -> Option<Vec<u8>> {
    with(|state| state.cells.get(key).cloned())
}

pub(crate) fn scan(prefix: &str, after: Option<&str>, items_max: u32) -> Vec<(String, Vec<u8>)> {
    with(|state| {
        let cells = state.cells.iter().filter(|(key, _)| key.starts_with(prefix));
        let cells = cells.filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
        cells.take(items_max as usize).map(|(key, value)| (key.clone(), value.clone())).collect()
    })
}

pub(crate) fn log(_: Level, text: &str) {
    with(|state| state.step.logs.push(text.to_owned()));
}

pub(crate) fn put(key: &str, value: &[u8]) {
    with(|state| drop(state.cells.insert(key.to_owned(), value.to_vec())));
}

pub(crate) fn delete(key: &str) {
    with(|state| drop(state.cells.remove(key)));
}

pub(crate) fn emit(kind: &str, params: &[u8], label: &str) -> Result<(), Full> {
    with(|state| {
        let label = if label.is_empty() { format!("{}.{}", state.height, state.emitted) } else { label.to_owned() };
        assert!(!state.intents.contains_key(&label), "the label `{label}` is in use");
        state.emitted += 1;
        let intent = Intent { kind: kind.to_owned(), label: label.clone(), params: value(params) };
        state.step.intents.push(intent.clone());
        state.intents.insert(label, intent);
    });
    Ok(())
}

pub(crate) fn cancel(label: &str) -> bool {
    with(|state| {
        let was_open = state.intents.remove(label).is_some();
        state.step.cancelled.extend(was_open.then(|| label.to_owned()));
        was_open
    })
}

pub(crate) fn set_timer(label: &str, due_ns: u64, payload: &[u8]) -> Result<(), Full> {
    cancel_timer(label);
    with(|state| {
        let timer = Timer { label: label.to_owned(), due_ns, payload: value(payload) };
        state.step.timers.push(timer.clone());
        state.timers.insert(label.to_owned(), timer);
    });
    Ok(())
}

pub(crate) fn cancel_timer(label: &str) -> bool {
    with(|state| {
        let was_set = state.timers.remove(label).is_some();
        state.step.cancelled.extend(was_set.then(|| label.to_owned()));
        was_set
    })
}

fn described(what: &Outgoing) -> Value {
    match what {
        Outgoing::Event { schema, value: bytes } => serde_json::json!({ "schema": schema, "value": value(bytes) }),
        Outgoing::Message { inbox, payload, headers } => {
            serde_json::json!({ "inbox": inbox, "payload": payload, "headers": headers })
        }
    }
}

pub(crate) fn send(to: &str, what: &Outgoing, label: &str) -> Result<(), Full> {
    emit("fabric.send", &cbor::encode(&serde_json::json!({ "to": to, "what": described(what) })), label)
}

pub(crate) fn send_with(to: &str, what: &Outgoing, options: &SendOptions, label: &str) -> Result<(), Full> {
    let SendOptions { universe, correlation_id, headers, message_id } = options;
    let headers: serde_json::Map<_, _> =
        headers.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
    let params = serde_json::json!({
        "to": to, "what": described(what), "dest_universe": universe, "correlation_id": correlation_id,
        "headers": headers, "message_id": message_id,
    });
    emit("fabric.send", &cbor::encode(&params), label)
}

pub(crate) fn headers() -> Vec<(String, String)> {
    with(|state| state.headers.clone())
}

pub(crate) fn spawn(manifest: &str, first: Option<&Outgoing>, label: &str) -> Result<String, Full> {
    let child = with(|state| format!("w_{:026}", state.height * 1_000 + u64::from(state.emitted)));
    let params = serde_json::json!({ "world": child, "manifest": manifest, "first": first.map(described) });
    emit("world.spawn", &cbor::encode(&params), label)?;
    Ok(child)
}

pub(crate) fn reply(to: &str, payload: &[u8]) {
    with(|state| {
        let before = state.step.replies.insert(to.to_owned(), value(payload));
        assert!(before.is_none(), "a second reply to {to}");
    });
}

pub(crate) fn random() -> u64 {
    // As good as any other sequence for a test: the same in each run, another one in each step.
    with(|state| {
        state.drawn += 1;
        let mut mixed = (state.height << 32 | state.drawn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 29;
        mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    })
}
