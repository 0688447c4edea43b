//! Dead letters: items that a queue gave up on. List, inspect, replay, drop; one, or all that a selector matches.

use super::{
    ListPage, Problem,
    extract::{ADMIN, JsonBody, Name, Params, READ, UniverseScope, wanted_world},
    json, limit,
    moment::Moment,
    naming::{NamesWorld, with_name, with_names},
};
use crate::node::Delayed;
use axum::{Json, http::StatusCode};
use mundi_model::{Code, WorldId, cbor, limits};
use mundi_runtime::shell::Frame;
use mundi_store::{
    protocol::StoredLetter,
    values::{DeadLetter, Queue, QueueSeq},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The queues that have dead letters, in the order in which they are listed.
pub(super) const QUEUES: [Queue; 4] = [Queue::Effects, Queue::Timers, Queue::Mailboxes, Queue::Inboxes];

pub(super) fn queue(name: &str) -> Result<Queue, Problem> {
    let unknown = || Problem::invalid(format!("`{name}` is no queue: expected effects, timers, mailboxes or inboxes"));
    QUEUES.into_iter().find(|queue| queue.name() == name).ok_or_else(unknown)
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Letter {
    /// Its queue and its place there: what it is addressed by.
    letter: String,
    world: Option<String>,
    world_name: Option<String>,
    code: String,
    reason: String,
    attempts: u32,
    at_ns: u64,
    at: Moment,
    /// The item as the queue kept it.
    item: serde_json::Value,
}

impl NamesWorld for Letter {
    fn world(&self) -> Option<&str> {
        self.world.as_deref()
    }

    fn set_name(&mut self, name: String) {
        self.world_name = Some(name);
    }
}

impl Letter {
    pub(super) fn new(queue: Queue, seq: QueueSeq, letter: DeadLetter) -> Self {
        let (to, item) = carried(queue, &letter.item);
        Self {
            letter: address(queue, seq),
            world: letter.world.or(to).map(|world| world.to_string()),
            world_name: None,
            code: letter.code,
            reason: letter.reason,
            attempts: letter.attempts,
            at_ns: letter.at_ns,
            at: Moment::of(letter.at_ns),
            item,
        }
    }
}

/// The content of a letter, and the world that it is for, as far as its bytes can be read. Some are here because they cannot.
fn carried(queue: Queue, bytes: &[u8]) -> (Option<WorldId>, serde_json::Value) {
    let frame = (queue == Queue::Mailboxes).then(|| Frame::decode(bytes).ok()).flatten();
    let Some(Frame { to, payload, .. }) = frame else { return (None, json::bytes(bytes)) };
    match cbor::decode::<Delayed>(&payload) {
        Ok(delayed) if to == Delayed::WORKER => (Some(delayed.world), json::item(&delayed.item)),
        _ => (None, serde_json::json!({ "to": to.to_string(), "payload": json::bytes(&payload) })),
    }
}

pub(super) fn address(queue: Queue, seq: QueueSeq) -> String {
    format!("{}.{seq}", queue.name())
}

pub(super) fn place(letter: &str) -> Result<(Queue, QueueSeq), Problem> {
    let invalid = || Problem::invalid(format!("`{letter}` names no dead letter: expected QUEUE.PLACE"));
    let (of, seq) = letter.split_once('.').ok_or_else(invalid)?;
    Ok((queue(of)?, seq.parse()?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct LettersParams {
    /// `effects`, `timers`, `mailboxes` or `inboxes`; all of them if it is not given.
    queue: Option<String>,
    world: Option<String>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The dead letters, by queue, and in each the oldest first.
#[utoipa::path(
    get, path = "/v1/u/{universe}/dead-letters", tag = "dead letters", params(LettersParams),
    responses((status = 200, body = ListPage<Letter>)),
)]
pub(super) async fn list(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    Params(params): Params<LettersParams>,
) -> Result<Json<ListPage<Letter>>, Problem> {
    let wanted = params.queue.as_deref().map(queue).transpose()?;
    let world = wanted_world(&universe, params.world.as_deref()).await?;
    let after = params.after.as_deref().map(place).transpose()?;
    let items_max = limit(params.limit)?;
    let queues = QUEUES.into_iter().filter(|queue| wanted.is_none_or(|wanted| wanted == *queue));
    let mut items = Vec::new();
    for queue in queues.skip_while(|queue| after.is_some_and(|(of, _)| of != *queue)) {
        let after = after.filter(|(of, _)| *of == queue).map(|(_, seq)| seq);
        let page = universe.ops().list_dead_letters(queue, world, after, items_max - items.len()).await?;
        items.extend(page.items.into_iter().map(|StoredLetter { seq, letter }| Letter::new(queue, seq, letter)));
        if let Some(next) = page.next {
            let items = with_names(&universe, items).await?;
            return Ok(Json(ListPage { items, next: Some(address(queue, next)) }));
        }
    }
    Ok(Json(ListPage { items: with_names(&universe, items).await?, next: None }))
}

/// One dead letter.
#[utoipa::path(
    get, path = "/v1/u/{universe}/dead-letters/{letter}", tag = "dead letters", responses((status = 200, body = Letter)),
)]
pub(super) async fn describe(
    UniverseScope { universe, .. }: UniverseScope<READ>,
    name: Name,
) -> Result<Json<Letter>, Problem> {
    let (queue, seq) = place(&name.0)?;
    let letter = Letter::new(queue, seq, universe.ops().read_dead_letter(queue, seq).await?);
    Ok(Json(with_name(&universe, letter).await?))
}

/// Forgets a dead letter.
#[utoipa::path(
    delete, path = "/v1/u/{universe}/dead-letters/{letter}", tag = "dead letters",
    responses((status = 204, description = "Done")),
)]
pub(super) async fn drop_one(
    UniverseScope { universe, .. }: UniverseScope<ADMIN>,
    name: Name,
) -> Result<StatusCode, Problem> {
    let (queue, seq) = place(&name.0)?;
    universe.ops().drop_dead_letter(queue, seq).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Which letters, and what becomes of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bulk {
    /// `replay` or `drop`.
    action: BulkAction,
    /// All letters of this queue that fit; or `letters`.
    queue: Option<String>,
    /// Only those of this world.
    world: Option<String>,
    /// Only those that failed with this code.
    code: Option<String>,
    /// These, as they are addressed, and no others.
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
pub(super) async fn bulk(
    UniverseScope { universe, .. }: UniverseScope<ADMIN>,
    JsonBody(bulk): JsonBody<Bulk>,
) -> Result<Json<BulkDone>, Problem> {
    let (found, more) = match (bulk.letters, bulk.queue) {
        (Some(letters), _) if letters.len() > limits::LIST_ITEMS_MAX => {
            return Err(Problem::new(Code::RequestTooLarge, "too many letters at a time"));
        }
        (Some(letters), _) => (letters.iter().map(|letter| place(letter)).collect::<Result<_, _>>()?, false),
        (None, None) => return Err(Problem::invalid("which ones? give `letters`, or a `queue`")),
        (None, Some(name)) => {
            let queue = queue(&name)?;
            let world = wanted_world(&universe, bulk.world.as_deref()).await?;
            let page = universe.ops().list_dead_letters(queue, world, None, limits::LIST_ITEMS_MAX).await?;
            let wanted = |letter: &StoredLetter| bulk.code.as_ref().is_none_or(|code| *code == letter.letter.code);
            let found: Vec<_> = page.items.into_iter().filter(wanted).map(|letter| (queue, letter.seq)).collect();
            (found, page.next.is_some())
        }
    };
    let mut done = BulkDone { done: 0, refused: Vec::new(), more };
    for (queue, seq) in found {
        let did = match bulk.action {
            BulkAction::Replay => universe.ops().replay_dead_letter(queue, seq).await,
            BulkAction::Drop => universe.ops().drop_dead_letter(queue, seq).await,
        };
        match did {
            Ok(()) => done.done += 1,
            Err(error) => done.refused.push(error.to_string()),
        }
    }
    Ok(Json(done))
}
