//! The effects that come with Mundi: their params and what their receipts carry.
//!
//! Each is declared in `mundi.json` by its kind alone (`"effects": {"http.request": {}}`), asked for with [`World::ask`] and
//! read with [`Event::receipt`].
//!
//! [`World::ask`]: crate::World::ask
//! [`Event::receipt`]: crate::Event::receipt

use crate::{Bytes, Effect, Failure, Value, pools::Lease};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// Why an effect was not carried out: what a receipt that says `error` or `timeout` carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectError {
    /// One of the error codes, such as `EFFECT_DENIED`.
    pub code: String,
    pub reason: String,
    /// How often it was tried.
    #[serde(default)]
    pub attempts: u64,
    /// Of `CALL_FAILED`: the code of the step of the world that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_code: Option<String>,
    /// Of `CALL_FAILED`: the height of that step in the journal of that world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<u64>,
}

/// The reasons that a program may want to tell apart. Further ones may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectErrorKind {
    /// `EFFECT_CANCELLED`: by an operator, or because the world is a fork that dropped what its parent had open.
    Cancelled,
    /// `EFFECT_SANDBOXED`: the world is a sandbox, and nothing answers in place of the outside.
    Sandboxed,
    /// `EFFECT_NOT_RECORDED`: the world is a recorded fork, and its parent had no receipt for it.
    NotRecorded,
    /// `EFFECT_DENIED`, `UNIVERSE_DENIED`: a configuration does not allow it.
    Denied,
    /// `EFFECT_TIMEOUT`, `EFFECT_CLAIM_EXPIRED`, `CALL_TIMEOUT`: whether the other side acted is not known.
    TimedOut,
    /// Any other code.
    Failed,
}

impl EffectError {
    pub fn new(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { code: code.into(), reason: reason.into(), attempts: 0, failed_code: None, failed_at: None }
    }

    pub fn kind(&self) -> EffectErrorKind {
        match &*self.code {
            "EFFECT_CANCELLED" => EffectErrorKind::Cancelled,
            "EFFECT_SANDBOXED" => EffectErrorKind::Sandboxed,
            "EFFECT_NOT_RECORDED" => EffectErrorKind::NotRecorded,
            "EFFECT_DENIED" | "UNIVERSE_DENIED" => EffectErrorKind::Denied,
            "EFFECT_TIMEOUT" | "EFFECT_CLAIM_EXPIRED" | "CALL_TIMEOUT" => EffectErrorKind::TimedOut,
            _ => EffectErrorKind::Failed,
        }
    }
}

impl std::fmt::Display for EffectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)
    }
}

/// The effect `http.request`: one request to the outside.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HttpRequest {
    pub url: String,
    /// `GET` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Bytes>,
    /// The lease that it is carried out under, and only while it is held. The other side gets it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

impl HttpRequest {
    pub fn get(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// A `POST` with a JSON body.
    pub fn post_json(url: impl Into<String>, body: &impl Serialize) -> Result<Self, Failure> {
        let headers = BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]);
        let body = Some(serde_json::to_string(body)?.into());
        Ok(Self { url: url.into(), method: Some("POST".to_owned()), headers, body, lease: None })
    }
}

/// The answer of a server, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpResponse {
    pub status: u16,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Bytes,
}

impl HttpResponse {
    /// The status says that it went well: 200 to 299.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    pub fn text(&self) -> Result<&str, Failure> {
        self.body.text()
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

impl Effect for HttpRequest {
    const KIND: &'static str = "http.request";
    type Receipt = HttpResponse;
}

/// The effect `llm.chat`: a conversation with a model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmChat {
    pub messages: Vec<ChatMessage>,
    /// One that the configuration allows; its own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Passed on: `temperature`, `max_tokens`, `tools` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    pub role: String,
    pub content: String,
}

