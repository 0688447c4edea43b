//! Programs and manifests.
//!
//! A component is inspected before it is stored, compiled in the background, and ready when its declarations were read.

use super::{
    Api, Problem,
    extract::{ADMIN, Name, Program as ProgramBody, READ, RawBody, UniverseScope, hash},
    program_names::{Version, stored_manifest, unname},
};
use crate::{
    node::{Growth, ListedProgram, Tenant, Universe},
    quotas::Amounts,
};
use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use mundi_kernel::{
    loader::{Loader, Readiness},
    manifest::{Manifest, ManifestError},
};
use mundi_model::{Code, Coded, Hash, json as canonical};
use mundi_runtime::Plane;
use mundi_store::{blob::Blobs, protocol::ReleaseObject, values::KeptKind};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A program that has a name, as its newest version.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Program {
    name: String,
    version: u32,
    manifest: String,
    program: String,
    /// It comes with the server, and its versions with it.
    built_in: bool,
    /// The newest 16 versions, the newest first.
    versions: Vec<Version>,
    /// How many there are: `/programs/{program}/versions` gives all.
    versions_total: usize,
}

/// The programs that have a name here: those that come with the server, and those that were given one.
#[utoipa::path(
    get, path = "/v1/u/{universe}/programs", tag = "programs",
    responses((status = 200, description = "All of them", body = Vec<Program>)),
)]
pub(super) async fn list(UniverseScope { universe, .. }: UniverseScope<READ>) -> Result<Json<Vec<Program>>, Problem> {
    let listed = universe.list_programs().await?.into_iter();
    let one = |ListedProgram { name, built_in, versions_total, versions }: ListedProgram| {
        let newest = *versions.first()?;
        let versions = versions.iter().map(|version| Version::new(&name, version)).collect();
        let (manifest, program) = (newest.manifest.to_string(), newest.program.to_string());
        Some(Program { name, version: newest.version, manifest, program, built_in, versions, versions_total })
    };
    Ok(Json(listed.filter_map(one).collect()))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stored {
    hash: String,
}

/// Registers the code of a program under its hash, if it can be run here: a component that asks for more than a program is
/// given is refused. It is compiled meanwhile.
#[utoipa::path(
    put, path = "/v1/u/{universe}/programs/{program}", tag = "programs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses((status = 201, body = Stored)),
)]
pub(super) async fn put(
    UniverseScope { api, universe, tenant }: UniverseScope<ADMIN>,
    name: Name,
    ProgramBody(body): ProgramBody,
) -> Result<Response, Problem> {
    let (stated, actual) = (hash(&name)?, Hash::of(&body));
    if stated != actual {
        return Err(Problem::new(Code::BlobHashMismatch, format!("the bytes have the hash {actual}")));
    }
    let loader = universe.plane().registry.loader().filter(|_| is_wasm(&body)).cloned();
    if let Some(loader) = &loader {
        inspect(loader.clone(), body.clone()).await?;
    }
    // What was stored as a blob before is no program yet.
    let is_program = universe.ops().is_program_registered(actual).await?;
    let programs = Amounts { programs: u64::from(!is_program), ..Amounts::default() };
    let growth = grow(&api, &universe, tenant, actual, body.len(), programs).await?;
    let storing = async {
        let stored = Blobs::put(&universe.plane().blobs, universe.id(), body.clone(), &[]).await?;
        universe.ops().register_program(stored).await?;
        universe.keep(stored, KeptKind::Program).await?;
        Ok::<_, Problem>(stored)
    };
    let stored = settle(growth, &universe, storing.await).await?;
    if let Some(loader) = loader {
        loader.prepare(stored, Some(body[..].into()));
    }
    Ok((StatusCode::CREATED, Json(Stored { hash: stored.to_string() })).into_response())
}

/// Room for what is registered, and for its object. One that is there already needs none.
async fn grow(
    api: &Api,
    universe: &Universe,
    tenant: Tenant,
    hash: Hash,
    bytes: usize,
    more: Amounts,
) -> Result<Growth, Problem> {
    let is_there = universe.ops().has_object(hash).await?;
    let more = if is_there { more } else { Amounts { programs: more.programs, ..Amounts::blob(bytes as u64) } };
    if more == Amounts::default() { Ok(Growth::default()) } else { api.node.grow(universe, tenant, more).await }
}

async fn settle(growth: Growth, universe: &Universe, stored: Result<Hash, Problem>) -> Result<Hash, Problem> {
    match &stored {
        Ok(_) => growth.keep(),
        Err(_) => growth.give_back(universe).await,
    }
    stored
}

