//! Log lines of programs: kept with the turn in a bounded tail of the world, and logged once the turn is durable.
//!
//! A replay logs nothing: lines are taken from turns that were committed, and from nothing else.

use crate::{Plane, RuntimeError};
use mundi_kernel::{LogLine, program::Level};
use mundi_model::{Height, WorldId};
use mundi_store::{
    Fence,
    keyspace::world_log::{LogLevel, LogPage, LoggedLine},
    protocol::ReadLogs,
};

/// The pages that hold the lines of a turn, the last of them the new end. `newest` is the end so far, if this host has read it.
pub(super) async fn pages<P: Plane>(
    plane: &P,
    fence: Fence,
    newest: Option<LogPage>,
    lines: &[(Height, LogLine)],
) -> Result<Vec<LogPage>, RuntimeError> {
    let newest = match newest {
        Some(newest) => newest,
        None => {
            let Fence { universe, world, .. } = fence;
            plane.run(&ReadLogs { universe, world }).await?.output.into_newest()
        }
    };
    let at_ns = plane.now_ns();
    Ok(newest.extended(lines.iter().map(|(height, line)| LoggedLine {
        height: *height,
        at_ns,
        level: level(line.level),
        text: line.text.clone(),
    })))
}

fn level(level: Level) -> LogLevel {
    match level {
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

/// Under this name lines of programs are filtered: `MUNDI_LOG=mundi::program=info`.
macro_rules! say {
    ($level:ident, $world:ident, $name:ident, $height:ident, $text:expr) => {
        tracing::event!(target: "mundi::program", tracing::Level::$level, world = %$world, name = $name, height = %$height, "{}", $text)
    };
}

/// Prints and exports lines that are durable.
pub(super) fn say((world, name): (WorldId, Option<&str>), lines: &[(Height, LogLine)]) {
    for (height, LogLine { level, text }) in lines {
        match level {
            Level::Debug => say!(DEBUG, world, name, height, text),
            Level::Info => say!(INFO, world, name, height, text),
            Level::Warn => say!(WARN, world, name, height, text),
            Level::Error => say!(ERROR, world, name, height, text),
        }
    }
}
