//! A universe of a server.

use crate::{
    error::Error,
    http::{Http, Repeat, escape, query},
    pool::Pool,
    worker::Worker,
    world::{World, make},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream, stream::BoxStream};
use reqwest::{Body, Method};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// A universe of a server.
#[derive(Debug, Clone)]
pub struct Mundi {
    http: Http,
}

/// A command to many worlds.
#[derive(Debug, Clone, Default)]
pub struct Bulk {
    /// `pause`, `resume`, `archive`, `unarchive` or `delete`.
    pub verb: String,
    /// The filters of `list`, as JSON.
    pub filters: Value,
    /// Only says which worlds it would be.
    pub dry_run: bool,
    /// Worlds in a page: 100 at most.
    pub limit: Option<u32>,
    /// The `next` of a page: goes on behind it.
    pub after: Option<String>,
}

impl From<Http> for Mundi {
    fn from(http: Http) -> Self {
        Self { http }
    }
}

impl Mundi {
    /// The universe `default`, without a token. `Http::new` takes both.
    pub fn new(url: &str) -> Self {
        Http::new(url, None, "default").into()
    }

    /// For requests that have no method here.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// The same server and token, another universe.
    #[must_use]
    pub fn universe(&self, name: &str) -> Self {
        self.http.in_universe(name).into()
    }

    /// The rights of the caller's token.
    pub async fn whoami(&self) -> Result<Value, Error> {
        self.http.get("/v1/whoami").await
    }

    /// Counts of worlds by state, and of queued items.
    pub async fn summary(&self) -> Result<Value, Error> {
        self.http.get(&self.http.of("summary")).await
    }

    /// Read-only SQL over the tables of the universe: `columns` and `rows`. It takes at most 30 seconds.
    pub async fn sql(&self, query: &str) -> Result<Value, Error> {
        self.sql_within(query, None).await
    }

    /// The same with a time of its own: at most five minutes.
    pub async fn sql_within(&self, query: &str, timeout: Option<Duration>) -> Result<Value, Error> {
        let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let form = json!({ "query": query, "timeout_ms": timeout_ms });
        // Sent once: a query that is too large is refused as full, and would be again.
        self.http.ask(Method::POST, &self.http.of("sql"), Some(&form)).await
    }

    /// A world by its name or its id.
    pub fn world(&self, name: &str) -> World {
        World::new(&self.http, name)
    }

    /// Creates a world (`program`, `manifest` or `seed`); one that exists already with the same program is returned.
    pub async fn create(&self, name: Option<&str>, options: &Value) -> Result<World, Error> {
        let created = make(&self.http, &self.http.of("worlds"), name, options).await?;
        Ok(World::new(&self.http, &created))
    }