fn is_wasm(code: &[u8]) -> bool {
    code.starts_with(b"\0asm")
}

/// Looking at megabytes takes a while: not on a thread that serves others.
async fn inspect(loader: Arc<dyn Loader>, code: Bytes) -> Result<(), Problem> {
    let looked = tokio::task::spawn_blocking(move || loader.inspect(&code)).await;
    let looked = looked.unwrap_or_else(|_| Err(ManifestError::ProgramRefused("it cannot be read".to_owned())));
    looked.map_err(|error| Problem::new(error.code(), error.to_string()))
}

/// How far a program is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProgramState {
    /// Of its code.
    hash: String,
    /// Its name and version, if it was asked for by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The manifest that the name stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest_hash: Option<String>,
    /// `queued`, `compiling`, `ready`, `refused`; `stored` is code that nothing here can run.
    state: &'static str,
    /// Programs that are compiled before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<usize>,
    /// The component that is being compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The program's own description, as a manifest that can be stored as it is, or changed first. If it was asked for by name: the
    /// manifest that the name stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<serde_json::Value>,
}

/// How far a program is and, when it is ready, what it offers. By the hash of its code, by its name, or as `name@version`.
#[utoipa::path(
    get, path = "/v1/u/{universe}/programs/{program}", tag = "programs", responses((status = 200, body = ProgramState)),
)]
pub(super) async fn describe(
    UniverseScope { api, universe, .. }: UniverseScope<READ>,
    name: Name,
) -> Result<Json<ProgramState>, Problem> {
    if !name.0.starts_with("h_") {
        return describe_named(&api, &universe, &name.0).await.map(Json);
    }
    readiness(&api, &universe, hash(&name)?).await.map(Json)
}

async fn describe_named(api: &Api, universe: &Universe, name: &str) -> Result<ProgramState, Problem> {
    let found = universe.find_program(name).await?;
    let unknown = || Problem::new(Code::ProgramUnknown, format!("no program is called `{name}` here"));
    let (program, name) = found.named.ok_or_else(unknown)?;
    let manifest = stored_manifest(universe, found.manifest).await?;
    let state = readiness(api, universe, program).await?;
    let (name, manifest_hash) = (Some(name), Some(found.manifest.to_string()));
    Ok(ProgramState { name, manifest_hash, manifest: serde_json::to_value(manifest).ok(), ..state })
}

/// How far the code is, by its hash.
async fn readiness(api: &Api, universe: &Universe, program: Hash) -> Result<ProgramState, Problem> {
    let plane = universe.plane();
    // A loader serves all universes: what one has brought must not be seen by another.
    if !universe.ops().has_object(program).await? {
        return Err(Problem::new(Code::ProgramUnknown, format!("no program {program} was brought here")));
    }
    let named = api.node.built_in().find(|named| Hash::of(&named.program) == program);
    let readiness = match (named, plane.registry.loader()) {
        (Some(named), _) => {
            let manifest = Manifest::from_bytes(&named.manifest);
            Readiness::Ready(Box::new(manifest.map_err(|error| Problem::new(error.code(), error.to_string()))?))
        }
        (None, Some(loader)) => match loader.prepare(program, None) {
            Readiness::Unknown => {
                let code = Blobs::get(&plane.blobs, universe.id(), program).await?;
                if let Ok(manifest) = Manifest::from_bytes(&code) {
                    let detail = format!("{program} is a manifest; the program that it names is {}", manifest.program);
                    return Err(Problem::new(Code::ProgramUnknown, detail));
                }
                // To ask is not to compile: only what was registered is.
                if is_wasm(&code) && universe.ops().is_program_registered(program).await? {
                    loader.prepare(program, Some(code[..].into()))
                } else {
                    Readiness::Unknown
                }
            }
            known => known,
        },
        (None, None) => Readiness::Unknown,
    };
    Ok(ProgramState::of(program, readiness))
}

impl ProgramState {
    fn of(program: Hash, readiness: Readiness) -> Self {
        let new = |state| Self {
            hash: program.to_string(),
            name: None,
            manifest_hash: None,
            state,
            ahead: None,
            bytes: None,
            why: None,
            manifest: None,
        };
        match readiness {
            Readiness::Unknown => new("stored"),
            Readiness::Queued { ahead } => Self { ahead: Some(ahead), ..new("queued") },
            Readiness::Compiling { bytes } => Self { bytes: Some(bytes), ..new("compiling") },
            Readiness::Ready(manifest) => Self { manifest: serde_json::to_value(&*manifest).ok(), ..new("ready") },
            Readiness::Refused(why) => Self { why: Some(why), ..new("refused") },
        }
    }
}

