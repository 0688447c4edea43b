//! Manifests: what runs in a world, what it may take in and ask for, and within which bounds.
//!
//! A manifest is canonical JSON in the content store, named by its hash. It is compiled once; compiled, it
//! also checks events before they are enqueued.

use crate::{
    intents::WORLD_CALL,
    loader::{Apart, ChecksCrowded, InPlace},
    objects::{LoadError, Objects, load_checked},
    schema::{BoundedSchema, Mismatch, Registration, Work},
};
use mundi_model::{Code, Coded, Hash, Value, cbor, child::CHILD_SPAWN, json, limits};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt::Display, ops::Deref, sync::Arc};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The hash of the program: of its component, or of its native descriptor.
    pub program: Hash,
    /// The events that the program takes, each with the schema of its value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, Schema>,
    /// The effects that it may ask for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, EffectRule>,
    /// The queries that it answers, each with the schema of its parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queries: BTreeMap<String, Schema>,
    #[serde(default, skip_serializing_if = "Limits::are_default")]
    pub limits: Limits,
    #[serde(default, skip_serializing_if = "OnFailure::is_default")]
    pub on_failure: OnFailure,
    /// For a component: what runs it, and within which bounds. Nothing for a native program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasm: Option<Wasm>,
}

/// How a component is run. All of it decides outcomes, and so it is pinned here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wasm {
    /// The engine and its settings. A node with another engine does not run the world, rather than run it differently.
    pub engine: String,
    #[serde(default, skip_serializing_if = "WasmLimits::are_default")]
    pub limits: WasmLimits,
}

/// Bounds of a component in one step. A manifest may tighten those of the kernel, and not widen them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WasmLimits {
    /// Instructions, and bytes that one instruction moves.
    pub fuel_max: u64,
    pub memory_bytes_max: u64,
    pub table_elements_max: u64,
    /// A power of two.
    pub stack_bytes_max: u64,
}

impl Default for WasmLimits {
    fn default() -> Self {
        Self {
            fuel_max: 50_000_000,
            memory_bytes_max: 128 << 20,
            table_elements_max: limits::WASM_TABLE_ELEMENTS_MAX,
            stack_bytes_max: 512 << 10,
        }
    }
}

impl WasmLimits {
    fn are_default(&self) -> bool {
        *self == Self::default()
    }

    fn check(&self) -> Result<(), ManifestError> {
        let stack = self.stack_bytes_max;
        if !stack.is_power_of_two() || stack < limits::WASM_STACK_BYTES_MIN {
            let min = limits::WASM_STACK_BYTES_MIN;
            let why = format!("wasm.limits.stack_bytes_max is {stack}, not a power of two of at least {min}");
            return Err(ManifestError::Invalid(why));
        }
        within(
            "wasm.limits",
            &[
                ("fuel_max", self.fuel_max, limits::WASM_FUEL_MAX),
                ("memory_bytes_max", self.memory_bytes_max, limits::WASM_MEMORY_BYTES_MAX),
                ("table_elements_max", self.table_elements_max, limits::WASM_TABLE_ELEMENTS_MAX),
                ("stack_bytes_max", stack, limits::WASM_STACK_BYTES_MAX),
            ],
        )
    }
}

fn within(section: &str, bounds: &[(&str, u64, u64)]) -> Result<(), ManifestError> {
    match bounds.iter().find(|(_, value, bound)| value > bound) {
        Some((name, value, bound)) => {
            Err(ManifestError::Invalid(format!("{section}.{name} is {value}, beyond the kernel's {bound}")))
        }
        None => Ok(()),
    }
}

/// A JSON Schema: written out (an object, `true` or `false`), or the hash of one in the content store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schema(pub serde_json::Value);

impl Schema {
    /// Every value satisfies it.
    pub fn anything() -> Self {
        Self(true.into())
    }

    fn is_anything(&self) -> bool {
        self.0 == true
    }
}

