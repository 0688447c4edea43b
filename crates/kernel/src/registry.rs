//! The programs that this process can run, by the hash that manifests name them with.
//!
//! Several versions live side by side, because old heights replay with the version that ran then.

use crate::program::Program;
use mundi_model::{Hash, json};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

#[derive(Clone, Default)]
pub struct Registry(BTreeMap<Hash, Arc<dyn Program>>);

impl Registry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a native program under its name and version, and returns the hash that stands for it.
    pub fn register_native(&mut self, name: &str, version: u32, program: impl Program + 'static) -> Hash {
        let hash = Hash::of(native_descriptor(name, version).as_bytes());
        self.register(hash, Arc::new(program));
        hash
    }

    /// Registers a program under the hash of its code.
    pub fn register(&mut self, hash: Hash, program: Arc<dyn Program>) {
        self.0.insert(hash, program);
    }

    pub(crate) fn get(&self, hash: &Hash) -> Option<Arc<dyn Program>> {
        self.0.get(hash).cloned()
    }
}

/// What stands in the content store for a native program: canonical JSON whose hash manifests name.
pub fn native_descriptor(name: &str, version: u32) -> String {
    json::to_canonical(&json!({ "native": { "name": name, "version": version } }))
}
