//! The tools: names, rights, descriptions and arguments.

use super::{
    Outcome, Refusal, Rights, Session, administer,
    arguments::{OfWorld, ReadDocs, SearchDocs, arguments},
    change, documents, look, trial,
};
use mundi_model::Code;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    Read,
    Send,
    Admin,
}

impl Right {
    pub(super) fn is_within(self, rights: Rights) -> bool {
        match self {
            Self::Read => true,
            Self::Send => rights.send,
            Self::Admin => rights.admin,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Send => "send",
            Self::Admin => "admin",
        }
    }
}

pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) right: Right,
    pub(super) about: &'static str,
    /// Names, types and meanings. Those whose type ends in `!` must be given.
    arguments: &'static [(&'static str, &'static str, &'static str)],
}

const WORLD: (&str, &str, &str) = ("world", "string!", "the name or the id of a world");
const AT: (&str, &str, &str) = ("at", "integer", "as it was before the record at this height; now if it is not given");
const AFTER: (&str, &str, &str) = ("after", "string", "the `next` of the page before");
const LIMIT: (&str, &str, &str) = ("limit", "integer", "at most so many: 20 if it is not given, 100 at most");
const KEY: (&str, &str, &str) = ("idempotency_key", "string", "under the same key it is done at most once");

const fn tool(
    name: &'static str,
    right: Right,
    about: &'static str,
    arguments: &'static [(&'static str, &'static str, &'static str)],
) -> Tool {
    Tool { name, right, about, arguments }
}

