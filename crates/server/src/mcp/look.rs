//! Tools that read.

use super::{
    Outcome, Session,
    arguments::{
        DeadLetters, Diff, Effects, FindWorlds, Journal, OfWorld, Query, Rehearse, Sql, State, Strings, limit,
    },
    escape, query,
    shorten::cut_text,
};
use serde_json::{Map, Value, json};

/// The length of a record's summary.
const SUMMARY_CHARACTERS: usize = 200;

/// How long a query in SQL may take.
const SQL_MS: u64 = 30_000;

fn text<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// Only these members, and of them only those that say something.
pub(super) fn picked(value: &Value, names: &[&str]) -> Value {
    let kept = names.iter().filter_map(|name| Some((*name, value.get(*name)?)));
    let kept = kept.filter(|(_, it)| !it.is_null() && **it != json!(0));
    kept.map(|(name, it)| (name.to_owned(), it.clone())).collect::<Map<_, _>>().into()
}

fn list(page: &Value, item: impl Fn(&Value) -> Value) -> Value {
    let items: Vec<_> = page["items"].as_array().into_iter().flatten().map(item).collect();
    json!({ "items": items, "next": page["next"] })
}

pub(super) async fn find_worlds(session: &Session, given: FindWorlds) -> Outcome {
    let labels = given.label.map(Strings::into_vec).unwrap_or_default();
    let labels = labels.into_iter().map(|label| ("label", Some(label)));
    let others = [
        ("name", given.name),
        ("name_contains", given.name_contains),
        ("state", given.state),
        ("program", given.program),
        ("parent", given.parent),
        ("held_by", given.held_by),
        ("created_after", given.created_after),
        ("created_before", given.created_before),
        ("active_after", given.active_after),
        ("active_before", given.active_before),
        ("dead_letters", text(given.dead_letters)),
        ("effects_older_than_s", text(given.effects_older_than_s)),
        ("on_hold", text(given.on_hold)),
        ("failed", text(given.failed)),
        ("sort", given.sort),
        ("after", given.after),
        ("limit", text(Some(limit(given.limit)))),
    ];
    let parameters = query(&labels.chain(others).collect::<Vec<_>>());
    let page = session.get(&format!("worlds{parameters}")).await?;
    let members = [
        "name",
        "world",
        "state",
        "program",
        "labels",
        "created_at",
        "active_at",
        "waits",
        "parent",
        "hold",
        "failures",
        "failed",
        "effects",
    ];
    Ok(list(&page, |world| picked(world, &members)))
}

pub(super) async fn describe_world(session: &Session, given: &OfWorld) -> Outcome {
    let mut world = session.get(&format!("worlds/{}", escape(&given.world))).await?;
    let open = session.get(&format!("effects?world={}&limit=5", escape(&given.world))).await?;
    let open = open["items"].as_array().into_iter().flatten().map(effect).collect::<Vec<_>>();
    world["open_effects"] = open.into();
    Ok(world)
}

/// One line about a record: what came in, and what came of it.
fn summarized(record: &Value) -> Value {
    let rest: Map<String, Value> = record
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !["height", "hash", "type", "previous"].contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let summary = cut_text(&Value::Object(rest).to_string(), SUMMARY_CHARACTERS);
    json!({ "height": record["height"], "type": record["type"], "summary": summary })
}

/// Without `from`, the newest records.
pub(super) async fn journal(session: &Session, given: Journal) -> Outcome {
    let (world, count) = (escape(&given.world), limit(given.limit));
    let from = match given.from {
        Some(from) => from,
        None => {
            let world = session.get(&format!("worlds/{world}")).await?;
            let (head, first) = (world["head"].as_u64().unwrap_or(0), world["first_height"].as_u64().unwrap_or(0));
            head.saturating_sub(count as u64).max(first)
        }
    };
    let page = session.get(&format!("worlds/{world}/journal?from={from}&limit={count}")).await?;
    let mut shown = list(&page, |record| if given.full { record.clone() } else { summarized(record) });
    shown["from"] = from.into();
    // As `from` takes it.
    shown["next"] = page["next"].as_str().and_then(|next| next.parse::<u64>().ok()).into();
    Ok(shown)
}

