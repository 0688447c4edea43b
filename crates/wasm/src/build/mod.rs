//! From a folder with sources to a component: in Rust, TypeScript or Python.
//!
//! A project is a folder with a `mundi.json`, which says what the program takes in and asks for, and sources beside it. The
//! compilers are the ones that people use for these languages; what this machine lacks is named, with the command that
//! gets it.

mod component;
mod project;
mod python;
mod rust;
mod sdk;
mod tests_of;
mod tools;
pub mod types;
mod typescript;

pub use component::componentize;
pub use project::{Language, Project};
pub use sdk::{Template, scaffold};
pub use tests_of::test;
pub use tools::BuildError;

use crate::{Components, inspect::inspect};
use mundi_kernel::manifest::Manifest;
use mundi_model::Hash;
use std::path::{Path, PathBuf};

/// How a project is built.
#[derive(Debug, Clone)]
pub struct Builder {
    /// Where compilers keep what they need, and what they made: shared by all projects.
    pub cache: PathBuf,
    /// Gets compilers from the package registries if they are not there, instead of saying that they are missing.
    pub install: bool,
    /// Compiles the component to machine code here, too, as each server does that it is uploaded to.
    pub check: bool,
    /// A build that is sooner done, of a component that is larger and slower: for programs that are being written.
    pub quick: bool,
    /// Hears what begins and will take a while.
    pub tell: fn(&str),
}

/// A component, and what is known about it.
#[derive(Debug, Clone)]
pub struct Built {
    pub language: Language,
    /// Where it was written to.
    pub path: PathBuf,
    pub component: Vec<u8>,
    pub hash: Hash,
    /// Its manifest, as the program itself declares it.
    pub manifest: Manifest,
}

impl Default for Builder {
    fn default() -> Self {
        Self { cache: cache_folder(), install: false, check: false, quick: false, tell: |_| {} }
    }
}

/// `$XDG_CACHE_HOME/mundi`, or what stands for it.
fn cache_folder() -> PathBuf {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("mundi")
}

impl Builder {
    /// Makes the types of a project from its `mundi.json`; also what an editor wants to have.
    pub fn types(&self, folder: &Path) -> Result<Project, BuildError> {
        let project = Project::open(folder)?;
        project.write_types()?;
        Ok(project)
    }

    /// Builds the component of a project, and checks it against the contract and the bounds.
    pub fn build(&self, folder: &Path) -> Result<Built, BuildError> {
        let project = self.types(folder)?;
        let component = match project.language {
            Language::Rust => rust::build(self, &project)?,
            Language::TypeScript => typescript::build(self, &project)?,
            Language::Python => python::build(self, &project)?,
        };
        inspect(&component).map_err(|refusal| BuildError::Refused(refusal.to_string()))?;
        let hash = Hash::of(&component);
        let refused = |error: &dyn std::fmt::Display| BuildError::Refused(error.to_string());
        // The component says the text of `mundi.json`, so that nothing has to run to know it.
        let manifest = match self.check {
            true => self.compile(&component)?,
            false => project.offer.clone().manifest(hash).map_err(|error| refused(&error))?,
        };
        let path = project.output();
        tools::write(&path, &component)?;
        Ok(Built { language: project.language, path, hash, component, manifest })
    }

    /// Compiles it, and asks it what it offers.
    fn compile(&self, component: &[u8]) -> Result<Manifest, BuildError> {
        let refused = |error: &dyn std::fmt::Display| BuildError::Refused(error.to_string());
        let components = Components::open(crate::ComponentsConfig {
            cache: Some(self.cache.join("compiled")),
            ..crate::ComponentsConfig::default()
        });
        let components = components.map_err(|error| refused(&error))?;
        (self.tell)(&format!("compiling {} kB to machine code, or finding it compiled", component.len() / 1_000));
        components.prepare_now(component).map_err(|error| refused(&error))
    }
}
