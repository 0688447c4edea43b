//! Children: runs that a world dispatches, each started at most once.

use crate::{
    call::keyed,
    error::Error,
    following::follow,
    http::{Http, Repeat, escape, with_json},
};
use futures_util::{StreamExt, stream::BoxStream};
use reqwest::Method;
use serde_json::{Value, json};

/// The children of a world.
#[derive(Debug, Clone)]
pub struct Children {
    http: Http,
    world: String,
}

impl Children {
    pub(crate) fn new(http: &Http, world: &str) -> Self {
        Self { http: http.clone(), world: world.to_owned() }
    }

    fn path(&self, rest: &str) -> String {
        self.http.of(&format!("worlds/{}{rest}", escape(&self.world)))
    }

    fn child(&self, child: &str, rest: &str) -> String {
        self.path(&format!("/children/{}{rest}", escape(child)))
    }

    /// Spawns a child in place of the world's program: `kind`, `params`, `budget`. Under the same key it is spawned once; without one it has a key
    /// of its own.
    pub async fn spawn(&self, form: &Value, idempotency_key: Option<&str>) -> Result<Value, Error> {
        self.post_once(&self.path("/children"), form, idempotency_key).await
    }

    /// All children, in the order in which they were spawned.
    pub fn list(&self) -> BoxStream<'static, Result<Value, Error>> {
        self.http.items(&self.path("/children"), &[]).boxed()
    }

    pub async fn get(&self, child: &str) -> Result<Value, Error> {
        self.http.get(&self.child(child, "")).await
    }

    /// Cancels a child. One that has ended stays as it is.
    pub async fn cancel(&self, child: &str, idempotency_key: Option<&str>) -> Result<Value, Error> {
        self.post_once(&self.child(child, "/cancel"), &json!({}), idempotency_key).await
    }

    async fn post_once(&self, path: &str, form: &Value, key: Option<&str>) -> Result<Value, Error> {
        let request = with_json(self.http.request(Method::POST, path), Some(form));
        self.http.json(keyed(request, key, None)?, Repeat::Usual).await
    }

    /// The events of a child so far (`urm-events@1`), from a number on.
    pub async fn events(&self, child: &str, from: u64) -> Result<Vec<Value>, Error> {
        let path = self.child(child, &format!("/events?from={from}"));
        self.http.json(self.http.request(Method::GET, &path), Repeat::Usual).await
    }

    /// The same, and each event until the child has ended, also after the server was restarted.
    pub fn follow(&self, child: &str, from: u64) -> BoxStream<'static, Result<Value, Error>> {
        let (http, path) = (self.http.clone(), self.child(child, ""));
        let is_over = move || {
            let (http, path) = (http.clone(), path.clone());
            async move { Ok(http.get(&path).await?["phase"] == "terminal") }
        };
        follow(&self.http, self.child(child, "/events"), "seq", from, is_over).boxed()
    }

    /// The spending of the children, and their limits.
    pub async fn budget(&self) -> Result<Value, Error> {
        self.http.get(&self.path("/budget")).await
    }

    /// Sets limits by lane; null removes one.
    pub async fn set_budget(&self, limits: &Value) -> Result<Value, Error> {
        let request =
            with_json(self.http.request(Method::PUT, &self.path("/budget")), Some(&json!({ "limits": limits })));
        self.http.json(request, Repeat::Usual).await
    }
}