/// An effect that a program may ask for. The policies are for the runtime; the kernel checks the schemas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectRule {
    #[serde(default = "Schema::anything", skip_serializing_if = "Schema::is_anything")]
    pub params: Schema,
    /// Of the payload of a receipt that says `ok`.
    #[serde(default = "Schema::anything", skip_serializing_if = "Schema::is_anything")]
    pub receipt: Schema,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Of `fabric.send`: the program may choose the ids of its messages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub message_ids: bool,
    /// Receipts of adapters and workers must be signed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
}

/// The manifest's terms for effects of a kind; the runtime chooses the terms that it leaves open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EffectPolicies {
    pub timeout_ms: Option<u64>,
    pub retry: Option<Retry>,
    pub rate: Option<Rate>,
    /// Of children: how many run at a time.
    pub children_active_max: Option<u64>,
}

impl EffectPolicies {
    fn check(&self, kind: &str) -> Result<(), ManifestError> {
        let section = format!("effects.{kind}");
        within(&section, &[("timeout_ms", self.timeout_ms.unwrap_or_default(), limits::EFFECT_TIMEOUT_MS_MAX)])?;
        let Some(Retry { attempts_max, backoff_ms, backoff_ms_max }) = self.retry else { return Ok(()) };
        within(
            &format!("{section}.retry"),
            &[
                ("attempts_max", attempts_max.into(), limits::EFFECT_ATTEMPTS_MAX),
                ("backoff_ms", backoff_ms, limits::EFFECT_BACKOFF_MS_MAX),
                ("backoff_ms_max", backoff_ms_max, limits::EFFECT_BACKOFF_MS_MAX),
            ],
        )
    }
}

impl EffectRule {
    fn check(&self, kind: &str) -> Result<(), ManifestError> {
        if self.signed && [WORLD_CALL, CHILD_SPAWN].contains(&kind) {
            let why = format!("effects.{kind}.signed: no adapter answers it, so its receipt carries no signature");
            return Err(ManifestError::Invalid(why));
        }
        self.policies().check(kind)
    }

    pub fn policies(&self) -> EffectPolicies {
        EffectPolicies { timeout_ms: self.timeout_ms, retry: self.retry, rate: self.rate, children_active_max: None }
    }
}

impl Manifest {
    /// The policies for a kind of effect; none for a kind that it does not name.
    pub fn effect_policies(&self, kind: &str) -> EffectPolicies {
        let policies = self.effects.get(kind).map_or_else(EffectPolicies::default, EffectRule::policies);
        let children_active_max = (kind == CHILD_SPAWN).then_some(self.limits.max_active_children);
        EffectPolicies { children_active_max, ..policies }
    }
}

impl Default for EffectRule {
    fn default() -> Self {
        Self {
            params: Schema::anything(),
            receipt: Schema::anything(),
            timeout_ms: None,
            retry: None,
            rate: None,
            message_ids: false,
            signed: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    pub attempts_max: u32,
    pub backoff_ms: u64,
    pub backoff_ms_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub per_second: u32,
    pub burst: u32,
}

/// Bounds of a world. A manifest may tighten those of the kernel, and not widen them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub open_intents_max: u64,
    pub timers_max: u64,
    pub step_calls_max: u64,
    pub step_bytes_max: u64,
    pub step_outputs_max: u64,
    /// Children that run at a time.
    #[serde(skip_serializing_if = "is_usual")]
    pub max_active_children: u64,
}

fn is_usual(children: &u64) -> bool {
    *children == limits::CHILDREN_ACTIVE_DEFAULT
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            open_intents_max: 1_000,
            timers_max: 1_000,
            step_calls_max: 100_000,
            step_bytes_max: 16 << 20,
            step_outputs_max: limits::STEP_OUTPUTS_MAX,
            max_active_children: limits::CHILDREN_ACTIVE_DEFAULT,
        }
    }
}

impl Limits {
    fn are_default(&self) -> bool {
        *self == Self::default()
    }

    fn check(&self) -> Result<(), ManifestError> {
        let bounds = [
            ("open_intents_max", self.open_intents_max, limits::OPEN_INTENTS_MAX),
            ("timers_max", self.timers_max, limits::TIMERS_MAX),
            ("step_calls_max", self.step_calls_max, limits::STEP_CALLS_MAX),
            ("step_bytes_max", self.step_bytes_max, limits::STEP_BYTES_MAX),
            ("step_outputs_max", self.step_outputs_max, limits::STEP_OUTPUTS_MAX),
            ("max_active_children", self.max_active_children, limits::CHILDREN_ACTIVE_MAX),
        ];
        within("limits", &bounds)
    }
}

