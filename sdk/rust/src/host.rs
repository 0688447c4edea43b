//! The host, as a component calls it.

use crate::{
    Full, Level, Outgoing, SendOptions,
    bindings::generated::mundi::program::{host, types},
};

pub(crate) use host::{cancel, cancel_timer, delete, get, headers, height, now_ns, put, random, reply, world_id};

fn full(full: host::Full) -> Full {
    match full {
        host::Full::OpenIntents => Full::OpenIntents,
        host::Full::Timers => Full::Timers,
    }
}

fn outgoing(what: &Outgoing) -> types::Outgoing {
    match what.clone() {
        Outgoing::Event { schema, value } => types::Outgoing::Event(types::OutgoingEvent { schema, value }),
        Outgoing::Message { inbox, payload, headers } => {
            types::Outgoing::Message(types::Message { inbox, payload, headers })
        }
    }
}

pub(crate) fn scan(prefix: &str, after: Option<&str>, items_max: u32) -> Vec<(String, Vec<u8>)> {
    host::scan(prefix, after, items_max).into_iter().map(|cell| (cell.key, cell.value)).collect()
}

pub(crate) fn log(level: Level, text: &str) {
    let level = match level {
        Level::Debug => host::Level::Debug,
        Level::Info => host::Level::Info,
        Level::Warn => host::Level::Warn,
        Level::Error => host::Level::Error,
    };
    host::log(level, text);
}

pub(crate) fn emit(kind: &str, params: &[u8], label: &str) -> Result<(), Full> {
    host::emit(kind, params, label).map_err(full)
}

pub(crate) fn set_timer(label: &str, due_ns: u64, payload: &[u8]) -> Result<(), Full> {
    host::set_timer(label, due_ns, payload).map_err(full)
}

pub(crate) fn send(to: &str, what: &Outgoing, label: &str) -> Result<(), Full> {
    host::send(to, &outgoing(what), label).map_err(full)
}

pub(crate) fn send_with(to: &str, what: &Outgoing, options: &SendOptions, label: &str) -> Result<(), Full> {
    let SendOptions { universe, correlation_id, headers, message_id } = options.clone();
    let options = host::SendOptions { universe, correlation_id, headers, message_id };
    host::send_with(to, &outgoing(what), &options, label).map_err(full)
}

pub(crate) fn spawn(manifest: &str, first: Option<&Outgoing>, label: &str) -> Result<String, Full> {
    host::spawn(manifest, first.map(outgoing).as_ref(), label).map_err(full)
}
