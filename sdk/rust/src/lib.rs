//! Programs of Mundi in Rust.
//!
//! A program is a function of its events: what it reads and writes, asks for and answers goes through [`World`]. The same
//! source is a component, when it is built for `wasm32-unknown-unknown`, and runs in ordinary tests through [`testing`],
//! without a server.
//!
//! ```
//! use mundi_sdk::{Event, Failure, Program, Value, World, testing::TestWorld};
//!
//! struct Counter;
//!
//! impl Program for Counter {
//!     const OFFER: &'static str = r#"{"events": {"add": {"type": "integer"}}, "queries": {"count": true}}"#;
//!
//!     fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
//!         let count = world.get::<i64>("count")?.unwrap_or(0) + event.value::<i64>()?;
//!         world.put("count", &count)?;
//!         world.reply(&event.seq, &count)
//!     }
//!
//!     fn query(world: &World, _: &str, _: Value) -> Result<Value, Failure> {
//!         Ok(world.get::<i64>("count")?.unwrap_or(0).into())
//!     }
//! }
//!
//! mundi_sdk::export!(Counter);
//!
//! let mut world = TestWorld::<Counter>::new();
//! assert_eq!(world.send("add", 2).unwrap().reply, Some(2.into()));
//! assert_eq!(world.send("add", 3).unwrap().reply, Some(5.into()));
//! assert_eq!(world.query("count", Value::Null).unwrap(), 5);
//! ```

// A program that brings its own allocator turns the feature off.
#[cfg(any(all(target_arch = "wasm32", feature = "arena"), test))]
mod arena;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[path = "component.rs"]
pub mod bindings;
pub mod bytes;
pub mod cbor;
pub mod children;
mod event;
mod failure;
pub mod functions;
#[cfg(target_arch = "wasm32")]
mod host;
#[cfg(not(target_arch = "wasm32"))]
#[path = "testing/host.rs"]
mod host;
pub mod kinds;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;
pub mod pools;
mod sha256;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod world;

pub use bytes::Bytes;
pub use event::{Cause, Event, Origin, Outgoing, SendOptions, Sender, Status};
pub use failure::Failure;
/// Makes an `async fn` a durable function: [`functions::Durable`].
pub use mundi_sdk_macros::durable;
pub use serde_json::Value;
pub use world::{Full, Level, World};

/// The code of a world.
pub trait Program {
    /// The program's declaration: the text of its `mundi.json`.
    const OFFER: &'static str;

    /// Takes one event. A failure throws away all that the step did, and is on record; the world goes on.
    fn handle(world: &mut World, event: &Event) -> Result<(), Failure>;

    /// Answers a question about the world, and changes nothing.
    fn query(_: &World, name: &str, _: Value) -> Result<Value, Failure> {
        Err(Failure::new(format!("this program answers no query `{name}`")))
    }
}

/// The params of an effect, which know what they are params of.
pub trait Effect: serde::Serialize {
    const KIND: &'static str;
    /// The payload of a receipt that says `ok`.
    type Receipt: serde::de::DeserializeOwned;
}

/// Makes a program the component that this crate is built to. Elsewhere it does nothing.
#[macro_export]
macro_rules! export {
    ($program:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Component;

            impl $crate::bindings::Guest for Component {
                fn handle(event: $crate::bindings::Event) -> ::std::result::Result<(), ::std::string::String> {
                    $crate::bindings::handle::<$program>(event)
                }

                fn query(
                    name: ::std::string::String,
                    params: ::std::vec::Vec<u8>,
                ) -> ::std::result::Result<::std::vec::Vec<u8>, ::std::string::String> {
                    $crate::bindings::query::<$program>(&name, &params)
                }

                fn describe() -> ::std::string::String {
                    <$program as $crate::Program>::OFFER.into()
                }
            }

    $crate::bindings::generated::export!(Component with_types_in $crate::bindings::generated);
        };
    };
}
