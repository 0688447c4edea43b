//! Pools of resources that are leased.

use crate::{
    error::Error,
    http::{Http, escape, unique_key},
};
use serde_json::{Value, json};

/// A pool. A command that is repeated is carried out once: it has an operation id.
#[derive(Debug, Clone)]
pub struct Pool {
    http: Http,
    name: String,
}

impl Pool {
    pub(crate) fn new(http: &Http, name: &str) -> Self {
        Self { http: http.clone(), name: name.to_owned() }
    }

    fn path(&self, rest: &str) -> String {
        self.http.of(&format!("pools/{}{rest}", escape(&self.name)))
    }

    pub async fn get(&self) -> Result<Value, Error> {
        self.http.get(&self.path("")).await
    }

    /// A command with its form: `reserve`, `enqueue`, `cancel`, `activate`, `release`, `revoke` or `reclaim`.
    pub async fn command(&self, verb: &str, form: &Value) -> Result<Value, Error> {
        let mut form = form.clone();
        if form["operation_id"].is_null() {
            form["operation_id"] = unique_key()?.into();
        }
        self.http.post(&self.path(&format!("/{verb}")), &form).await
    }

    pub async fn create_resources(&self, resources: &Value) -> Result<Value, Error> {
        let form = json!({ "resources": resources, "operation_id": unique_key()? });
        self.http.post(&self.path("/resources"), &form).await
    }

    pub async fn resource(&self, resource: &str) -> Result<Value, Error> {
        self.http.get(&self.path(&format!("/resources/{}", escape(resource)))).await
    }

    pub async fn lease(&self, lease: &str) -> Result<Value, Error> {
        self.http.get(&self.path(&format!("/leases/{}", escape(lease)))).await
    }
}
