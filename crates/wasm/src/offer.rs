//! The declarations of a program, and the manifest made from them.

use crate::engine::ENGINE;
use mundi_kernel::manifest::{EffectRule, Limits, Manifest, ManifestError, OnFailure, Schema, Wasm, WasmLimits};
use mundi_model::{Hash, ProgramNameInvalid, ProgramRef, json, limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer of `describe`, and what stands in a project's `mundi.json`: a manifest without what only a node knows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The name that an upload gives the program, and the version; for people, and no part of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    #[serde(default)]
    pub events: BTreeMap<String, Schema>,
    #[serde(default)]
    pub effects: BTreeMap<String, EffectRule>,
    #[serde(default)]
    pub queries: BTreeMap<String, Schema>,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub on_failure: OnFailure,
    #[serde(default)]
    pub wasm: WasmOffer,
}

/// The capabilities that a program asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WasmOffer {
    #[serde(default)]
    pub limits: WasmLimits,
}

impl Offer {
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        if text.len() > limits::MANIFEST_BYTES_MAX {
            return Err(ManifestError::Invalid(format!("the description has {} bytes", text.len())));
        }
        let refused = |error: json::JsonError| ManifestError::Invalid(format!("the description: {error}"));
        let invalid = |error: serde_json::Error| ManifestError::Invalid(format!("the description: {error}"));
        let fields: serde_json::Map<_, _> = json::read(text.as_bytes()).map_err(refused)?;
        serde_json::from_value(fields.into()).map_err(invalid)
    }

    /// The name that a program states for itself, if it does.
    pub fn named(&self) -> Result<Option<ProgramRef>, ProgramNameInvalid> {
        self.name.as_deref().map(|name| ProgramRef::new(name, self.version)).transpose()
    }

    /// The manifest of a program that offers this. It is as good as one that someone wrote: all bounds are checked.
    pub fn manifest(self, program: Hash) -> Result<Manifest, ManifestError> {
        let Self { name: _, version: _, events, effects, queries, limits, on_failure, wasm } = self;
        let wasm = Some(Wasm { engine: ENGINE.to_owned(), limits: wasm.limits });
        let manifest = Manifest { program, events, effects, queries, limits, on_failure, wasm };
        Manifest::from_bytes(&manifest.to_bytes())
    }
}
