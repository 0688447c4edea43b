//! Dead letters: what a queue gave up on. List, inspect, replay, drop; one or all that a selector names.

use super::{
    ListPage, Problem,
    extract::{ADMIN, Form, In, Name, Params, READ, world_of},
    json, limit,
};
use axum::{Json, http::StatusCode};
use mundi_engine::Engine;
use mundi_model::limits;
use mundi_store::{
    keyspace::{
        dead_letter::DeadLetter,
        queue::{Queue, QueueSeq},
    },
    protocol::StoredLetter,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

const QUEUES: [(&str, Queue); 4] = [
    ("effects", Queue::Effects),
    ("timers", Queue::Timers),
    ("mailboxes", Queue::Mailboxes),
    ("inboxes", Queue::Inboxes),
];

fn queue(name: &str) -> Result<Queue, Problem> {
    let unknown = || Problem::invalid(format!("`{name}` is no queue: expected effects, timers, mailboxes or inboxes"));
    QUEUES.iter().find(|(found, _)| *found == name).map(|(_, queue)| *queue).ok_or_else(unknown)
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Letter {
    /// Its queue and its place there: what it is addressed by.
    letter: String,
    world: Option<String>,
    code: String,
    reason: String,
    attempts: u32,
    at_ns: u64,
    /// The item as the queue kept it.
    item: serde_json::Value,
}

impl Letter {
    fn new(queue: Queue, seq: QueueSeq, letter: DeadLetter) -> Self {
        let name = QUEUES.iter().find(|(_, found)| *found == queue).map_or("", |(name, _)| name);
        Self {
            letter: format!("{name}.{seq}"),
            world: letter.world.map(|world| world.to_string()),
            code: letter.code,
            reason: letter.reason,
            attempts: letter.attempts,
            at_ns: letter.at_ns,
            item: json::bytes(&letter.item),
        }
    }
}

fn place(name: &Name) -> Result<(Queue, QueueSeq), Problem> {
    let invalid = || Problem::invalid(format!("`{}` names no dead letter: expected QUEUE.PLACE", name.0));
    let (of, seq) = name.0.split_once('.').ok_or_else(invalid)?;
    Ok((queue(of)?, seq.parse()?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct LettersParams {
    /// `effects` (the default), `timers`, `mailboxes` or `inboxes`.
    queue: Option<String>,
    world: Option<String>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The dead letters of a queue, oldest first.
#[utoipa::path(
    get, path = "/v1/u/{universe}/dead-letters", tag = "dead letters", params(LettersParams),
    responses((status = 200, body = ListPage<Letter>)),
)]
pub(super) async fn list<E: Engine>(
    In { universe, .. }: In<E, READ>,
    Params(params): Params<LettersParams>,
) -> Result<Json<ListPage<Letter>>, Problem> {
    let queue = queue(params.queue.as_deref().unwrap_or("effects"))?;
    let world = params.world.as_deref().map(|name| world_of(&universe, name)).transpose()?;
    let after = params.after.as_deref().map(str::parse).transpose()?;
    let page = universe.ops().list_dead_letters(queue, world, after, limit(params.limit)?).await?;
    Ok(ListPage::of(page, |StoredLetter { seq, letter }| Letter::new(queue, seq, letter)))
}

/// One dead letter.
#[utoipa::path(
    get, path = "/v1/u/{universe}/dead-letters/{letter}", tag = "dead letters", responses((status = 200, body = Letter)),
)]
pub(super) async fn describe<E: Engine>(In { universe, .. }: In<E, READ>, name: Name) -> Result<Json<Letter>, Problem> {
    let (queue, seq) = place(&name)?;
    Ok(Json(Letter::new(queue, seq, universe.ops().read_dead_letter(queue, seq).await?)))
}

/// Forgets a dead letter.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/dead-letters/{letter}", tag = "dead letters",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn drop_one<E: Engine>(In { universe, .. }: In<E, ADMIN>, name: Name) -> Result<StatusCode, Problem> {
    let (queue, seq) = place(&name)?;
    universe.ops().drop_dead_letter(queue, seq).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Which letters, and what becomes of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bulk {
    /// `replay` or `drop`.
    action: BulkAction,
    queue: String,
    world: Option<String>,
    /// Only letters with this code.
    code: Option<String>,
    /// Only these, as they are addressed.
    letters: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BulkAction {
    Replay,
    Drop,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BulkDone {
    done: u64,
    /// Those that could not be, with the reason.
    refused: Vec<String>,
    /// There may be more: ask again.
    more: bool,
}

/// Replays or drops all dead letters that a selector names, a bounded number at a time.
#[utoipa::path(
    post, path = "/v1/u/{universe}/dead-letters", tag = "dead letters", request_body = Bulk,
    responses((status = 200, body = BulkDone)),
)]
pub(super) async fn bulk<E: Engine>(
    In { universe, .. }: In<E, ADMIN>,
    Form(bulk): Form<Bulk>,
) -> Result<Json<BulkDone>, Problem> {
    let queue = queue(&bulk.queue)?;
    let world = bulk.world.as_deref().map(|name| world_of(&universe, name)).transpose()?;
    let (found, more) = match bulk.letters {
        Some(letters) if letters.len() > limits::LIST_ITEMS_MAX => {
            return Err(Problem::new(mundi_model::Code::RequestTooLarge, "too many letters at a time"));
        }
        Some(letters) => {
            let places: Result<Vec<_>, _> = letters.into_iter().map(|letter| Ok(place(&Name(letter))?.1)).collect();
            (places.map_err(|problem: Problem| problem)?, false)
        }
        None => {
            let page = universe.ops().list_dead_letters(queue, world, None, limits::LIST_ITEMS_MAX).await?;
            let wanted = |letter: &StoredLetter| bulk.code.as_ref().is_none_or(|code| *code == letter.letter.code);
            let found = page.items.into_iter().filter(wanted).map(|letter| letter.seq).collect();
            (found, page.next.is_some())
        }
    };
    let mut done = BulkDone { done: 0, refused: Vec::new(), more };
    for seq in found {
        let did = match bulk.action {
            BulkAction::Replay => universe.ops().replay_dead_letter(queue, seq).await,
            BulkAction::Drop => universe.ops().drop_dead_letter(queue, seq).await,
        };
        match did {
            Ok(()) => done.done += 1,
            Err(error) => done.refused.push(format!("{seq}: {error}")),
        }
    }
    Ok(Json(done))
}
