//! The programs that a node can run, each with a manifest, by the names that people use.

mod counter;
mod kv;
mod steps;

use mundi_kernel::{
    Registry,
    lease_kernel::{self, LeaseKernel},
    loader::Loader,
    manifest::{Manifest, Schema},
    program::{Failure, Program},
    registry::native_descriptor,
};
use mundi_model::{Hash, Value, cbor};
use std::{collections::BTreeMap, sync::Arc};

/// Programs for a node. What is registered here is put into every universe that the node serves.
#[derive(Default)]
pub struct Programs {
    pub(crate) registry: Registry,
    pub(crate) named: BTreeMap<String, NamedProgram>,
    /// Older versions of these, for the worlds that run them.
    pub(crate) older: Vec<NamedProgram>,
}

/// The program behind a name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedProgram {
    pub name: String,
    pub version: u32,
    /// The canonical bytes of its manifest.
    pub manifest: Vec<u8>,
    /// The object that its hash is of.
    pub program: Vec<u8>,
}

impl NamedProgram {
    /// The hash that creates worlds of it.
    pub fn manifest_hash(&self) -> Hash {
        Hash::of(&self.manifest)
    }
}

impl Programs {
    pub fn new() -> Self {
        Self::default()
    }

    /// The ones that come with Mundi.
    pub fn builtin() -> Self {
        Self::new()
            .native("counter", 1, counter::Counter, counter::declare)
            .native("kv", 3, kv::Kv::Current, kv::declare)
            .kept("kv", 2, kv::Kv::Second, kv::declare)
            .kept("kv", 1, kv::Kv::First, kv::declare_first)
            .native("steps", 2, steps::Steps, steps::declare)
            .native(lease_kernel::NAME, lease_kernel::VERSION, LeaseKernel, lease_kernel::declare)
    }

    /// Keeps an older version of a native program, for the worlds that run it.
    fn kept(
        mut self,
        name: &str,
        version: u32,
        program: impl Program + 'static,
        declare: impl FnOnce(&mut Manifest),
    ) -> Self {
        let program = self.describe(name, version, program, declare);
        self.older.push(program);
        self
    }

    /// The programs without a node, to verify a file.
    pub fn into_registry(self) -> Arc<Registry> {
        Arc::new(self.registry)
    }

    /// Programs that are uploaded are run by this: components, say.
    pub fn with_loader(mut self, loader: Arc<dyn Loader>) -> Self {
        self.registry.set_loader(loader);
        self
    }

    /// Adds a native program; `declare` says what it takes in and may ask for.
    pub fn native(
        mut self,
        name: &str,
        version: u32,
        program: impl Program + 'static,
        declare: impl FnOnce(&mut Manifest),
    ) -> Self {
        let program = self.describe(name, version, program, declare);
        self.named.insert(name.to_owned(), program);
        self
    }

    fn describe(
        &mut self,
        name: &str,
        version: u32,
        program: impl Program + 'static,
        declare: impl FnOnce(&mut Manifest),
    ) -> NamedProgram {
        let mut manifest = Manifest::new(self.registry.register_native(name, version, program));
        declare(&mut manifest);
        let program = native_descriptor(name, version).into_bytes();
        NamedProgram { name: name.to_owned(), version, manifest: manifest.to_bytes(), program }
    }
}

/// The payload of an event or a query, as a value.
fn value(bytes: &[u8]) -> Result<Value, Failure> {
    cbor::decode(bytes).map_err(|error| Failure::new(error.to_string()))
}

fn declare_all(manifest: &mut Manifest, events: &[(&str, serde_json::Value)], queries: &[(&str, serde_json::Value)]) {
    let declared = |list: &[(&str, serde_json::Value)]| -> BTreeMap<String, Schema> {
        list.iter().map(|(name, schema)| ((*name).to_owned(), Schema(schema.clone()))).collect()
    };
    manifest.events = declared(events);
    manifest.queries = declared(queries);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_of_what_comes_with_mundi_are_pinned() {
        // Worlds in people's folders name them: a change needs a new version beside the old one.
        let hash = |name: &str| Programs::builtin().named[name].manifest_hash().to_string();
        assert_eq!(hash("counter"), "h_91d5f834e1adf617b79cf613e29e35d12fab16adec07917805ed60b8f8e79ff8");
        assert_eq!(hash("kv"), "h_2019565a1b01f00f13c63f2570feecdf9c47a87632ccd3bb44fbf7f39936d46d");
        assert_eq!(hash("lease-kernel"), "h_7d22412780fa27f39993741953005156ea34cab4aa662412b3ac5b1ca0f47fe1");
        let older: Vec<_> = Programs::builtin().older.iter().map(|it| it.manifest_hash().to_string()).collect();
        let second = "h_eaa6dde24ad5c87b117789abf4525318e9187a867e7357b422f67797e4b3ce77";
        assert_eq!(older, [second, "h_3c843ed9778a340c25af73ddf0b358dd886ad9061c426cd22f29159ffac0b5a8"]);
        let first = Hash::of(native_descriptor("kv", 1).as_bytes());
        assert!(Programs::builtin().registry.has_program(&first), "worlds of version 1 go on");
    }
}