/// The reaction to a failed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    #[default]
    Continue,
    /// The world pauses after so many failed steps in a row; its inbox keeps what arrives.
    PauseAfter(u32),
    /// The world is put on hold at the input whose step failed: it is not consumed, and waits until an operator retries or
    /// skips it.
    Hold,
}

impl OnFailure {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a manifest cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("the manifest is invalid: {0}")]
    Invalid(String),
    #[error("no program {0} is registered here")]
    ProgramUnknown(Hash),
    /// Its code cannot be run by any node of this version.
    #[error("the program is refused: {0}")]
    ProgramRefused(String),
    #[error("the manifest names the engine `{named}`, and this node has `{here}`")]
    EngineMismatch { named: String, here: String },
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Coded for ManifestError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::ManifestInvalid,
            Self::ProgramUnknown(_) => Code::ProgramUnknown,
            Self::ProgramRefused(_) => Code::ProgramRefused,
            Self::EngineMismatch { .. } => Code::ProgramEngine,
            Self::Load(error) => error.code(),
        }
    }
}

impl Manifest {
    /// A manifest that takes nothing and may ask for nothing yet.
    pub fn new(program: Hash) -> Self {
        Self {
            program,
            events: BTreeMap::new(),
            effects: BTreeMap::new(),
            queries: BTreeMap::new(),
            limits: Limits::default(),
            on_failure: OnFailure::default(),
            wasm: None,
        }
    }

    /// The canonical bytes, whose hash is the manifest's name.
    pub fn to_bytes(&self) -> Vec<u8> {
        #[expect(clippy::expect_used, reason = "all keys are texts, and no field refuses to be serialized")]
        let value = serde_json::to_value(self).expect("a manifest is JSON");
        json::to_canonical(&value).into_bytes()
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > limits::MANIFEST_BYTES_MAX {
            return Err(ManifestError::Invalid(format!("it has {} bytes", bytes.len())));
        }
        let invalid = |cause: &dyn ToString| ManifestError::Invalid(cause.to_string());
        let value = json::from_canonical(bytes).map_err(|error| invalid(&error))?;
        let manifest: Self = serde_json::from_value(value).map_err(|error| invalid(&error))?;
        manifest.limits.check()?;
        manifest.effects.iter().try_for_each(|(kind, rule)| rule.check(kind))?;
        manifest.wasm.as_ref().map_or(Ok(()), |wasm| wasm.limits.check())?;
        Ok(manifest)
    }
}

/// A manifest with its schemas compiled, as one universe uses it.
pub struct CompiledManifest {
    schemas: Arc<CompiledSchemas>,
    /// Where checks continue that take long.
    apart: Arc<dyn Apart>,
}

impl Deref for CompiledManifest {
    type Target = CompiledSchemas;

    fn deref(&self) -> &CompiledSchemas {
        &self.schemas
    }
}

/// A manifest and its compiled schemas, the same for all universes.
pub struct CompiledSchemas {
    pub hash: Hash,
    pub manifest: Manifest,
    /// The schemas that are objects of their own.
    pub(crate) schema_objects: Vec<Hash>,
    events: BTreeMap<String, Check>,
    params: BTreeMap<String, Check>,
    receipts: BTreeMap<String, Check>,
    queries: BTreeMap<String, Check>,
}

/// A compiled schema; `None` is satisfied by every value.
type Check = Option<BoundedSchema>;

/// Why a value may not pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error("{0}")]
    Invalid(String),
    /// Nobody knows whether it satisfies its schema: to find out takes more steps than a check may.
    #[error("{0} takes more steps to check against its schema than one check may")]
    WorkExceeded(String),
    /// It was not checked, and may be at another time.
    #[error(transparent)]
    Crowded(#[from] ChecksCrowded),
}