pub(super) const TOOLS: &[Tool] = &[
    tool(
        "find_worlds",
        Right::Read,
        "Lists worlds: name, state, program, last activity, what each waits for, what failed. A page may be short and not be the last: only `next` says so.",
        &[
            ("name", "string", "names that begin with this"),
            ("name_contains", "string", "names that contain this, in small or large letters"),
            ("label", "strings", "`key=value`, or `key` for any value; several of them for worlds with all of them"),
            ("state", "string", "live, paused, on_hold, archived, deleting or deleted"),
            ("program", "string", "`todo`, `todo@2` or the hash of a manifest"),
            ("parent", "string", "only forks of this world"),
            ("held_by", "string", "only worlds whose lease this worker has; `anybody` or `nobody`"),
            ("created_after", "string", "created at this time (RFC 3339) or later"),
            ("created_before", "string", "created before this time"),
            ("active_after", "string", "opened or released by a worker at this time or later"),
            ("active_before", "string", "not opened or released since this time"),
            ("dead_letters", "boolean", "true: only worlds with dead letters"),
            ("effects_older_than_s", "integer", "only worlds with an effect that has been open for so many seconds"),
            ("on_hold", "boolean", "only worlds on hold, or only the others"),
            ("failed", "boolean", "only worlds with failed steps, or only the others"),
            ("sort", "string", "id, name, created, newest, or active: those first that were active last"),
            AFTER,
            LIMIT,
        ],
    ),
    tool(
        "describe_world",
        Right::Read,
        "All that is known about a world, with its open effects and what it waits for.",
        &[WORLD],
    ),
    tool("why", Right::Read, "Why a world is not moving: every cause, with what it waits for.", &[WORLD]),
    tool(
        "sql",
        Right::Read,
        "Read-only SQL (SQLite) over worlds, labels, journal, cells, effects, attempts, timers, dead_letters, workers, leases, snapshots, \
         children, functions, lineage, pools, pool_leases and pool_resources of this universe. Use LIMIT: of many rows only the first are shown.",
        &[("query", "string!", "one SELECT")],
    ),
    tool(
        "journal",
        Right::Read,
        "Records of a world's journal, each in a line; the newest if `from` is not given. `next` is the `from` of the next page.",
        &[
            WORLD,
            ("from", "integer", "the first height"),
            LIMIT,
            ("full", "boolean", "whole records and not a line each"),
        ],
    ),
    tool(
        "state",
        Right::Read,
        "The cells (state) of a world, now or at any height of its past.",
        &[WORLD, AT, ("prefix", "string", "only keys that begin with it"), AFTER, LIMIT],
    ),
    tool(
        "query",
        Right::Read,
        "Asks a world's program a question that changes nothing, now or in the past.",
        &[WORLD, ("query", "string!", "a query of the program"), ("params", "any", "its parameters"), AT],
    ),
    tool(
        "diff",
        Right::Read,
        "The cells that differ between two worlds, or between two heights of one.",
        &[
            WORLD,
            ("with", "string", "the other world; the same one if it is not given"),
            AT,
            ("with_at", "integer", "the height on the other side"),
            ("after", "string", "the `next` of the page before: a key"),
            LIMIT,
        ],
    ),
    tool("lineage", Right::Read, "The ancestors and forks of a world.", &[WORLD]),
    tool(
        "verify",
        Right::Read,
        "Replays a world's whole history and proves every hash. Takes long for a long history.",
        &[WORLD],
    ),
    tool(
        "rehearse",
        Right::Read,
        "Runs a world's history under another program, and names the first record from which something else follows.",
        &[
            WORLD,
            ("program", "string!", "`name` or `name@version`"),
            ("from", "integer", "from the snapshot at or below this height on"),
            ("to", "integer", "up to this height"),
        ],
    ),
    tool(
        "effects",
        Right::Read,
        "Effects (external actions) that have no receipt yet: stage, attempts, next attempt, who claimed them.",
        &[("world", "string", "only of this world"), ("kind", "string", "only of this kind"), AFTER, LIMIT],
    ),
    tool(
        "dead_letters",
        Right::Read,
        "Items that a queue gave up on, with the reason.",
        &[
            ("world", "string", "only of this world"),
            ("queue", "string", "effects, timers, mailboxes or inboxes"),
            AFTER,
            LIMIT,
        ],
    ),
    tool("programs", Right::Read, "The programs that worlds of this universe can run.", &[]),
    tool(
        "docs_search",
        Right::Read,
        "Searches the documentation of Mundi.",
        &[("query", "string!", "a few words, or an error code")],
    ),
    tool(
        "docs_read",
        Right::Read,
        "Reads a page of the documentation of Mundi, in parts.",
        &[("page", "string!", "as docs_search names it"), ("from", "integer", "where to begin: `from` or `next`")],
    ),
    tool(
        "create_world",
        Right::Send,
        "Creates a world. Asked again for the same one, it answers the same.",
        &[("world", "string!", "its name"), ("program", "string!", "`name` or `name@version`")],
    ),
    tool(
        "send_event",
        Right::Send,
        "Sends an event to a world. It is durable when this returns; what the program makes of it is not waited for.",
        &[WORLD, ("event", "string!", "an event of the program"), ("value", "any", "its value"), KEY],
    ),
    tool(
        "call",
        Right::Send,
        "Sends an event to a world and waits for the program's reply.",
        &[
            WORLD,
            ("event", "string!", "an event of the program"),
            ("value", "any", "its value"),
            ("timeout_ms", "integer", "how long to wait: 10000 if it is not given, 30000 at most"),
            KEY,
        ],
    ),
    tool(
        "fork_and_try",
        Right::Send,
        "Forks a world at a height, changes one thing (sends an event, runs another program), lets the fork run until it is idle or the \
         time is over, and returns the reply, the new records and the difference. The parent is only read; in a sandbox no effect is carried out.",
        &[
            WORLD,
            ("at", "integer", "the fork shares all records below this height; the newest if it is not given"),
            ("name", "string", "of the fork; called after its parent if it is not given: `alice-fork-1`"),
            ("event", "string", "an event to send to the fork"),
            ("value", "any", "its value"),
            ("program", "string", "another program that the fork runs"),
            ("effects", "string", "sandbox (default), suppress, recorded, recorded-then-live or live"),
            ("answers", "array", "of a sandbox: scripted answers to effects, as the API has them"),
            ("timeout_ms", "integer", "10000 if it is not given, 30000 at most"),
        ],
    ),
    tool(
        "pause_world",
        Right::Admin,
        "Pauses a world: it takes nothing but commands; its inbox keeps what arrives.",
        &[WORLD],
    ),
    tool("resume_world", Right::Admin, "Continues a world that is paused or on hold.", &[WORLD]),
    tool("retry_world", Right::Admin, "Takes the input again that a world is on hold at.", &[WORLD]),
    tool(
        "skip_input",
        Right::Admin,
        "Passes the one input that a world is on hold at: the program does not see it.",
        &[WORLD],
    ),
    tool(
        "retry_effect",
        Right::Admin,
        "Tries an effect at once that waits for its next attempt, or that is a dead letter.",
        &[("effect", "string!", "its intent (i_…)"), ("world", "string", "the world that asked for it")],
    ),
    tool(
        "answer_effect",
        Right::Admin,
        "Gives an open effect a receipt in place of a worker. It is journaled with the name of the token.",
        &[
            ("effect", "string!", "its intent (i_…)"),
            ("status", "string!", "ok, error or timeout"),
            ("payload", "any", "what the program gets"),
            ("world", "string", "the world that asked for it"),
        ],
    ),
    tool(
        "replay_dead_letters",
        Right::Admin,
        "Puts dead letters back into their queue: `letters`, or all of a `queue` that match. Ask again while `more` is true.",
        &[
            ("letters", "array", "as dead_letters names them"),
            ("queue", "string", "effects, timers, mailboxes or inboxes"),
            ("world", "string", "only of this world"),
            ("code", "string", "only those that failed with this code"),
        ],
    ),
];

impl Tool {
    /// The JSON schema of its arguments.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let one = |(name, kind, about): &(&str, &str, &str)| {
            let schema = match kind.trim_end_matches('!') {
                "any" => json!({ "description": about }),
                "strings" => json!({
                    "type": ["string", "array"],
                    "items": { "type": "string" },
                    "description": about,
                }),
                kind => json!({ "type": kind, "description": about }),
            };
            ((*name).to_owned(), schema)
        };
        let properties: Map<_, _> = self.arguments.iter().map(one).collect();
        let required: Vec<_> = self.arguments.iter().filter(|it| it.1.ends_with('!')).map(|it| it.0).collect();
        let schema = [
            ("type", json!("object")),
            ("properties", properties.into()),
            ("required", json!(required)),
            ("additionalProperties", json!(false)),
        ];
        schema.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Runs a tool.
