//! The network thread of the client library: started once in a process, and stopped before the process ends.

use super::client_error::refused;
use crate::EngineError;
use foundationdb::api::{FdbApiBuilder, NetworkAutoStop};
use parking_lot::Mutex;

enum Network {
    NotStarted,
    Running(#[expect(dead_code, reason = "dropping it stops the thread")] NetworkAutoStop),
    /// The library allows no second attempt.
    Failed(EngineError),
    Stopped,
}

static NETWORK: Mutex<Network> = Mutex::new(Network::NotStarted);

/// Starts the thread, unless it runs.
pub(super) fn start() -> Result<(), EngineError> {
    let mut network = NETWORK.lock();
    match &*network {
        Network::Running(_) => Ok(()),
        Network::Failed(error) => Err(error.clone()),
        Network::Stopped => Err(EngineError::Closed),
        Network::NotStarted => {
            let (now, answer) = match boot() {
                Ok(running) => (Network::Running(running), Ok(())),
                Err(error) => (Network::Failed(error.clone()), Err(error)),
            };
            *network = now;
            answer
        }
    }
}

#[expect(unsafe_code, reason = "the library must be stopped before the process ends, which its binding cannot ensure")]
fn boot() -> Result<NetworkAutoStop, EngineError> {
    // First, so that nothing runs that would not be stopped.
    // SAFETY: the function is given for the whole life of the process, and does not unwind: it drops a value.
    if unsafe { libc::atexit(stop) } != 0 {
        let cause = std::io::Error::other("no function can be registered for the end of the process");
        return Err(EngineError::failed("starting the client of FoundationDB", cause));
    }
    let builder = FdbApiBuilder::default().build();
    // SAFETY: `stop` drops what this returns before the process ends, also by `exit`. It runs before the library's own end, which was
    // registered when the library was loaded. A process that is aborted needs no stop.
    let running = builder.and_then(|builder| unsafe { builder.boot() });
    running.map_err(|error| refused("starting the client of FoundationDB", error))
}

extern "C" fn stop() {
    // Whoever holds the lock is in the middle of a start: then the process ends as if it were aborted.
    if let Some(mut network) = NETWORK.try_lock() {
        *network = Network::Stopped;
    }
}