impl CheckError {
    /// The code, where `invalid` is the one for a value that does not satisfy its schema.
    pub fn code_or(&self, invalid: Code) -> Code {
        match self {
            Self::Invalid(_) => invalid,
            Self::WorkExceeded(_) => Code::SchemaWorkExceeded,
            Self::Crowded(_) => Code::StepCrowded,
        }
    }
}

impl CompiledSchemas {
    pub fn load(objects: &dyn Objects, hash: Hash) -> Result<Self, ManifestError> {
        let manifest = Manifest::from_bytes(&load_checked(objects, &hash)?)?;
        let mut schema_objects = Vec::new();
        let mut compile_all = |schemas: &mut dyn Iterator<Item = (&String, &Schema)>| {
            let one =
                |(name, schema): (&String, &Schema)| Ok((name.clone(), compile(objects, schema, &mut schema_objects)?));
            schemas.map(one).collect::<Result<BTreeMap<_, _>, ManifestError>>()
        };
        let events = compile_all(&mut manifest.events.iter())?;
        let params = compile_all(&mut manifest.effects.iter().map(|(kind, rule)| (kind, &rule.params)))?;
        let receipts = compile_all(&mut manifest.effects.iter().map(|(kind, rule)| (kind, &rule.receipt)))?;
        let queries = compile_all(&mut manifest.queries.iter())?;
        Ok(Self { hash, manifest, schema_objects, events, params, receipts, queries })
    }

    /// The schemas that are objects of their own.
    pub fn schema_objects(&self) -> &[Hash] {
        &self.schema_objects
    }
}

/// Whether a check belongs to a step that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum During {
    Step,
    Nothing,
}

impl CompiledManifest {
    pub(crate) fn new(schemas: Arc<CompiledSchemas>, apart: Arc<dyn Apart>) -> Self {
        Self { schemas, apart }
    }

    /// A manifest that no universe uses: its checks run on the thread of their caller.
    pub fn load(objects: &dyn Objects, hash: Hash) -> Result<Self, ManifestError> {
        Ok(Self::new(Arc::new(CompiledSchemas::load(objects, hash)?), Arc::new(InPlace)))
    }

    /// The rules for manifests that are registered from now on, beside those for every manifest: no schema may expand
    /// without bound. Manifests that worlds run on already are bounded when they are used. Compiles nothing.
    pub fn check_registration(objects: &dyn Objects, hash: Hash) -> Result<(), ManifestError> {
        let manifest = Manifest::from_bytes(&load_checked(objects, &hash)?)?;
        let events = manifest.events.iter().map(|(name, schema)| ("event", name, schema));
        let params = manifest.effects.iter().map(|(kind, rule)| ("effect", kind, &rule.params));
        let receipts = manifest.effects.iter().map(|(kind, rule)| ("receipt of", kind, &rule.receipt));
        let queries = manifest.queries.iter().map(|(name, schema)| ("query", name, schema));
        let mut registration = Registration::default();
        for (what, name, schema) in events.chain(params).chain(receipts).chain(queries) {
            if let Some(schema) = written_out(objects, schema, &mut Vec::new(), limits::MANIFEST_BYTES_MAX)? {
                let invalid = |why| ManifestError::Invalid(format!("the schema of the {what} `{name}`: {why}"));
                registration.add(&schema).map_err(invalid)?;
            }
        }
        Ok(())
    }

    /// Whether an event may enter; for whoever enqueues, and again when it is taken in.
    pub fn check_event(&self, schema: &str, value: &[u8]) -> Result<(), CheckError> {
        self.check_event_within(schema, value, &mut Work::bounded())
    }

