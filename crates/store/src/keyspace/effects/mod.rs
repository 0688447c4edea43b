//! Effects that are queued, claimed, tried and answered.

pub mod effect_attempt;
pub mod effect_dedupe;
pub mod effect_gate;
pub mod effect_inflight;
pub mod effect_pending;
pub mod effect_place;
pub mod effect_rate;
pub mod effect_retry;
