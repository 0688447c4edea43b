//! The section `[programs]`: how components share processors and compilers.

use super::ConfigError;
use mundi_model::limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// With a thousand times another universe's share, a universe is practically alone.
const WEIGHT_MAX: u32 = 1_000;

/// The compiler itself needs about this much.
const COMPILE_MEMORY_BYTES_MIN: u64 = 64 << 20;

/// Processor time and memory of components.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramsSection {
    /// Steps of components that run at the same time; 0 for the number of processors. One of them is always reserved for steps
    /// that take less than 10 ms.
    pub slots: usize,
    /// Shares of the processors by universe; 1 for universes that are not listed.
    pub weights: BTreeMap<String, u32>,
    /// Seconds of processor time for the compilation of one component.
    pub compile_cpu_s_max: u64,
    /// Memory for the compilation of one component.
    pub compile_memory_bytes_max: u64,
    /// Keeps compiled functions, and uses them for components that have the same ones: an interpreter is compiled once, not with each
    /// version of a program.
    pub reuse_functions: bool,
}

impl Default for ProgramsSection {
    fn default() -> Self {
        Self {
            slots: 0,
            weights: BTreeMap::new(),
            compile_cpu_s_max: limits::COMPILE_CPU_S_MAX,
            compile_memory_bytes_max: limits::COMPILE_MEMORY_BYTES_MAX,
            reuse_functions: true,
        }
    }
}

impl ProgramsSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if let Some((universe, _)) = self.weights.iter().find(|(_, weight)| !(1..=WEIGHT_MAX).contains(*weight)) {
            let cause = format!("a weight must be 1 to {WEIGHT_MAX}");
            return Err(ConfigError::new(format!("programs.weights.{universe:?}"), cause));
        }
        if self.compile_cpu_s_max == 0 || self.compile_memory_bytes_max < COMPILE_MEMORY_BYTES_MIN {
            let cause = format!(
                "no component could be compiled: at least a second and {COMPILE_MEMORY_BYTES_MIN} bytes are needed"
            );
            return Err(ConfigError::new("programs.compile_cpu_s_max, programs.compile_memory_bytes_max", cause));
        }
        Ok(())
    }
}
