//! The manifests and programs that were registered in a universe: its worlds may run these.
//!
//! Everyone who may send can put objects into the content store, so that an object is there says nothing about who brought
//! it. Who may administer the universe registers manifests and programs; creation, spawn, fork, upgrade and rehearsal ask.

use crate::{
    Plane, RuntimeError,
    objects::{AtHand, with_objects},
};
use mundi_kernel::manifest::CompiledManifest;
use mundi_model::{Hash, UniverseId, WorldId};
use mundi_store::{
    keyspace::registered::{Registered, RegisteredKind},
    protocol::{IsRegistered, Register},
};
use std::sync::Arc;

/// Where no world is asked about.
const NOBODY: WorldId = WorldId::from_bytes([0; WorldId::LEN]);

/// Refuses a manifest that worlds of the universe may not run.
pub async fn require_registered<P: Plane>(plane: &P, universe: UniverseId, manifest: Hash) -> Result<(), RuntimeError> {
    match is_registered(plane, universe, RegisteredKind::Manifest, manifest).await? {
        true => Ok(()),
        false => Err(RuntimeError::NotRegistered { what: "manifest", hash: manifest }),
    }
}

/// Whether worlds of the universe may run a program.
pub async fn is_program_registered<P: Plane>(
    plane: &P,
    universe: UniverseId,
    program: Hash,
) -> Result<bool, RuntimeError> {
    is_registered(plane, universe, RegisteredKind::Program, program).await
}

async fn is_registered<P: Plane>(
    plane: &P,
    universe: UniverseId,
    kind: RegisteredKind,
    hash: Hash,
) -> Result<bool, RuntimeError> {
    Ok(plane.run(&IsRegistered { universe, kind, hash }).await?.output)
}

/// Registers a program that is in the content store.
pub async fn register_program<P: Plane>(plane: &P, universe: UniverseId, program: Hash) -> Result<(), RuntimeError> {
    let entry = Registered { hash: program, needs: Vec::new(), at_ns: plane.now_ns() };
    plane.run(&Register { universe, entries: vec![(RegisteredKind::Program, entry)] }).await?;
    Ok(())
}

/// Registers a manifest that is in the content store, with its schemas. Its program must be registered, or part of this
/// process, and its schemas must not expand without bound.
pub async fn register_manifest<P: Plane>(plane: &P, universe: UniverseId, manifest: Hash) -> Result<(), RuntimeError> {
    let check = |objects: &AtHand| CompiledManifest::check_registration(objects, manifest);
    with_objects(plane, (universe, NOBODY), &mut AtHand::default(), check).await?;
    let compiled = compiled(plane, universe, manifest).await?;
    let program = compiled.manifest.program;
    if !plane.registry().has_program(&program)
        && !is_registered(plane, universe, RegisteredKind::Program, program).await?
    {
        return Err(RuntimeError::NotRegistered { what: "program", hash: program });
    }
    // One that must be prepared first is waited for.
    let load = |objects: &AtHand| plane.registry().program(objects, &compiled.manifest);
    with_objects(plane, (universe, NOBODY), &mut AtHand::default(), load).await?;
    plane.run(&Register { universe, entries: entries(&compiled, plane.now_ns()).collect() }).await?;
    Ok(())
}

/// Registers manifests and programs that belong to this process, were in use before anything was registered, or arrived with a world that was
/// imported: the process or the administrator that put them there had the right to.
pub async fn register_trusted<P: Plane>(
    plane: &P,
    universe: UniverseId,
    manifests: &[Hash],
) -> Result<(), RuntimeError> {
    for manifest in manifests {
        let compiled = compiled(plane, universe, *manifest).await?;
        plane.run(&Register { universe, entries: entries(&compiled, plane.now_ns()).collect() }).await?;
    }
    Ok(())
}

async fn compiled<P: Plane>(
    plane: &P,
    universe: UniverseId,
    manifest: Hash,
) -> Result<Arc<CompiledManifest>, RuntimeError> {
    let load = |objects: &AtHand| plane.registry().manifest(objects, manifest);
    with_objects(plane, (universe, NOBODY), &mut AtHand::default(), load).await
}

fn entries(compiled: &CompiledManifest, at_ns: u64) -> impl Iterator<Item = (RegisteredKind, Registered)> {
    let (hash, program) = (compiled.hash, compiled.manifest.program);
    let needs = compiled.schema_objects().iter().copied().chain([program]).collect();
    let program = Registered { hash: program, needs: Vec::new(), at_ns };
    [(RegisteredKind::Program, program), (RegisteredKind::Manifest, Registered { hash, needs, at_ns })].into_iter()
}
