//! The budget of a step, and the first reason why the step must end.
//!
//! A program could ignore an error that its host returns; it cannot ignore that the meter remembers it.
//! Work of a native program between two host calls is not metered: its author is trusted not to loop
//! for ever. WASM guests charge their instructions.

use crate::{
    manifest::Limits,
    objects::LoadError,
    program::{Level, Stop},
};
use mundi_model::{Code, limits};

/// The cost of a scan before it finds anything.
const SCAN_CALLS: u64 = 16;

/// Bytes that cost as much as a call.
const CALL_BYTES: u64 = 64;

pub(crate) struct Meter {
    calls_left: u64,
    bytes_left: u64,
    outputs_left: u64,
    output_bytes_left: u64,
    /// Cells that this step deleted: each scan passes over them.
    pub(crate) deleted: u64,
    pub(crate) fault: Option<Fault>,
    pub(crate) logs: Vec<LogLine>,
}

/// A line that a program logged. No part of the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    pub level: Level,
    pub text: String,
}

/// Why a step cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not the program's fault: the turn is run again when the object is there.
    Load(LoadError),
    Exhausted(&'static str),
    /// Checks against schemas took more steps than there were.
    WorkExceeded(String),
    Refused(String),
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            calls_left: limits.step_calls_max,
            bytes_left: limits.step_bytes_max,
            outputs_left: limits.step_outputs_max,
            output_bytes_left: limits::STEP_OUTPUT_BYTES_MAX,
            deleted: 0,
            fault: None,
            logs: Vec::new(),
        }
    }

    /// One host call that moves so many bytes.
    pub(crate) fn call(&mut self, bytes: usize) -> Result<(), Stop> {
        self.charge(1)?;
        self.bytes(bytes)
    }

    /// A scan costs more than a call, and the more the more cells the step deleted before it.
    pub(crate) fn scan(&mut self, bytes: usize) -> Result<(), Stop> {
        self.charge(SCAN_CALLS + self.deleted / SCAN_CALLS)?;
        self.call(bytes)
    }

    /// The budget that the step has used so far, in calls; so many bytes count as one.
    pub(crate) fn spent(&self, limits: &Limits) -> u64 {
        let bytes = limits.step_bytes_max.saturating_sub(self.bytes_left);
        limits.step_calls_max.saturating_sub(self.calls_left) + bytes / CALL_BYTES
    }

    pub(crate) fn charge(&mut self, units: u64) -> Result<(), Stop> {
        if self.fault.is_some() {
            return Err(Stop);
        }
        self.calls_left =
            self.calls_left.checked_sub(units).ok_or_else(|| self.stop(Fault::Exhausted("host calls")))?;
        Ok(())
    }

    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<(), Stop> {
        let left = self.bytes_left.checked_sub(bytes as u64);
        self.bytes_left = left.ok_or_else(|| self.stop(Fault::Exhausted("bytes")))?;
        Ok(())
    }

    /// One record that the step adds to its transaction.
    pub(crate) fn output(&mut self, inline_bytes: usize) -> Result<(), Stop> {
        let left = self.outputs_left.checked_sub(1);
        self.outputs_left = left.ok_or_else(|| self.stop(Fault::Exhausted("outputs")))?;
        let left = self.output_bytes_left.checked_sub(inline_bytes as u64);
        self.output_bytes_left = left.ok_or_else(|| self.stop(Fault::Exhausted("output bytes")))?;
        Ok(())
    }

    /// Neither the program nor the budget ended the step: it is as if it had not begun.
    pub(crate) fn abandon(&mut self, code: Code, why: &str) -> Stop {
        self.stop(Fault::Load(LoadError::Abandoned { code, why: why.to_owned() }))
    }

    pub(crate) fn stop(&mut self, fault: Fault) -> Stop {
        self.fault.get_or_insert(fault);
        Stop
    }

    pub(crate) fn refuse<T>(&mut self, reason: impl Into<String>) -> Result<T, Stop> {
        Err(self.stop(Fault::Refused(reason.into())))
    }

    pub(crate) fn loaded<T>(&mut self, result: Result<T, LoadError>) -> Result<T, Stop> {
        result.map_err(|error| self.stop(Fault::Load(error)))
    }

    pub(crate) fn log(&mut self, level: Level, text: &str) {
        if self.logs.len() < limits::STEP_LOGS_MAX {
            let text = text[..text.floor_char_boundary(limits::LOG_LINE_BYTES_MAX)].to_owned();
            self.logs.push(LogLine { level, text });
        }
    }
}
