//! The configuration: defaults < TOML file < environment (`MUNDI_SECTION__KEY`) < flags. Unknown keys are errors.
//!
//! Each section has a file with its type, its defaults, its checks, and the values that it gives to the node.

mod adapters;
mod api;
mod check;
mod effects;
mod layers;
mod node;
mod programs;
mod reference;
mod shell;
mod show;
mod storage;
#[cfg(test)]
mod tests;
mod universes;
mod watcher;
mod worlds;

pub use adapters::{CommandSection, HttpSection, LlmSection, ProcessSection};
pub use api::{ApiConfig, TlsConfig};
pub use check::ConfigError;
pub use effects::{EffectsSection, KindSection};
pub use layers::environment;
pub use node::NodeSection;
pub use programs::ProgramsSection;
pub use reference::{Setting, settings};
pub use shell::{OnNonRetryable, ShellSection};
pub use storage::{DataConfig, EngineConfig, ObjectsConfig, SweepSection};
pub use universes::{QuotasSection, UniverseSection};
pub use watcher::WatcherSection;
pub use worlds::{CycleSection, SegmentsSection, WorldsSection};

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path, time::Duration};
use toml::Value;
use utoipa::ToSchema;

/// All settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub data: DataConfig,
    pub engine: EngineConfig,
    pub objects: ObjectsConfig,
    pub node: NodeSection,
    pub worlds: WorldsSection,
    pub sweep: SweepSection,
    pub watcher: WatcherSection,
    pub effects: EffectsSection,
    pub shell: ShellSection,
    pub api: ApiConfig,
    pub http: HttpSection,
    pub llm: LlmSection,
    pub process: ProcessSection,
    pub programs: ProgramsSection,
    pub quotas: QuotasSection,
    /// Rules of a universe, by its name or id, such as `[universes.shop]`.
    pub universes: BTreeMap<String, UniverseSection>,
}

impl Config {
    /// `flags` are pairs of a path, such as `api.bind`, and a value.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, Value)],
    ) -> Result<Self, ConfigError> {
        let mut config = layers::merged(file, environment, flags)?;
        config.check()?;
        config.api.fill_defaults();
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.api.check()?;
        self.node.check()?;
        self.worlds.check()?;
        self.shell.check()?;
        self.effects.check()?;
        self.quotas.check()?;
        self.programs.check()?;
        self.objects.check(&self.engine)?;
        self.sweep.check()?;
        self.watcher.check()?;
        for (name, section) in &self.universes {
            section.rules().map_err(|cause| ConfigError::new(format!("universes.{name}"), cause))?;
        }
        Ok(())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
