//! A world.

use crate::{
    call::{CallOptions, call, keyed, reply_path},
    children::Children,
    error::Error,
    functions::Functions,
    http::{Http, Repeat, escape, query, with_json},
    journal,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream::BoxStream};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::time::Duration;

/// A world, by its name or its id. That it exists is known when it is asked for something.
#[derive(Debug, Clone)]
pub struct World {
    http: Http,
    name: String,
}

#[derive(Debug, Clone, Default)]
pub struct SendOptions {
    /// A key of the sender's own, which the program sees.
    pub key: Option<String>,
    pub delay: Option<Duration>,
    /// Under the same key the event is sent at most once. One of its own unless it is given.
    pub idempotency_key: Option<String>,
    pub correlation_id: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct QueryOptions {
    /// The world as it was before the record at this height.
    pub at: Option<u64>,
    /// Waits until the world has taken in what `send` returned as `seq`, or has reached this height.
    pub at_least: Option<String>,
}

pub(crate) fn to_value(value: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(|error| Error::unexpected(&error))
}

fn given<T: ToString>(name: &'static str, value: Option<T>) -> Option<(&'static str, String)> {
    value.map(|value| (name, value.to_string()))
}

impl World {
    pub(crate) fn new(http: &Http, name: &str) -> Self {
        Self { http: http.clone(), name: name.to_owned() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn path(&self, rest: &str) -> String {
        self.http.of(&format!("worlds/{}{rest}", escape(&self.name)))
    }

    /// All that is known about it.
    pub async fn get(&self) -> Result<Value, Error> {
        self.http.get(&self.path("")).await
    }

    /// Why it is not moving.
    pub async fn why(&self) -> Result<Value, Error> {
        self.http.get(&self.path("/why")).await
    }

    /// Its durable functions.
    pub fn functions(&self) -> Functions {
        Functions::new(&self.http, &self.name)
    }

    /// The runs that it dispatched.
    pub fn children(&self) -> Children {
        Children::new(&self.http, &self.name)
    }

    /// Sets labels, and removes those whose value is none; returns what they are then.
    pub async fn label(&self, labels: &[(&str, Option<&str>)]) -> Result<Value, Error> {
        let set: serde_json::Map<_, _> =
            labels.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.into()))).collect();
        let remove: Vec<_> = labels.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name).collect();
        let changed = self.http.post(&self.path("/labels"), &json!({ "set": set, "remove": remove })).await?;
        Ok(changed["labels"].clone())
    }

    /// Sends an event. It is durable when this returns; what the program makes of it is not waited for.
    pub async fn send(&self, event: &str, value: &impl Serialize) -> Result<Value, Error> {
        self.send_with(event, value, SendOptions::default()).await
    }

    pub async fn send_with(&self, event: &str, value: &impl Serialize, options: SendOptions) -> Result<Value, Error> {
        let delay = options.delay.map(|delay| format!("{}ms", delay.as_millis()));
        let parameters: Vec<_> = [given("key", options.key), given("delay", delay)].into_iter().flatten().collect();
        let path = self.path(&format!("/send/{}{}", escape(event), query(&parameters)));
        let request = with_json(self.http.request(Method::POST, &path), Some(&to_value(value)?));
        let request = keyed(request, options.idempotency_key.as_deref(), options.correlation_id.as_deref())?;
        self.http.json(request, Repeat::Usual).await
    }

    /// Sends an event once and waits for the program's reply: past timeouts, broken connections and restarts of the server.
    pub async fn call<T: DeserializeOwned>(&self, event: &str, value: &impl Serialize) -> Result<T, Error> {
        self.call_with(event, value, CallOptions::default()).await
    }

    pub async fn call_with<T: DeserializeOwned>(
        &self,
        event: &str,
        value: &impl Serialize,
        options: CallOptions,
    ) -> Result<T, Error> {
        call(&self.http, &self.name, event, &to_value(value)?, options).await
    }

    /// The reply to a call that was made before: `Error::call` of one that timed out names it.
    pub async fn reply<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let path = reply_path(&self.http, &self.name, name, "");
        self.http.json(self.http.request(Method::GET, &path), Repeat::Usual).await
    }

    /// Asks the program, which cannot change anything.
    pub async fn query<T: DeserializeOwned>(&self, name: &str, params: &impl Serialize) -> Result<T, Error> {
        self.query_with(name, params, QueryOptions::default()).await
    }

    pub async fn query_with<T: DeserializeOwned>(
        &self,
        name: &str,
        params: &impl Serialize,
        options: QueryOptions,
    ) -> Result<T, Error> {
        let parameters = [given("at", options.at), given("at_least", options.at_least)];
        let parameters: Vec<_> = parameters.into_iter().flatten().collect();
        let path = self.path(&format!("/query/{}{}", escape(name), query(&parameters)));
        let request = with_json(self.http.request(Method::POST, &path), Some(&to_value(params)?));
        self.http.json(request, Repeat::Usual).await
    }

    /// The records of its journal from a height to the head.
    pub fn journal(&self, from: u64) -> BoxStream<'static, Result<Value, Error>> {
        journal::records(&self.http, &self.name, from).boxed()
    }

    /// The same, and each record that is appended, also after the server was restarted.
    pub fn follow(&self, from: u64) -> BoxStream<'static, Result<Value, Error>> {
        journal::follow(&self.http, &self.name, from).boxed()
    }

    /// The changes of the record at a height, and what is open after it.
    pub async fn step(&self, height: u64) -> Result<Value, Error> {
        self.http.get(&self.path(&format!("/steps/{height}"))).await
    }

    /// Its cells under a prefix, in key order, now or at a height.
    pub fn cells(&self, prefix: &str, at: Option<u64>) -> BoxStream<'static, Result<Value, Error>> {
        let filters: Vec<_> = [Some(("prefix", prefix.to_owned())), given("at", at)].into_iter().flatten().collect();
        self.http.items(&self.path("/cells"), &filters).boxed()
    }

    /// One cell, now or at a height.
    pub async fn cell(&self, key: &str, at: Option<u64>) -> Result<Value, Error> {
        let key: Vec<_> = key.split('/').map(escape).collect();
        let at: Vec<_> = given("at", at).into_iter().collect();
        self.http.get(&self.path(&format!("/cells/{}{}", key.join("/"), query(&at)))).await
    }

    /// Forks it: `at`, `effects`, `program`, `answers` as the API has them. Without a name the new world is called after its parent: `alice-fork-1`.
    pub async fn fork(&self, name: Option<&str>, options: &Value) -> Result<Self, Error> {
        let forked = make(&self.http, &self.path("/fork"), name, options).await?;
        Ok(Self::new(&self.http, &forked))
    }

    /// The cells that differ between this world and another, or between two heights: `with`, `at`, `with_at`, `after` (a key), `limit`.
    pub async fn diff(&self, parameters: &[(&str, String)]) -> Result<Vec<Value>, Error> {
        let path = self.path(&format!("/diff{}", query(parameters)));
        self.http.json(self.http.request(Method::GET, &path), Repeat::Usual).await
    }

    pub async fn lineage(&self) -> Result<Value, Error> {
        self.http.get(&self.path("/lineage")).await
    }

    /// Replays it from genesis and from its baseline, and compares every hash.
    pub async fn verify(&self) -> Result<Value, Error> {
        self.http.post(&self.path("/verify"), &Value::Null).await
    }

    /// Runs its history under another program: `program` or `manifest`, `from`, `to`, `outputs_only`.
    pub async fn rehearse(&self, options: &Value) -> Result<Value, Error> {
        self.http.post(&self.path("/rehearse"), options).await
    }

    /// The world with its history as one file. A stream that breaks off has no end, and import refuses it.
    pub async fn export(&self) -> Result<impl Stream<Item = Result<Bytes, reqwest::Error>> + use<>, Error> {
        Ok(self.http.send(self.http.request(Method::GET, &self.path("/bundle"))).await?.bytes_stream())
    }

    pub async fn pause(&self) -> Result<Value, Error> {
        self.http.post(&self.path("/pause"), &Value::Null).await
    }

    /// Continues after a pause, and after a hold.
    pub async fn resume(&self) -> Result<Value, Error> {
        self.http.post(&self.path("/resume"), &Value::Null).await
    }

    /// Takes the input again that it is on hold at.
    pub async fn retry(&self) -> Result<Value, Error> {
        self.http.ask(Method::POST, &self.path("/retry"), None).await
    }

    /// Passes the input that it is on hold at: the program does not see it.
    pub async fn skip(&self) -> Result<Value, Error> {
        self.http.ask(Method::POST, &self.path("/skip"), None).await
    }

    pub async fn upgrade(&self, options: &Value) -> Result<Value, Error> {
        self.http.ask(Method::POST, &self.path("/upgrade"), Some(options)).await
    }

    /// Puts it into the archive: it takes nothing in until it is taken out again.
    pub async fn archive(&self) -> Result<(), Error> {
        self.http.post(&self.path("/archive"), &Value::Null).await.map(drop)
    }

    pub async fn unarchive(&self) -> Result<(), Error> {
        self.http.post(&self.path("/unarchive"), &Value::Null).await.map(drop)
    }

    /// Deletes it for good.
    pub async fn delete(&self) -> Result<(), Error> {
        self.http.ask(Method::DELETE, &self.path(""), None).await.map(drop)
    }
}

/// Creates or forks a world; returns the name to use. With a name it may be repeated: the same world is made once.
pub(crate) async fn make(http: &Http, path: &str, name: Option<&str>, options: &Value) -> Result<String, Error> {
    let mut body = if options.is_null() { json!({}) } else { options.clone() };
    if let Some(name) = name {
        body["world"] = name.into();
    }
    let repeat = if name.is_some() { Repeat::Usual } else { Repeat::Never };
    let made: Value = http.json(with_json(http.request(Method::POST, path), Some(&body)), repeat).await?;
    Ok(name.unwrap_or_else(|| made["world"].as_str().unwrap_or_default()).to_owned())
}
