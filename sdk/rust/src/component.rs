//! The component's side of the contract.

use crate::{Cause, Origin, Program, Sender, Status, World, cbor};
use generated::mundi::program::types;

pub mod generated {
    wit_bindgen::generate!({
        path: "wit",
        world: "program",
        pub_export_macro: true,
        default_bindings_module: "mundi_sdk::bindings::generated",
    });
}

pub use generated::{Event, Guest};

/// Implements `handle` of a component.
pub fn handle<P: Program>(event: types::Event) -> Result<(), String> {
    let handled = guarded(|| P::handle(&mut World::new(), &event_of(event)));
    handled.map_err(|failure| failure.reason)
}

/// Implements `query` of a component.
pub fn query<P: Program>(name: &str, params: &[u8]) -> Result<Vec<u8>, String> {
    let params = cbor::decode(params).map_err(|error| error.to_string())?;
    let answer = guarded(|| P::query(&World::new(), name, params)).map_err(|failure| failure.reason)?;
    Ok(cbor::encode(&answer))
}

/// A panic ends the instance; its text goes to the log first, or nobody would ever see it.
fn guarded<T>(run: impl FnOnce() -> T) -> T {
    std::panic::set_hook(Box::new(|panic| crate::host::log(crate::Level::Error, &panic.to_string())));
    run()
}

fn event_of(event: types::Event) -> crate::Event {
    let types::Event { seq, origin, cause } = event;
    let origin = Origin {
        enqueued_at_ns: origin.enqueued_at_ns,
        correlation_id: origin.correlation_id,
        trace: origin.trace,
        wants_reply: origin.wants_reply,
        sender: origin.sender.map(|sender| Sender { world: sender.world_id, height: sender.height }),
    };
    let cause = match cause {
        types::Cause::Event(event) => Cause::Event { schema: event.schema, value: event.value, key: event.key },
        types::Cause::Receipt(receipt) => Cause::Receipt {
            label: receipt.label,
            kind: receipt.kind,
            status: match receipt.status {
                types::Status::Ok => Status::Ok,
                types::Status::Error => Status::Error,
                types::Status::Timeout => Status::Timeout,
            },
            payload: receipt.payload,
        },
        types::Cause::Message(message) => {
            Cause::Message { inbox: message.inbox, payload: message.payload, headers: message.headers }
        }
        types::Cause::Timer(timer) => Cause::Timer { label: timer.label, payload: timer.payload },
        types::Cause::Upgraded(from) => Cause::Upgraded { from },
    };
    crate::Event { seq, origin, cause }
}
