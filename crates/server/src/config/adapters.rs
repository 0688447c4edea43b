//! The sections `[http]`, `[llm]` and `[process]`: the adapters that come with Mundi.

use super::ConfigError;
use mundi_adapters::{
    http::HttpConfig,
    llm::LlmConfig,
    process::{AllowedCommand, ProcessConfig},
};
use mundi_model::limits;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};
use utoipa::ToSchema;

/// The adapter `http.request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSection {
    /// Private hosts that programs may reach by `http.request` and `llm.chat`, as written in the URL and without
    /// a port, such as `["localhost", "10.0.0.7"]`. All other private addresses are refused with `EFFECT_DENIED`, also after a redirect.
    pub private_hosts_allowed: BTreeSet<String>,
}

impl HttpSection {
    pub(super) fn adapter(&self) -> HttpConfig {
        HttpConfig { private_hosts_allowed: self.private_hosts_allowed.clone(), ..HttpConfig::default() }
    }
}

/// The adapter `llm.chat`, which runs if it has a base URL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LlmSection {
    /// The address of an OpenAI-compatible endpoint, such as `https://api.openai.com/v1`. Without it the adapter does not run.
    pub base_url: Option<String>,
    /// The key of the endpoint, sent as a bearer token. `config show` masks it.
    pub api_key: Option<String>,
    /// The model for requests that name none.
    pub model: String,
    /// The models that programs may name in addition to `llm.model`; any other is refused with `EFFECT_DENIED`.
    pub models_allowed: BTreeSet<String>,
}

impl LlmSection {
    pub(super) fn adapter(&self) -> Result<Option<LlmConfig>, ConfigError> {
        let Self { base_url, api_key, model, models_allowed } = self.clone();
        let Some(url) = base_url else { return Ok(None) };
        let base_url = url.parse().map_err(|error| ConfigError::new("llm.base_url", format!("{error}")))?;
        Ok(Some(LlmConfig { base_url, api_key, model, models_allowed }))
    }
}

/// The adapter `process.run`, which runs if a command is listed, such as `[process.commands.thumbnail]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSection {
    /// The allowed commands, by the name that programs use.
    pub commands: BTreeMap<String, CommandSection>,
    /// A command that runs longer is killed, and retried within the manifest's budget.
    pub timeout_ms: u64,
    /// Bytes that a command may write to each of its two streams.
    pub output_bytes_max: usize,
}

impl Default for ProcessSection {
    fn default() -> Self {
        Self { commands: BTreeMap::new(), timeout_ms: 60_000, output_bytes_max: 256 << 10 }
    }
}

/// One command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSection {
    /// An absolute path; no search path and no shell is used.
    #[schema(value_type = String)]
    pub program: PathBuf,
    /// Arguments, before those of the program.
    #[serde(default)]
    pub args: Vec<String>,
    /// Whether a program may add arguments.
    #[serde(default)]
    pub takes_args: bool,
    /// The working directory.
    #[schema(value_type = String)]
    pub folder: PathBuf,
    /// Its whole environment, except `MUNDI_INTENT`.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

impl ProcessSection {
    pub(super) fn adapter(&self) -> Result<Option<ProcessConfig>, ConfigError> {
        let refused = |name: &str, why: &str| ConfigError::new(format!("process.commands.{name}"), why);
        // A receipt contains both streams.
        if 2 * self.output_bytes_max > limits::PAYLOAD_BYTES_MAX - 4_096 {
            return Err(ConfigError::new(
                "process.output_bytes_max",
                "is too large: both streams together must fit into a receipt of 1 MiB",
            ));
        }
        let allowed = |(name, command): (&String, &CommandSection)| {
            let CommandSection { program, args, takes_args, folder, environment } = command.clone();
            if !program.is_absolute() || !folder.is_absolute() {
                return Err(refused(name, "`program` and `folder` must be absolute paths"));
            }
            Ok((name.clone(), AllowedCommand { program, args, takes_args, folder, environment }))
        };
        let commands: BTreeMap<_, _> = self.commands.iter().map(allowed).collect::<Result<_, _>>()?;
        let (timeout, output_bytes_max) = (Duration::from_millis(self.timeout_ms), self.output_bytes_max);
        Ok((!commands.is_empty()).then_some(ProcessConfig { commands, timeout, output_bytes_max }))
    }
}