pub(super) async fn run(session: &Session, name: &str, given: Value) -> Outcome {
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        let detail = format!("there is no tool `{name}`");
        return Err(Refusal::new(Code::RequestInvalid, detail).hinting("List the tools."));
    };
    if !tool.right.is_within(session.rights) {
        let right = tool.right.name();
        let detail = format!("`{name}` needs the right to {right}, which this connection does not have");
        let hint = format!("Start `mundi mcp --allow {right}`, or connect to /mcp with a token that may {right}.");
        return Err(Refusal::new(Code::TokenDenied, detail).hinting(&hint));
    }
    match name {
        "find_worlds" => look::find_worlds(session, arguments(given)?).await,
        "describe_world" => look::describe_world(session, &arguments(given)?).await,
        "why" => look::why(session, &arguments(given)?).await,
        "sql" => look::sql(session, arguments(given)?).await,
        "journal" => look::journal(session, arguments(given)?).await,
        "state" => look::state(session, arguments(given)?).await,
        "query" => look::query_world(session, arguments(given)?).await,
        "diff" => look::diff(session, arguments(given)?).await,
        "lineage" => look::lineage(session, &arguments(given)?).await,
        "verify" => look::verify(session, &arguments(given)?).await,
        "rehearse" => look::rehearse(session, arguments(given)?).await,
        "effects" => look::effects(session, arguments(given)?).await,
        "dead_letters" => look::dead_letters(session, arguments(given)?).await,
        "programs" => look::programs(session).await,
        "docs_search" => documents::search(&arguments::<SearchDocs>(given)?.query),
        "docs_read" => {
            let ReadDocs { page, from } = arguments(given)?;
            documents::read(&page, from)
        }
        "create_world" => change::create_world(session, arguments(given)?).await,
        "send_event" => change::send_event(session, arguments(given)?).await,
        "call" => change::call(session, arguments(given)?).await,
        "fork_and_try" => trial::fork_and_try(session, arguments(given)?).await,
        "retry_effect" => administer::retry_effect(session, arguments(given)?).await,
        "answer_effect" => administer::answer_effect(session, arguments(given)?).await,
        "replay_dead_letters" => administer::replay_dead_letters(session, arguments(given)?).await,
        command => {
            let verb = match command {
                "pause_world" => "pause",
                "resume_world" => "resume",
                "retry_world" => "retry",
                _ => "skip",
            };
            administer::command(session, verb, &arguments::<OfWorld>(given)?).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::{Ask, Backend};
    use futures_util::{FutureExt, future::BoxFuture};
    use std::sync::Arc;

    /// Answers every request with the request.
    struct Echo;

    impl Backend for Echo {
        fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Value, Refusal>> {
            async move { Ok(json!({ "asked": format!("{} {}", ask.method, ask.path), "body": ask.body })) }.boxed()
        }
    }

    fn session(rights: Rights) -> Session {
        Session { backend: Arc::new(Echo), rights, universe: "default".to_owned() }
    }

    #[tokio::test]
    async fn a_tool_without_its_right_is_refused_and_says_how_to_get_it() {
        for tool in TOOLS.iter().filter(|tool| tool.right != Right::Read) {
            let refused = run(&session(Rights::default()), tool.name, json!({})).await.unwrap_err();
            assert_eq!(refused.code, "TOKEN_DENIED", "{}", tool.name);
            assert!(refused.hint.contains("--allow"), "{}", refused.hint);
        }
    }

    #[tokio::test]
    async fn every_tool_is_run_by_its_own_name_and_refuses_unknown_arguments() {
        let all = session(Rights { send: true, admin: true });
        for tool in TOOLS.iter().filter(|tool| tool.name != "programs") {
            let refused = run(&all, tool.name, json!({ "nonsense": 1 })).await.unwrap_err();
            assert_eq!(refused.code, "REQUEST_INVALID", "{}", tool.name);
        }
        for (name, verb) in
            [("pause_world", "pause"), ("resume_world", "resume"), ("retry_world", "retry"), ("skip_input", "skip")]
        {
            let asked = run(&all, name, json!({ "world": "a/b" })).await.unwrap();
            assert_eq!(asked["asked"], format!("POST /v1/u/default/worlds/a%2Fb/{verb}"));
        }
        assert!(run(&all, "nonsense", json!({})).await.is_err());
    }

    #[test]
    fn required_arguments_are_in_the_schema() {
        let query = TOOLS.iter().find(|tool| tool.name == "query").unwrap();
        assert_eq!(query.schema()["required"], json!(["world", "query"]));
        assert_eq!(query.schema()["properties"]["at"]["type"], "integer");
    }
}
