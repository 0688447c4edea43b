//! Revoked tokens: requests that use one end within a second, in every process.
//!
//! A process watches each token that its connections show. The watch begins after a moment, so that a client that makes a connection
//! for each request costs none.

use super::Api;
use crate::serve::FirstUse;
use mundi_engine::AnyEngine;
use mundi_runtime::{Plane, control::token_revoked};
use mundi_store::values::TokenId;
use std::time::Duration;

/// Before the first look, and after one that failed.
const PAUSE: Duration = Duration::from_millis(250);

/// Ends the connections of a token when it is revoked.
pub(super) fn follow(api: &Api, id: TokenId, mut first: FirstUse) {
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
async fn revoked(engine: &AnyEngine, id: TokenId) {
    loop {
        tokio::time::sleep(PAUSE).await;
        match token_revoked(engine, id).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "a token could not be read"),
        }
    }
}
