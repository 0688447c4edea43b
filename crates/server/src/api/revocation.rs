//! Revoked tokens: what was begun with one ends within a second, in every process.
//!
//! A process watches each token that its connections show. The watch begins after a moment, so that a client that makes a connection
//! for each request costs none.

use super::Api;
use crate::serve::FirstUse;
use mundi_engine::{Engine, EngineError, Transaction};
use mundi_runtime::Plane;
use mundi_store::keyspace::token::{self, TokenId};
use std::time::Duration;

/// Before the first look, and after one that failed.
const PAUSE: Duration = Duration::from_millis(250);

/// Ends the connections of a token when it is revoked.
pub(super) fn follow<E: Engine>(api: &Api<E>, id: TokenId, mut first: FirstUse) {
    let engine = api.node.plane().engine().clone();
    api.node.plane().spawner().spawn(Box::pin(async move {
        tokio::select! {
            () = first.unused() => {}
            () = revoked(&engine, id) => {
                tracing::info!(token = format!("{id:016x}"), "a token was revoked; its connections end");
                first.end_connections();
            }
        }
    }));
}

/// Completes when the token is not there any more.
async fn revoked<E: Engine>(engine: &E, id: TokenId) {
    let key = token::key(id);
    loop {
        tokio::time::sleep(PAUSE).await;
        let looked: Result<bool, EngineError> = async {
            loop {
                let record = engine.begin().await?.get_snapshot(key.as_bytes()).await?;
                if record.is_none() {
                    return Ok(true);
                }
                engine.watch(key.as_bytes(), record).await?;
            }
        }
        .await;
        match looked {
            Ok(_) => return,
            Err(error) => tracing::debug!(%error, "a token could not be looked at"),
        }
    }
}