    /// Whether events are surely refused, for their sender. Together they are given [`limits::SCHEMA_WORK_IN_PLACE_MAX`] steps; events that
    /// these do not decide are left to the world, which checks each when it takes it in.
    pub fn check_sent<'v>(&self, events: impl IntoIterator<Item = (&'v str, &'v [u8])>) -> Result<(), CheckError> {
        let mut work = Work::new(limits::SCHEMA_WORK_IN_PLACE_MAX);
        let mut check = |(schema, value)| self.check_event_within(schema, value, &mut work);
        match events.into_iter().try_for_each(&mut check) {
            Err(CheckError::WorkExceeded(_)) => Ok(()),
            checked => checked,
        }
    }

    pub(crate) fn check_event_within(&self, schema: &str, value: &[u8], work: &mut Work) -> Result<(), CheckError> {
        self.check(self.events.get(schema), ("event", schema), value, work, During::Nothing)
    }

    pub fn check_query(&self, name: &str, params: &[u8]) -> Result<(), CheckError> {
        self.check(self.queries.get(name), ("query", name), params, &mut Work::bounded(), During::Nothing)
    }

    /// Whether an effect may be carried out, for whoever does so without a step.
    pub fn check_params(&self, kind: &str, params: &[u8]) -> Result<(), CheckError> {
        self.check(self.params.get(kind), ("effect", kind), params, &mut Work::bounded(), During::Nothing)
    }

    pub(crate) fn check_effect(&self, kind: &str, params: &[u8], work: &mut Work) -> Result<(), CheckError> {
        self.check(self.params.get(kind), ("effect", kind), params, work, During::Step)
    }

    pub(crate) fn check_receipt(&self, kind: &str, payload: &[u8], work: &mut Work) -> Result<(), CheckError> {
        match self.receipts.get(kind) {
            // An upgrade may have dropped the kind while one was open: its receipt is still welcome.
            None | Some(None) => Ok(()),
            found => self.check(found, ("receipt of", kind), payload, work, During::Nothing),
        }
    }

    fn check(
        &self,
        check: Option<&Check>,
        (what, name): (&str, &str),
        value: &[u8],
        work: &mut Work,
        during: During,
    ) -> Result<(), CheckError> {
        let apart = |check: &mut dyn FnMut()| match during {
            During::Step => {
                self.apart.at_once(check);
                Ok(())
            }
            During::Nothing => self.apart.in_turn(check),
        };
        let invalid = |why: &dyn Display| CheckError::Invalid(format!("the {what} `{name}`{why}"));
        let Some(schema) = check else {
            return Err(CheckError::Invalid(format!("the manifest declares no {what} `{name}`")));
        };
        let value: Value = cbor::decode(value).map_err(|error| invalid(&format_args!(": {error}")))?;
        let Some(schema) = schema else { return Ok(()) };
        let value = value.to_schema_json().map_err(|error| invalid(&format_args!(": {error}")))?;
        schema.check_apart(&value, work, apart).map_err(|mismatch| match mismatch {
            Mismatch::Crowded => ChecksCrowded.into(),
            Mismatch::Invalid(why) => invalid(&format_args!(" {why}")),
            Mismatch::Exceeded => CheckError::WorkExceeded(format!("the {what} `{name}`")),
        })
    }
}

/// A schema as it is written, whether in the manifest or as an object of its own; `None` for one that every value satisfies.
fn written_out(
    objects: &dyn Objects,
    schema: &Schema,
    references: &mut Vec<Hash>,
    bytes_max: usize,
) -> Result<Option<serde_json::Value>, ManifestError> {
    Ok(match &schema.0 {
        serde_json::Value::Bool(true) => None,
        serde_json::Value::String(hash) => {
            let hash: Hash = hash.parse().map_err(|error| ManifestError::Invalid(format!("a schema: {error}")))?;
            references.push(hash);
            let bytes = load_checked(objects, &hash)?;
            let invalid = |why: String| ManifestError::Invalid(format!("schema {hash}: {why}"));
            if bytes.len() > bytes_max {
                return Err(invalid(format!("it has {} bytes, at most {bytes_max} are allowed", bytes.len())));
            }
            Some(json::from_canonical(&bytes).map_err(|error| invalid(error.to_string()))?)
        }
        other => Some(other.clone()),
    })
}

fn compile(objects: &dyn Objects, schema: &Schema, references: &mut Vec<Hash>) -> Result<Check, ManifestError> {
    let Some(written_out) = written_out(objects, schema, references, usize::MAX)? else { return Ok(None) };
    BoundedSchema::compile(&written_out).map(Some).map_err(|why| ManifestError::Invalid(format!("a schema: {why}")))
}
