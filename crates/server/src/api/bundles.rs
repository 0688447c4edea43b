//! Worlds as files: export and import.

use super::{
    Api, Problem,
    extract::{self, ADMIN, Params, Pieces, READ, UniverseScope, WorldScope, address_of},
};
use crate::{
    node::{Growth, Tenant, Universe, spool},
    proof::ProofReport,
    quotas::{Amounts, Quota},
};
use axum::{
    Json,
    body::Body,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use mundi_model::{Code, WorldAddress, limits, record::EffectPolicy};
use mundi_runtime::{
    Plane, RuntimeError,
    bundle::{self, Bundle, FrameSink, ImportRequest},
};
use mundi_store::values::KeptKind;
use serde::{Deserialize, Serialize};
use std::{fs::File, io::Write};
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};

/// Frames that wait for a slow reader.
const FRAMES_AHEAD: usize = 4;

/// A bundle on its way out. A reader that is gone ends it.
struct Outgoing(mpsc::Sender<Result<Bytes, RuntimeError>>);

impl FrameSink for Outgoing {
    async fn write(&mut self, frame: Bytes) -> Result<(), RuntimeError> {
        let gone = |_| RuntimeError::Cancelled("whoever read the bundle is gone");
        self.0.send(Ok(frame)).await.map_err(gone)
    }
}

/// One file that holds a world and proves itself: snapshots, the whole journal, programs, schemas, blobs, lineage.
#[utoipa::path(
    get, path = "/v1/u/{universe}/worlds/{world}/bundle", tag = "bundles",
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")),
)]
pub(super) async fn export(WorldScope { api, universe, world, tenant }: WorldScope<READ>) -> Result<Response, Problem> {
    let held = api.node.begin(&universe, tenant, Quota::Streams)?;
    let (sender, mut frames) = mpsc::channel(FRAMES_AHEAD);
    let (plane, id, named) = (universe.plane().clone(), universe.id(), universe.clone());
    tokio::spawn(async move {
        let _held = held;
        if let Err(error) = bundle::export(&plane, id, world, Outgoing(sender.clone())).await {
            let name = named.names_of_worlds([world].into()).await.ok().and_then(|mut names| names.remove(&world));
            tracing::warn!(%world, name, %error, "an export ended early");
            drop(sender.send(Err(error)).await);
        }
    });
    // What fails before anything is sent is a refusal; later, the answer breaks off and the file has no end.
    let first = match frames.recv().await {
        Some(Ok(frame)) => frame,
        Some(Err(error)) => return Err(error.into()),
        None => return Err(Problem::new(Code::NodeDraining, "the node stops")),
    };
    let rest = stream::unfold(frames, async |mut frames| Some((frames.recv().await?, frames)));
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{world}.mundi\"")),
    ];
    Ok((headers, Body::from_stream(stream::iter([Ok(first)]).chain(rest))).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportParams {
    /// The id or the name that it shall have here. If nothing is said, it keeps its id, and its name if that is free; else it gets another one:
    /// `alice-import-1`.
    world: Option<String>,
    /// The policy for its open effects: `suppress` (the default: each is answered with a cancellation) or `live`. A sandbox stays
    /// one, and a recorded fork stays recorded, whatever is said.
    effects: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ImportedWorld {
    world: String,
    /// Its name here.
    name: String,
    /// Every record below is as it was exported; the one at this height says how it came.
    arrived_at: u64,
    proof: ProofReport,
}

/// Brings a bundle in. It is proven before anything of it is stored.
#[utoipa::path(
    post, path = "/v1/u/{universe}/bundles", tag = "bundles", params(ImportParams),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = ImportedWorld)),
)]
pub(super) async fn import(
    UniverseScope { api, universe, tenant }: UniverseScope<ADMIN>,
    Params(params): Params<ImportParams>,
    request: Request,
) -> Result<Response, Problem> {
    let policy = match params.effects.as_deref() {
        None | Some("suppress") => EffectPolicy::Suppress,
        Some("live") => EffectPolicy::Live,
        Some(other) => return Err(Problem::invalid(format!("effects: `{other}` is none of suppress, live"))),
    };
    let address = params.world.as_deref().map(address_of).transpose()?;
    let bytes = extract::content_length(&request);
    let mut growth = api.node.grow(&universe, tenant, Amounts { bytes, ..Amounts::WORLD }).await?;
    let imported = prove_and_import(&api, (&universe, tenant), request, (address, policy), &mut growth).await;
    growth.give_back(&universe).await; // unless it was kept
    Ok((StatusCode::CREATED, Json(imported?)).into_response())
}

async fn prove_and_import(
    api: &Api,
    (universe, tenant): (&Universe, Tenant),
    request: Request,
    (address, policy): (Option<WorldAddress>, EffectPolicy),
    growth: &mut Growth,
) -> Result<ImportedWorld, Problem> {
    let file = receive(api, request).await?;
    let bytes = file.metadata().map_err(|error| Problem::new(Code::EngineFailed, error.to_string()))?.len();
    growth.grow_to(&api.node, universe, bytes).await?; // a body need not say how many it has
    let registry = universe.plane().registry().clone();
    let proving = tokio::task::spawn_blocking(move || {
        let bundle = Bundle::open(file)?;
        let proof = bundle.verify(&registry)?;
        Ok::<_, RuntimeError>((bundle, proof))
    });
    let (bundle, proof) = proving.await.map_err(|error| Problem::new(Code::EngineFailed, error.to_string()))??;
    let request = ImportRequest { universe: universe.id(), world: address, policy, now_ns: universe.plane().now_ns() };
    let mut programs = Vec::new();
    for program in bundle.programs().map_err(RuntimeError::from)? {
        if !universe.ops().is_program_registered(program).await? {
            programs.push(program);
        }
    }
    let more = Amounts { programs: programs.len() as u64, ..Amounts::default() };
    let registered =
        if programs.is_empty() { Growth::default() } else { api.node.grow(universe, tenant, more).await? };
    let imported = bundle::import(universe.plane(), &bundle, proof, request).await;
    registered.settle(universe, imported.is_ok()).await;
    let imported = imported?;
    // Counted and listed as programs that were uploaded.
    for program in programs {
        universe.keep(program, KeptKind::Program).await?;
    }
    std::mem::take(growth).keep_bytes(universe, bytes).await;
    Ok(ImportedWorld {
        world: imported.world.to_string(),
        name: imported.name.to_string(),
        arrived_at: imported.arrived_at.get(),
        proof: ProofReport::of_bundle(bundle.header().world, &imported.proof),
    })
}

/// The body as a file without a name, which is gone with the request.
async fn receive(api: &Api, request: Request) -> Result<File, Problem> {
    let failed = |error: std::io::Error| {
        let code = if error.kind() == std::io::ErrorKind::StorageFull { Code::DiskFull } else { Code::EngineFailed };
        Problem::new(code, format!("the bundle could not be kept: {error}"))
    };
    let mut file = spool(api.node.config()).map_err(failed)?;
    let mut pieces = Pieces::new(request.into_body(), api);
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        if pieces.taken() > limits::BUNDLE_BYTES_MAX {
            let max = limits::BUNDLE_BYTES_MAX;
            return Err(Problem::new(Code::RequestTooLarge, format!("a bundle has at most {max} bytes here")));
        }
        file.write_all(&piece).map_err(failed)?;
    }
    Ok(file)
}
