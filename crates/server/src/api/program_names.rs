//! Names and versions of programs.

use super::{
    Problem,
    extract::{ADMIN, JsonBody, Name, READ, UniverseScope},
    moment::Moment,
};
use crate::node::Universe;
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use mundi_kernel::manifest::Manifest;
use mundi_model::{Code, Coded, Hash, ProgramRef};
use mundi_store::{blob::Blobs, protocol::NamedVersion};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A version of a named program.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Version {
    /// `todo@2`: what is accepted wherever a program is meant.
    name: String,
    version: u32,
    manifest: String,
    program: String,
    /// When it was given; 0 for what comes with the server.
    at_ns: u64,
    at: Moment,
}

impl Version {
    pub(super) fn new(name: &str, found: &NamedVersion) -> Self {
        let NamedVersion { version, manifest, program, at_ns } = *found;
        let (manifest, program) = (manifest.to_string(), program.to_string());
        Self { name: format!("{name}@{version}"), version, manifest, program, at_ns, at: Moment::of(at_ns) }
    }
}

/// All versions of a named program, the newest first: at most 1000.
#[utoipa::path(
    get, path = "/v1/u/{universe}/programs/{program}/versions", tag = "programs",
    responses((status = 200, description = "All of them", body = Vec<Version>)),
)]
pub(super) async fn versions(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    Name(name): Name,
) -> Result<Json<Vec<Version>>, Problem> {
    let found = universe.program_versions(&name).await?;
    if found.is_empty() {
        return Err(Problem::new(Code::ProgramUnknown, format!("no program is called `{name}` here")));
    }
    Ok(Json(found.iter().map(|version| Version::new(&name, version)).collect()))
}

/// A version to be given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewVersion {
    /// The hash of a registered manifest.
    manifest: String,
    /// Its number, from 1 on; the next one if nothing is said, or the newest if that is the same manifest.
    version: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VersionGiven {
    /// `todo@2`.
    name: String,
    version: u32,
    manifest: String,
    /// It was there before.
    before: bool,
}

/// Gives a registered manifest a name and a version. Asked again for the same, it answers the same; a version that stands for
/// another manifest is refused.
#[utoipa::path(
    post, path = "/v1/u/{universe}/programs/{program}/versions", tag = "programs", request_body = NewVersion,
    responses(
        (status = 201, description = "It was given", body = VersionGiven),
        (status = 200, description = "It was there before", body = VersionGiven),
    ),
)]
pub(super) async fn name(
    UniverseScope { universe, .. }: UniverseScope<ADMIN>,
    Name(name): Name,
    JsonBody(new): JsonBody<NewVersion>,
) -> Result<Response, Problem> {
    let named = ProgramRef::new(&name, new.version).map_err(|error| Problem::new(error.code(), error.to_string()))?;
    let manifest: Hash = new.manifest.parse()?;
    let program = stored_manifest(&universe, manifest).await?.program;
    let given = universe.name_program(&named, (manifest, program)).await?;
    let status = if given.before { StatusCode::OK } else { StatusCode::CREATED };
    let (version, before) = (given.version, given.before);
    let given = VersionGiven { name: format!("{name}@{version}"), version, manifest: manifest.to_string(), before };
    Ok((status, Json(given)).into_response())
}

/// A manifest that is stored in the universe.
pub(super) async fn stored_manifest(universe: &Universe, hash: Hash) -> Result<Manifest, Problem> {
    let bytes = Blobs::get(&universe.plane().blobs, universe.id(), hash).await?;
    Manifest::from_bytes(&bytes).map_err(|error| Problem::new(error.code(), error.to_string()))
}

/// Deletes a version, as `name@version`.
pub(super) async fn unname(universe: &Universe, text: &str) -> Result<StatusCode, Problem> {
    let named: ProgramRef =
        text.parse().map_err(|error: mundi_model::ProgramNameInvalid| Problem::new(error.code(), error.to_string()))?;
    let whole = || Problem::invalid(format!("say which version of `{text}` is deleted: `{text}@1`"));
    universe.unname_program(named.name(), named.version().ok_or_else(whole)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
