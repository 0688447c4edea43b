//! Programs and manifests: what worlds run.
//!
//! A component is looked at before it is stored, compiled while the client goes on, and ready when it says what it offers.

use super::{
    Api, Problem,
    extract::{ADMIN, In, Name, Program as ProgramBody, READ, Whole, hash},
};
use crate::{
    node::{Growth, Tenant, Universe},
    quotas::Amounts,
};
use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_kernel::{
    loader::{Loader, Readiness},
    manifest::{Manifest, ManifestError},
};
use mundi_model::{Code, Coded, Hash, json as canonical};
use mundi_runtime::{Plane, RuntimeError};
use mundi_store::{blob::Blobs, keyspace::kept_object::Kind, protocol::ReleaseObject};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Program {
    name: String,
    manifest: String,
    program: String,
}

/// The programs that have a name here.
#[utoipa::path(
    get, path = "/v1/u/{universe}/programs", tag = "programs", responses((status = 200, body = Vec<Program>)),
)]
pub(super) async fn list<E: Engine>(In { api, .. }: In<E, READ>) -> Json<Vec<Program>> {
    let named = api.node.programs().iter().map(|(name, program)| Program {
        name: name.clone(),
        manifest: program.manifest_hash().to_string(),
        program: Hash::of(&program.program).to_string(),
    });
    Json(named.collect())
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stored {
    hash: String,
}

/// Registers the code of a program under its hash, if it can be run here: a component that asks for more than a program is
/// given is refused. It is compiled meanwhile.
#[utoipa::path(
    put, path = "/v1/u/{universe}/programs/{hash}", tag = "programs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"), responses((status = 201, body = Stored)),
)]
pub(super) async fn put<E: Engine>(
    In { api, universe, tenant }: In<E, ADMIN>,
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
    let growth = grow(&api, &universe, tenant, actual, Amounts::program(body.len() as u64)).await?;
    let storing = async {
        let stored = Blobs::put(&universe.plane().blobs, universe.id(), body.clone(), &[]).await?;
        universe.ops().register_program(stored).await?;
        universe.keep(stored, Kind::Program).await?;
        Ok::<_, Problem>(stored)
    };
    let stored = settle(growth, &universe, storing.await).await?;
    if let Some(loader) = loader {
        loader.prepare(stored, Some(body[..].into()));
    }
    Ok((StatusCode::CREATED, Json(Stored { hash: stored.to_string() })).into_response())
}

/// Room for what is registered. What is there already needs none.
async fn grow<E: Engine>(
    api: &Api<E>,
    universe: &Universe<E>,
    tenant: Tenant,
    hash: Hash,
    more: Amounts,
) -> Result<Growth, Problem> {
    let mut tx = universe.plane().engine.begin().await.map_err(RuntimeError::from)?;
    let is_there = universe.plane().blobs.missing(&mut tx, universe.id(), &[hash]).await?.is_empty();
    drop(tx);
    if is_there { Ok(Growth::default()) } else { api.node.grow(universe, tenant, more).await }
}

async fn settle<E: Engine>(
    growth: Growth,
    universe: &Universe<E>,
    stored: Result<Hash, Problem>,
) -> Result<Hash, Problem> {
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
    hash: String,
    /// `queued`, `compiling`, `ready`, `refused`; `stored` is code that nothing here can run.
    state: &'static str,
    /// Programs that are compiled before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<usize>,
    /// What is being compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// What the program says about itself, as a manifest that can be stored as it is, or changed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<serde_json::Value>,
}

/// How far a program is and, when it is ready, what it offers.
#[utoipa::path(
    get, path = "/v1/u/{universe}/programs/{hash}", tag = "programs", responses((status = 200, body = ProgramState)),
)]
pub(super) async fn describe<E: Engine>(
    In { api, universe, .. }: In<E, READ>,
    name: Name,
) -> Result<Json<ProgramState>, Problem> {
    let program = hash(&name)?;
    let plane = universe.plane();
    // A loader serves all universes: what one has brought must not be seen by another.
    let mut tx = plane.engine.begin().await.map_err(RuntimeError::from)?;
    if !plane.blobs.missing(&mut tx, universe.id(), &[program]).await?.is_empty() {
        return Err(Problem::new(Code::ProgramUnknown, format!("no program {program} was brought here")));
    }
    drop(tx);
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
    Ok(Json(ProgramState::of(program, readiness)))
}

impl ProgramState {
    fn of(program: Hash, readiness: Readiness) -> Self {
        let new =
            |state| Self { hash: program.to_string(), state, ahead: None, bytes: None, why: None, manifest: None };
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
pub(super) async fn put_manifest<E: Engine>(
    In { api, universe, tenant }: In<E, ADMIN>,
    Whole(body): Whole,
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
    let growth = grow(&api, &universe, tenant, Hash::of(&bytes), Amounts::blob(bytes.len() as u64)).await?;
    let storing = async {
        let stored = Blobs::put(&universe.plane().blobs, universe.id(), bytes.into(), &[]).await?;
        universe.ops().register_manifest(stored).await?;
        universe.keep(stored, Kind::Manifest).await?;
        Ok(stored)
    };
    let stored = settle(growth, &universe, storing.await).await?;
    Ok((StatusCode::CREATED, Json(Stored { hash: stored.to_string() })).into_response())
}

/// A manifest, in its canonical form.
#[utoipa::path(
    get, path = "/v1/u/{universe}/manifests/{hash}", tag = "programs", responses((status = 200, body = serde_json::Value)),
)]
pub(super) async fn manifest<E: Engine>(In { universe, .. }: In<E, READ>, name: Name) -> Result<Response, Problem> {
    let bytes = Blobs::get(&universe.plane().blobs, universe.id(), hash(&name)?).await?;
    Manifest::from_bytes(&bytes).map_err(|error| Problem::new(error.code(), error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}

/// Deletes a program: a sweep removes its code once no world and no manifest that is kept needs it.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/programs/{hash}", tag = "programs",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn delete<E: Engine>(
    In { api, universe, .. }: In<E, ADMIN>,
    name: Name,
) -> Result<StatusCode, Problem> {
    let program = hash(&name)?;
    let is_named = api.node.built_in().any(|named| Hash::of(&named.program) == program);
    release(&universe, program, Kind::Program, is_named).await
}

/// Deletes a manifest: a sweep removes it, and its program if that is not kept itself, once no world needs them.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/manifests/{hash}", tag = "programs",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn delete_manifest<E: Engine>(
    In { api, universe, .. }: In<E, ADMIN>,
    name: Name,
) -> Result<StatusCode, Problem> {
    let manifest = hash(&name)?;
    let is_named = api.node.built_in().any(|named| named.manifest_hash() == manifest);
    release(&universe, manifest, Kind::Manifest, is_named).await
}

async fn release<E: Engine>(
    universe: &Universe<E>,
    hash: Hash,
    kind: Kind,
    is_named: bool,
) -> Result<StatusCode, Problem> {
    if is_named {
        let what = format!("{hash} is built into this server, which would store it again");
        return Err(Problem::new(Code::RequestInvalid, what));
    }
    let release = ReleaseObject { universe: universe.id(), hash, kind };
    if universe.plane().run(&release).await?.output {
        return Ok(StatusCode::NO_CONTENT);
    }
    let what = match kind {
        Kind::Program => "program",
        Kind::Manifest => "manifest",
    };
    Err(Problem::new(Code::ProgramUnknown, format!("no {what} {hash} is kept here")))
}
