//! The budget of a step, counted as the server counts it. Fuel and memory of components are not counted here.

use super::offer::Limits;
use crate::Failure;

/// Bounds that the server has for all programs.
pub(crate) const NAME_BYTES_MAX: usize = 256;
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 20;
pub(crate) const PAYLOAD_INLINE_BYTES_MAX: usize = 16 << 10;
pub(crate) const CELL_KEY_BYTES_MAX: usize = 512;
pub(crate) const CELL_VALUE_BYTES_MAX: usize = 1 << 20;
pub(crate) const SCAN_ITEMS_MAX: u32 = 1_000;
pub(crate) const SCAN_BYTES_MAX: usize = 1 << 20;
pub(crate) const HEADERS_MAX: usize = 64;
pub(crate) const HEADERS_BYTES_MAX: usize = 16 << 10;
pub(crate) const STEP_LOGS_MAX: usize = 100;
const STEP_OUTPUT_BYTES_MAX: u64 = 1_000_000;
const SCAN_CALLS: u64 = 16;
const HASH_BYTES: usize = 32;

#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    calls_left: u64,
    bytes_left: u64,
    outputs_left: u64,
    output_bytes_left: u64,
    pub(crate) deleted: u64,
}

type Checked = Result<(), Failure>;

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            calls_left: limits.step_calls_max,
            bytes_left: limits.step_bytes_max,
            outputs_left: limits.step_outputs_max,
            output_bytes_left: STEP_OUTPUT_BYTES_MAX,
            deleted: 0,
        }
    }

    pub(crate) fn call(&mut self, bytes: usize) -> Checked {
        self.charge(1)?;
        self.bytes(bytes)
    }

    pub(crate) fn scan(&mut self, bytes: usize) -> Checked {
        self.charge(SCAN_CALLS + self.deleted / SCAN_CALLS)?;
        self.call(bytes)
    }

    pub(crate) fn charge(&mut self, units: u64) -> Checked {
        spend(&mut self.calls_left, units, "host calls")
    }

    pub(crate) fn bytes(&mut self, bytes: usize) -> Checked {
        spend(&mut self.bytes_left, bytes as u64, "bytes")
    }

    /// One record that the step adds. A large payload is stored beside it.
    pub(crate) fn output(&mut self, payload_bytes: usize, other_bytes: usize) -> Checked {
        let inline = if payload_bytes <= PAYLOAD_INLINE_BYTES_MAX { payload_bytes } else { HASH_BYTES };
        spend(&mut self.outputs_left, 1, "outputs")?;
        spend(&mut self.output_bytes_left, (inline + other_bytes) as u64, "output bytes")
    }
}

fn spend(left: &mut u64, units: u64, what: &str) -> Checked {
    *left = left.checked_sub(units).ok_or_else(|| Failure::coded("BUDGET_EXHAUSTED", format!("no {what} left")))?;
    Ok(())
}
