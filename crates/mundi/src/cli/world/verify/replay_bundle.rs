//! A rehearsal over a bundle, with a program that no server has.

use super::super::super::{
    exit::{Failed, Outcome},
    output::Out,
    progress::Progress,
};
use mundi_kernel::objects::MemoryObjects;
use mundi_model::{Code, Coded};
use mundi_runtime::bundle::{Bundle, BundleCompare, BundleError};
use mundi_server::{programs::Programs, proof::rehearsal_of_bundle};
use mundi_wasm::{Components, ComponentsConfig, build::Builder};
use serde_json::Value;
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

pub(super) async fn rehearsed(out: Out, bundle: PathBuf, program: PathBuf, compare: BundleCompare) -> Outcome<Value> {
    let work = async move { tokio::task::spawn_blocking(move || rehearse(&bundle, &program, compare)).await };
    Progress::default().during(out, "replaying", |_| String::new(), work).await?
}

fn rehearse(file: &Path, program: &Path, compare: BundleCompare) -> Outcome<Value> {
    let unreadable = |error: std::io::Error| Failed::new(Code::FolderInvalid, format!("{}: {error}", file.display()));
    let wrong = |error: BundleError| Failed::new(error.code(), format!("{}: {error}", file.display()));
    let bundle = Bundle::open(File::open(file).map_err(unreadable)?).map_err(wrong)?;
    let code = component(program)?;
    // The folder in which a build with `--check` keeps what it compiled: that of an interpreter takes long.
    let config = ComponentsConfig {
        cache: Some(Builder::default().cache.join("compiled")),
        in_background: false,
        ..ComponentsConfig::default()
    };
    let components = Components::open(config).map_err(|error| Failed::coded(&error))?;
    let manifest = components.prepare_now(&code).map_err(|error| Failed::coded(&error))?;
    let mut objects = MemoryObjects::new();
    let candidate = objects.put(manifest.to_bytes());
    objects.put(code);
    let registry = Programs::builtin().with_loader(Arc::new(components)).into_registry();
    let done = bundle.rehearse(&registry, (candidate, &objects), compare).map_err(|error| Failed::coded(&error))?;
    Ok(rehearsal_of_bundle(bundle.header(), done)?)
}

/// A component; that of a project is built first.
fn component(program: &Path) -> Outcome<Vec<u8>> {
    if program.is_dir() {
        let builder = Builder { tell: |what| eprintln!("{what} ..."), ..Builder::default() };
        return builder.build(program).map(|built| built.component).map_err(|error| Failed::coded(&error));
    }
    let missing = |error| Failed::new(Code::ProgramRefused, format!("{}: {error}", program.display()));
    std::fs::read(program).map_err(missing)
}