impl ChatMessage {
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        Self { role: role.to_owned(), content: content.into() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmAnswer {
    pub model: String,
    pub content: String,
    pub finish_reason: Option<String>,
    pub tool_calls: Vec<Value>,
    pub usage: Option<LlmUsage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmUsage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
}

impl Effect for LlmChat {
    const KIND: &'static str = "llm.chat";
    type Receipt = LlmAnswer;
}

/// A reference to an object of the content store: what `blob.put` answers, and `blob.get` takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// `h_…`
    pub hash: String,
    /// How many there are.
    pub bytes: u64,
}

/// The effect `blob.put`: keeps bytes in the content store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobPut {
    pub bytes: Bytes,
}

impl Effect for BlobPut {
    const KIND: &'static str = "blob.put";
    type Receipt = Blob;
}

/// The effect `blob.get`: the bytes of an object, up to a MiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobGet {
    pub hash: String,
}

impl From<&Blob> for BlobGet {
    fn from(blob: &Blob) -> Self {
        Self { hash: blob.hash.clone() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobContent {
    pub bytes: Bytes,
}

impl Effect for BlobGet {
    const KIND: &'static str = "blob.get";
    type Receipt = BlobContent;
}

/// The effect `process.run`: a command that the node's configuration lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessRun {
    /// Its name in the list.
    pub command: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Bytes>,
    /// The lease that it is carried out under, and only while it is held. The other side gets it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessResult {
    /// None for a command that a signal ended.
    pub status: Option<i64>,
    pub stdout: Bytes,
    pub stderr: Bytes,
}

impl Effect for ProcessRun {
    const KIND: &'static str = "process.run";
    type Receipt = ProcessResult;
}

/// The effect `world.fork`: a branch of a world.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorldFork {
    /// The id or the name of the parent; the world itself if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// The height to fork at. If absent: before the step that asks, or the newest of another world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// The policy for the parent's effects; `suppress` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// `ok`, or `already_created` when an earlier attempt had done it.
    pub status: String,
    /// The id of the branch.
    pub world: String,
    pub forked_at: u64,
}

impl Effect for WorldFork {
    const KIND: &'static str = "world.fork";
    type Receipt = Forked;
}

/// The effect `world.call`: an event to another world, whose reply is the receipt. [`World::call`](crate::World::call) is its short form.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WorldCall {
    /// The id or the name of the world.
    pub world: String,
    pub event: String,
    #[serde(default)]
    pub value: Value,
    /// Arrive as [`World::headers`](crate::World::headers).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Arrives as [`Origin::correlation_id`](crate::Origin::correlation_id).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The universe of the world: the caller's own if absent. Another one must accept messages from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub universe: Option<String>,
    /// How long the reply may take; as long as `timeout_ms` in `mundi.json` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl WorldCall {
    pub fn new(world: impl Into<String>, event: impl Into<String>, value: &impl Serialize) -> Result<Self, Failure> {
        Ok(Self { world: world.into(), event: event.into(), value: serde_json::to_value(value)?, ..Self::default() })
    }
}

impl Effect for WorldCall {
    const KIND: &'static str = "world.call";
    /// Whatever the other program replies; [`Event::reply`](crate::Event::reply) reads it as a type.
    type Receipt = Value;
}

/// Stands for `fabric.send` in [`Event::receipt`](crate::Event::receipt); [`World::send`](crate::World::send) asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FabricSend;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// `ok`, or `already_enqueued` when an earlier attempt had done it.
    pub status: String,
    pub message_id: String,
    /// The destination, as the program wrote it.
    pub dest_world: String,
    /// Its place in the inbox of the destination.
    pub enqueued_seq: Option<Bytes>,
}

impl Effect for FabricSend {
    const KIND: &'static str = "fabric.send";
    type Receipt = Sent;
}

/// Stands for `world.spawn` in [`Event::receipt`](crate::Event::receipt); [`World::spawn`](crate::World::spawn) asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WorldSpawn;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// `ok`, or `already_created` when an earlier attempt had done it.
    pub status: String,
    /// The id of the new world.
    pub world: String,
}

impl Effect for WorldSpawn {
    const KIND: &'static str = "world.spawn";
    type Receipt = Spawned;
}
