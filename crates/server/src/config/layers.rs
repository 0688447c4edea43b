//! Layers: the TOML file, then environment variables, then flags. Each layer is checked alone, so that an error names its source.
//!
//! Hand-written, not `figment`: `docs/internals/dependencies.md` says why.

use super::{Config, ConfigError};
use std::{collections::BTreeMap, path::Path};
use toml::{Table, Value};

/// `flags` are pairs of a path, such as `api.bind`, and a value.
pub(super) fn merged(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[(&str, Value)],
) -> Result<Config, ConfigError> {
    let mut layers = Table::new();
    if let Some(path) = file {
        merge(&mut layers, file_layer(path)?);
    }
    for (name, text) in environment {
        let Some(path) = name.strip_prefix("MUNDI_").filter(|path| path.contains("__")) else { continue };
        let layer = variable_layer(&path.to_lowercase().replace("__", "."), &text);
        merge(&mut layers, layer.map_err(|cause| ConfigError::new(&name, cause))?);
    }
    for (path, value) in flags {
        let layer = nested(path, value.clone());
        check(&layer).map_err(|cause| ConfigError::new(format!("the flag for {path}"), cause))?;
        merge(&mut layers, layer);
    }
    layers.try_into().map_err(|error| ConfigError::new("configuration", error))
}

/// Reads the text as a configuration first: that error has line and column.
fn file_layer(path: &Path) -> Result<Table, ConfigError> {
    let failed = |error: &dyn ToString| ConfigError::new(path.display().to_string(), error.to_string().trim());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    toml::from_str::<Config>(&text).map_err(|error| failed(&error))?;
    text.parse().map_err(|error: toml::de::Error| failed(&error))
}

/// A variable is TOML where that fits its key, else a string: `MUNDI_LLM__API_KEY=123` is a string, `MUNDI_NODE__RUNNERS=8` a number.
fn variable_layer(path: &str, text: &str) -> Result<Table, String> {
    let typed = nested(path, parse(text));
    let Err(cause) = check(&typed) else { return Ok(typed) };
    let string = nested(path, Value::String(text.to_owned()));
    check(&string).map(|()| string).map_err(|_| cause)
}

fn check(layer: &Table) -> Result<(), String> {
    layer.clone().try_into::<Config>().map(drop).map_err(|error| error.to_string().trim().to_owned())
}

fn parse(text: &str) -> Value {
    let parsed = format!("it = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("it"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

pub(super) fn nested(path: &str, value: Value) -> Table {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let value = rest.map_or(value.clone(), |rest| Value::Table(nested(rest, value)));
    [(first.to_owned(), value)].into_iter().collect()
}

pub(super) fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// The variables of this process.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