pub(super) async fn state(session: &Session, given: State) -> Outcome {
    let parameters = query(&[
        ("at", text(given.at)),
        ("prefix", given.prefix),
        ("after", given.after),
        ("limit", text(Some(limit(given.limit)))),
    ]);
    let page = session.get(&format!("worlds/{}/cells{parameters}", escape(&given.world))).await?;
    Ok(list(&page, Value::clone))
}

pub(super) async fn query_world(session: &Session, given: Query) -> Outcome {
    let at = query(&[("at", text(given.at))]);
    let path = format!("worlds/{}/query/{}{at}", escape(&given.world), escape(&given.query));
    Ok(json!({ "answer": session.post(&path, given.params).await? }))
}

/// Why a world is not moving.
pub(super) async fn why(session: &Session, given: &OfWorld) -> Outcome {
    session.get(&format!("worlds/{}/why", escape(&given.world))).await
}

/// Rows beyond the bound of a result are cut: a query says by LIMIT and OFFSET which ones it wants.
pub(super) async fn sql(session: &Session, given: Sql) -> Outcome {
    session.post("sql", json!({ "query": given.query, "timeout_ms": SQL_MS })).await
}

pub(super) async fn diff(session: &Session, given: Diff) -> Outcome {
    let count = limit(given.limit);
    let parameters = query(&[
        ("with", given.with),
        ("at", text(given.at)),
        ("with_at", text(given.with_at)),
        ("after", given.after),
        ("limit", text(Some(count + 1))),
    ]);
    let found = session.get(&format!("worlds/{}/diff{parameters}", escape(&given.world))).await?;
    let mut differences = found.as_array().cloned().unwrap_or_default();
    let more = differences.len() > count;
    differences.truncate(count);
    let next = differences.last().filter(|_| more).map(|last| last["key"].clone());
    Ok(json!({ "differences": differences, "next": next }))
}

pub(super) async fn lineage(session: &Session, given: &OfWorld) -> Outcome {
    session.get(&format!("worlds/{}/lineage", escape(&given.world))).await
}

pub(super) async fn verify(session: &Session, given: &OfWorld) -> Outcome {
    session.post(&format!("worlds/{}/verify", escape(&given.world)), Value::Null).await
}

pub(super) async fn rehearse(session: &Session, given: Rehearse) -> Outcome {
    let body = json!({ "program": given.program, "from": given.from, "to": given.to });
    session.post(&format!("worlds/{}/rehearse", escape(&given.world)), body).await
}

fn effect(effect: &Value) -> Value {
    let members = [
        "effect",
        "stage",
        "world",
        "world_name",
        "height",
        "kind",
        "params",
        "published_at",
        "attempts",
        "attempts_max",
        "not_before",
        "last_failure",
        "last_reason",
        "claimed_by",
        "claimed_until",
    ];
    picked(effect, &members)
}

pub(super) async fn effects(session: &Session, given: Effects) -> Outcome {
    let Effects { world, kind, after, limit: count } = given;
    let parameters = query(&[("world", world), ("kind", kind), ("after", after), ("limit", text(Some(limit(count))))]);
    Ok(list(&session.get(&format!("effects{parameters}")).await?, effect))
}

pub(super) async fn dead_letters(session: &Session, given: DeadLetters) -> Outcome {
    let DeadLetters { world, queue, after, limit: count } = given;
    let parameters =
        query(&[("world", world), ("queue", queue), ("after", after), ("limit", text(Some(limit(count))))]);
    let members = ["letter", "world", "world_name", "code", "reason", "attempts", "at", "item"];
    Ok(list(&session.get(&format!("dead-letters{parameters}")).await?, |letter| picked(letter, &members)))
}

pub(super) async fn programs(session: &Session) -> Outcome {
    Ok(json!({ "programs": session.get("programs").await? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_summed_up_in_a_line() {
        let record = json!({ "height": 4, "type": "event", "hash": "h_1", "input": { "value": "x".repeat(10_000) } });
        let short = summarized(&record);
        assert_eq!((&short["height"], &short["type"]), (&json!(4), &json!("event")));
        assert!(short.to_string().len() < 400, "{short}");
    }
}
