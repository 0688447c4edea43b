//! The programs that this process can run, by the hash that manifests name them with, and the manifests
//! that it has compiled.
//!
//! Several versions live side by side, because old heights replay with the version that ran then.

use crate::{
    loader::{Apart, InPlace, Loader, UniverseShare},
    manifest::{CompiledManifest, CompiledSchemas, Manifest, ManifestError},
    objects::Objects,
    program::Program,
};
use mundi_model::{Hash, json};
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Compiled manifests that are kept: as many as worlds of one worker may reasonably differ in.
const COMPILED_MAX: usize = 256;

#[derive(Default)]
pub struct Registry {
    programs: BTreeMap<Hash, Arc<dyn Program>>,
    /// For programs that are no part of this process.
    loader: Option<Arc<dyn Loader>>,
    /// By hash, so that what is kept here never shows in an outcome.
    compiled: Arc<Mutex<BTreeMap<Hash, Arc<CompiledSchemas>>>>,
}

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
        self.programs.insert(hash, program);
    }

    /// Programs that are not registered are looked for here.
    pub fn set_loader(&mut self, loader: Arc<dyn Loader>) {
        self.loader = Some(loader);
    }

    pub fn loader(&self) -> Option<&Arc<dyn Loader>> {
        self.loader.as_ref()
    }

    /// The same programs for the worlds of one universe (see [`Loader::for_universe`]).
    pub fn for_universe(&self, share: UniverseShare) -> Self {
        let own = |loader: &Arc<dyn Loader>| loader.for_universe(share).unwrap_or_else(|| loader.clone());
        Self { programs: self.programs.clone(), loader: self.loader.as_ref().map(own), compiled: self.compiled.clone() }
    }

    pub fn has_program(&self, hash: &Hash) -> bool {
        self.programs.contains_key(hash)
    }

    /// The program that a manifest names. One that must be prepared first is [`LoadError::Preparing`] for a while.
    ///
    /// [`LoadError::Preparing`]: crate::LoadError::Preparing
    pub fn program(&self, objects: &dyn Objects, manifest: &Manifest) -> Result<Arc<dyn Program>, ManifestError> {
        match (self.programs.get(&manifest.program), &self.loader) {
            (Some(program), _) => Ok(program.clone()),
            (None, Some(loader)) => loader.load(objects, manifest),
            (None, None) => Err(ManifestError::ProgramUnknown(manifest.program)),
        }
    }

    /// A manifest with its schemas compiled: once for all worlds of all universes that share it.
    pub fn manifest(&self, objects: &dyn Objects, hash: Hash) -> Result<Arc<CompiledManifest>, ManifestError> {
        let compiled = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(manifest) = compiled().get(&hash) {
            return Ok(self.with_checks_apart(manifest.clone()));
        }
        let manifest = Arc::new(CompiledSchemas::load(objects, hash)?);
        let mut compiled = compiled();
        if compiled.len() >= COMPILED_MAX {
            compiled.clear();
        }
        compiled.insert(hash, manifest.clone());
        drop(compiled);
        Ok(self.with_checks_apart(manifest))
    }

    fn with_checks_apart(&self, schemas: Arc<CompiledSchemas>) -> Arc<CompiledManifest> {
        let apart: Arc<dyn Apart> = match &self.loader {
            Some(loader) => loader.apart(),
            None => Arc::new(InPlace),
        };
        Arc::new(CompiledManifest::new(schemas, apart))
    }
}

/// The content of a native program in the content store: canonical JSON whose hash manifests name.
pub fn native_descriptor(name: &str, version: u32) -> String {
    json::to_canonical(&json!({ "native": { "name": name, "version": version } }))
}