/// Registers a manifest, in its canonical form, and says its hash: worlds may run only on registered ones. A program that
/// this server cannot run or that is not registered is refused, and so are schemas that expand without bound.
#[utoipa::path(
    post, path = "/v1/u/{universe}/manifests", tag = "programs", request_body = serde_json::Value,
    responses((status = 201, body = Stored)),
)]
pub(super) async fn put_manifest(
    UniverseScope { api, universe, tenant }: UniverseScope<ADMIN>,
    RawBody(body): RawBody,
) -> Result<Response, Problem> {
    let given = canonical::read(&body).map_err(|error| Problem::new(error.code(), error.to_string()))?;
    let bytes = canonical::to_canonical(&given).into_bytes();
    let manifest = Manifest::from_bytes(&bytes).map_err(|error| Problem::new(error.code(), error.to_string()))?;
    let registry = &universe.plane().registry;
    let known = match registry.loader() {
        _ if registry.has_program(&manifest.program) => Ok(()),
        Some(loader) => loader.check(&manifest),
        None => Err(ManifestError::ProgramUnknown(manifest.program)),
    };
    known.map_err(|error| Problem::new(error.code(), error.to_string()))?;
    let growth = grow(&api, &universe, tenant, Hash::of(&bytes), bytes.len(), Amounts::default()).await?;
    let storing = async {
        let stored = Blobs::put(&universe.plane().blobs, universe.id(), bytes.into(), &[]).await?;
        universe.ops().register_manifest(stored).await?;
        universe.keep(stored, KeptKind::Manifest).await?;
        Ok(stored)
    };
    let stored = settle(growth, &universe, storing.await).await?;
    Ok((StatusCode::CREATED, Json(Stored { hash: stored.to_string() })).into_response())
}

/// A manifest, in its canonical form: by its hash, or by the name of a program.
#[utoipa::path(
    get, path = "/v1/u/{universe}/manifests/{manifest}", tag = "programs", responses((status = 200, body = serde_json::Value)),
)]
pub(super) async fn manifest(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    name: Name,
) -> Result<Response, Problem> {
    let found = if name.0.starts_with("h_") { hash(&name)? } else { universe.find_program(&name.0).await?.manifest };
    let bytes = Blobs::get(&universe.plane().blobs, universe.id(), found).await?;
    Manifest::from_bytes(&bytes).map_err(|error| Problem::new(error.code(), error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}

/// Deletes a program, by the hash of its code: a sweep removes it once no world and no manifest that is kept needs it. Or deletes
/// a version of a named one, as `name@version`: its manifest and code stay, and so do the worlds that run it.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/programs/{program}", tag = "programs",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn delete(
    UniverseScope { api, universe, .. }: UniverseScope<ADMIN>,
    name: Name,
) -> Result<StatusCode, Problem> {
    if !name.0.starts_with("h_") {
        return unname(&universe, &name.0).await;
    }
    let program = hash(&name)?;
    let is_named = api.node.built_in().any(|named| Hash::of(&named.program) == program);
    release(&universe, program, KeptKind::Program, is_named).await
}

/// Deletes a manifest: a sweep removes it, and its program if that is not kept itself, once no world needs them.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/manifests/{manifest}", tag = "programs",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn delete_manifest(
    UniverseScope { api, universe, .. }: UniverseScope<ADMIN>,
    name: Name,
) -> Result<StatusCode, Problem> {
    let manifest = hash(&name)?;
    let is_named = api.node.built_in().any(|named| named.manifest_hash() == manifest);
    release(&universe, manifest, KeptKind::Manifest, is_named).await
}

async fn release(universe: &Universe, hash: Hash, kind: KeptKind, is_named: bool) -> Result<StatusCode, Problem> {
    if is_named {
        let what = format!("{hash} is built into this server, which would store it again");
        return Err(Problem::new(Code::RequestInvalid, what));
    }
    let release = ReleaseObject { universe: universe.id(), hash, kind };
    if universe.plane().run(&release).await?.output {
        return Ok(StatusCode::NO_CONTENT);
    }
    let what = match kind {
        KeptKind::Program => "program",
        KeptKind::Manifest => "manifest",
    };
    Err(Problem::new(Code::ProgramUnknown, format!("no {what} {hash} is kept here")))
}