    /// All worlds that match the filters of the API: `state`, `program`, `parent`, `held_by`, `on_hold`, `failed`, `name`, `label` …; each `label` stands for
    /// itself, and a world has to have all of them.
    pub fn list(&self, filters: &[(&str, String)]) -> BoxStream<'static, Result<Value, Error>> {
        self.http.items(&self.http.of("worlds"), filters).boxed()
    }

    /// How many worlds match the filters: `count`, and `states` with the count of each.
    pub async fn count(&self, filters: &[(&str, String)]) -> Result<Value, Error> {
        let (mut count, mut states, mut after) = (0, BTreeMap::<String, u64>::new(), None::<String>);
        loop {
            let mut asked = filters.to_vec();
            asked.extend(after.map(|after| ("after", after)));
            let page = self.http.get(&self.http.of(&format!("world-count{}", query(&asked)))).await?;
            count += page["count"].as_u64().unwrap_or(0);
            for (state, found) in page["states"].as_object().into_iter().flatten() {
                *states.entry(state.clone()).or_default() += found.as_u64().unwrap_or(0);
            }
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return Ok(json!({ "count": count, "states": states }));
            }
        }
    }

    /// Pauses, resumes, archives, unarchives or deletes all worlds that match the filters, page by page. At least one filter has to be given.
    /// Each page has `items`, what became of its worlds, and `next`: commands that were interrupted go on with it as `after`.
    pub fn bulk(&self, bulk: Bulk) -> BoxStream<'static, Result<Value, Error>> {
        let (http, path) = (self.http.clone(), self.http.of("bulk"));
        let first = Some(bulk.after.unwrap_or_default());
        let pages = stream::try_unfold(first, move |after| {
            let (http, path) = (http.clone(), path.clone());
            let mut form =
                json!({ "verb": bulk.verb, "filters": bulk.filters, "dry_run": bulk.dry_run, "limit": bulk.limit });
            async move {
                let Some(after) = after else { return Ok(None) };
                if !after.is_empty() {
                    form["after"] = after.into();
                }
                let page = http.post(&path, &form).await?;
                let next = page["next"].as_str().map(str::to_owned);
                Ok::<_, Error>(Some((page, next)))
            }
        });
        pages.boxed()
    }

    /// Verifies a bundle and creates its world.
    pub async fn import(&self, bundle: impl Into<Body>, name: Option<&str>) -> Result<Value, Error> {
        let name = name.map_or_else(String::new, |name| format!("?world={}", escape(name)));
        self.upload(&format!("bundles{name}"), bundle, Repeat::Never).await
    }

    pub async fn put_blob(&self, bytes: impl Into<Body>) -> Result<Value, Error> {
        self.upload("blobs", bytes, Repeat::Usual).await
    }

    async fn upload(&self, path: &str, bytes: impl Into<Body>, repeat: Repeat) -> Result<Value, Error> {
        let request = self.http.request(Method::POST, &self.http.of(path));
        self.http.json(request.header("content-type", "application/octet-stream").body(bytes), repeat).await
    }

    pub async fn get_blob(&self, hash: &str) -> Result<Bytes, Error> {
        let request = self.http.request(Method::GET, &self.http.of(&format!("blobs/{}", escape(hash))));
        self.http.bytes(request, Repeat::Usual).await
    }

    /// The effects that have no receipt yet: `world`, `kind`.
    pub fn effects(&self, filters: &[(&str, String)]) -> BoxStream<'static, Result<Value, Error>> {
        self.http.items(&self.http.of("effects"), filters).boxed()
    }

    /// One effect. With `world`, one that is over is found in the journal.
    pub async fn effect(&self, effect: &str, world: Option<&str>) -> Result<Value, Error> {
        self.http.get(&self.http.of(&format!("effects/{}{}", escape(effect), of_world(world)))).await
    }

    pub async fn retry_effect(&self, effect: &str, world: Option<&str>) -> Result<Value, Error> {
        let path = format!("effects/retry/{}{}", escape(effect), of_world(world));
        self.http.post(&self.http.of(&path), &Value::Null).await
    }

    pub async fn cancel_effect(&self, effect: &str, form: &Value) -> Result<Value, Error> {
        self.http.post(&self.http.of(&format!("effects/cancel/{}", escape(effect))), form).await
    }

    /// Gives an open effect the receipt that an operator chooses: `status`, `payload`, `world`.
    pub async fn answer_effect(&self, effect: &str, form: &Value) -> Result<Value, Error> {
        self.http.post(&self.http.of(&format!("effects/answer/{}", escape(effect))), form).await
    }

    /// `queue`, `world`.
    pub fn dead_letters(&self, filters: &[(&str, String)]) -> BoxStream<'static, Result<Value, Error>> {
        self.http.items(&self.http.of("dead-letters"), filters).boxed()
    }

    pub async fn dead_letter(&self, letter: &str) -> Result<Value, Error> {
        self.http.get(&self.http.of(&format!("dead-letters/{}", escape(letter)))).await
    }

    /// `action` is `replay` or `drop`; `letters`, or those of a `queue` that match `world` and `code`.
    pub async fn handle_dead_letters(&self, form: &Value) -> Result<Value, Error> {
        self.http.ask(Method::POST, &self.http.of("dead-letters"), Some(form)).await
    }

    pub async fn pools(&self) -> Result<Value, Error> {
        self.http.get(&self.http.of("pools")).await
    }

    /// Creates a pool with the default bounds.
    pub async fn create_pool(&self, name: &str, shards: u64) -> Result<Pool, Error> {
        self.create_pool_with(name, &json!({ "shards": shards })).await
    }

    /// Creates a pool (`shards`, `config`).
    pub async fn create_pool_with(&self, name: &str, options: &Value) -> Result<Pool, Error> {
        let mut form = options.clone();
        form["name"] = name.into();
        self.http.post(&self.http.of("pools"), &form).await?;
        Ok(Pool::new(&self.http, name))
    }

    pub fn pool(&self, name: &str) -> Pool {
        Pool::new(&self.http, name)
    }

    /// A worker for effects, without handlers yet.
    pub fn worker(&self) -> Worker {
        Worker::new(&self.http)
    }
}

fn of_world(world: Option<&str>) -> String {
    world.map_or_else(String::new, |world| format!("?world={}", escape(world)))
}
