//! The log of an instance: its awaits, as rows in cells of their own and in pages.
//!
//! A row is a JSON array in a text, because the interpreters of other languages read JSON by native code. Where a result has no exact JSON
//! (bytes, floats, integers beyond 2^53) its cell is `{"row": …, "value": …}`. A page is rows with commas between them: awaits that have ended
//! are moved there, so that a step reads a long log in a few pieces.

use super::cells::{Entry, EntryState, Head, Label, PREFIX, Retry, log_key};
use crate::{Failure, Value, World, bytes::BYTES, cbor};
use serde::Deserialize;
use serde_json::json;
use std::{collections::BTreeMap, fmt::Write};

/// Awaits that have ended are moved to a page so many at a time.
const PAGE_ROWS: usize = 16;
/// A page that has so many bytes gets no more rows.
const PAGE_BYTES: usize = 32 << 10;
/// A larger row stays in its own cell.
const ROW_BYTES_MAX: usize = 4 << 10;
/// Integers up to here are the same in every language.
const EXACT_MAX: u64 = (1 << 53) - 1;
/// Cells that are read at a time.
const SCAN_ITEMS: u32 = 1000;

/// The log of an instance: the start, and every await by its number.
pub(crate) struct Log {
    pub(crate) entries: Vec<Entry>,
    pub(crate) tail: Tail,
}

/// Awaits in cells of their own, and where the next page goes.
#[derive(Default)]
pub(crate) struct Tail {
    rows: BTreeMap<u32, Piece>,
    pages: u32,
    /// The rows of the last page, and the bytes of its cell.
    last: Option<(String, usize)>,
}

struct Piece {
    row: String,
    /// It may be moved to a page.
    fits: bool,
}

/// The columns of a row. Times are texts, because they are beyond 2^53. Columns at the end that are null are left out.
#[derive(Deserialize)]
struct Row(
    u32,
    String,
    String,
    EntryState,
    Option<u32>,
    Option<String>,
    Value,
    usize,
    u32,
    String,
    u64,
    #[serde(default)] Option<u64>,
    #[serde(default)] Option<u32>,
    #[serde(default)] Option<(u32, Value)>,
);

impl Row {
    fn entry(self) -> Result<(u32, Entry), Failure> {
        let Self(
            number,
            kind,
            name,
            state,
            order,
            ended_ns,
            value,
            bytes,
            crc,
            asked_ns,
            asked_at,
            ended_at,
            attempts,
            retry,
        ) = self;
        let entry = Entry {
            kind,
            name,
            print: (bytes, crc),
            state,
            asked_ns: nanoseconds(&asked_ns)?,
            asked_at,
            value,
            order,
            ended_ns: ended_ns.as_deref().map(nanoseconds).transpose()?,
            ended_at,
            attempts,
            retry: retry.map(|(max, params)| Retry { max, params }),
        };
        Ok((number, entry))
    }
}

fn nanoseconds(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| Failure::new(format!("`{text}` is no time")))
}

fn page_prefix(instance: &str) -> String {
    format!("{PREFIX}p/{instance}/")
}

fn log_prefix(instance: &str) -> String {
    format!("{PREFIX}l/{instance}/")
}

/// All cells under a prefix.
fn under(world: &World, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    loop {
        let page = world.scan_bytes(prefix, found.last().map(|(key, _)| &**key), SCAN_ITEMS);
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

fn text(value: Value) -> Result<String, Failure> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Failure::new("a row of a log is a text")),
    }
}

pub(crate) fn log(world: &World, head: &Head) -> Result<Log, Failure> {
    read_log(head, |prefix| under(world, prefix))
}

/// The log of an instance, from the cells under two prefixes.
pub(crate) fn read_log(head: &Head, under: impl Fn(&str) -> Vec<(String, Vec<u8>)>) -> Result<Log, Failure> {
    let (instance, mut tail) = (head.instance(), Tail::default());
    let mut entries: Vec<Option<Entry>> = vec![None; head.asked as usize + 1];
    let lacks = || Failure::new(format!("the log of {instance} lacks awaits"));
    let mut keep = |(number, entry): (u32, Entry)| {
        *entries.get_mut(number as usize).ok_or_else(lacks)? = Some(entry);
        Ok::<_, Failure>(number)
    };
    for (_, cell) in under(&page_prefix(&instance)) {
        let rows = text(cbor::decode(&cell)?)?;
        for row in serde_json::from_str::<Vec<Row>>(&format!("[{rows}]"))? {
            keep(row.entry()?)?;
        }
        tail.pages += 1;
        tail.last = Some((rows, cell.len()));
    }
    for (_, cell) in under(&log_prefix(&instance)) {
        let (entry, piece) = read(&cell)?;
        tail.rows.insert(keep(entry)?, piece);
    }
    let entries = entries.into_iter().collect::<Option<_>>().ok_or_else(lacks)?;
    Ok(Log { entries, tail })
}

/// An await that is in a cell of its own: one in a page has ended.
pub(crate) fn entry(world: &World, instance: &str, number: u32) -> Result<Option<Entry>, Failure> {
    let cell = world.get_bytes(&log_key(instance, number));
    cell.map(|cell| Ok(read(&cell)?.0.1)).transpose()
}

fn read(cell: &[u8]) -> Result<((u32, Entry), Piece), Failure> {
    match cbor::decode(cell)? {
        Value::Object(mut parts) => {
            let row = text(parts.remove("row").unwrap_or_default())?;
            let (number, mut entry) = serde_json::from_str::<Row>(&row)?.entry()?;
            entry.value = parts.remove("value").unwrap_or(entry.value);
            if let Some(retry) = parts.remove("retry") {
                let (max, params) = serde_json::from_value(retry)?;
                entry.retry = Some(Retry { max, params });
            }
            Ok(((number, entry), Piece { row, fits: false }))
        }
        row => {
            let row = text(row)?;
            let entry = serde_json::from_str::<Row>(&row)?.entry()?;
            Ok((entry, Piece { row, fits: cell.len() <= ROW_BYTES_MAX }))
        }
    }
}

/// Writes the one JSON text of a value, if it has one that every language reads as the same.
fn exact(value: &Value, out: &mut String) -> Option<()> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => write!(out, "{value}").ok()?,
        Value::Number(number) => {
            let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs))?;
            (size <= EXACT_MAX).then_some(())?;
            write!(out, "{number}").ok()?;
        }
        Value::String(text) => out.push_str(&serde_json::to_string(text).ok()?),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                exact(item, out)?;
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| (name.len(), name.as_bytes()));
            out.push('{');
            for (at, (name, part)) in fields.into_iter().enumerate() {
                (name != BYTES).then_some(())?;
                out.push_str(if at > 0 { "," } else { "" });
                out.push_str(&serde_json::to_string(name).ok()?);
                out.push(':');
                exact(part, out)?;
            }
            out.push('}');
        }
    }
    Some(())
}

/// The row of an await, and its cell, which is the row unless a part of it has no exact JSON.
fn write_row(number: u32, entry: &Entry) -> Result<(String, Value), Failure> {
    let Entry { kind, name, print, state, asked_ns, asked_at, value, order, ended_ns, ended_at, attempts, retry } =
        entry;
    let retry = retry.as_ref().map(|Retry { max, params }| json!([max, params]));
    let json = |value: &Value| {
        let mut text = String::new();
        exact(value, &mut text).map(|()| text)
    };
    let (exact_value, exact_retry) = (json(value), retry.as_ref().map(json));
    let mut columns = vec![
        number.to_string(),
        serde_json::to_string(kind)?,
        serde_json::to_string(name)?,
        serde_json::to_string(state)?,
        serde_json::to_string(order)?,
        serde_json::to_string(&ended_ns.map(|ns| ns.to_string()))?,
        exact_value.clone().unwrap_or_else(|| "null".to_owned()),
        print.0.to_string(),
        print.1.to_string(),
        format!("\"{asked_ns}\""),
        asked_at.to_string(),
        serde_json::to_string(ended_at)?,
        serde_json::to_string(attempts)?,
        exact_retry.clone().flatten().unwrap_or_else(|| "null".to_owned()),
    ];
    while columns.last().is_some_and(|last| last == "null") {
        columns.pop();
    }
    let row = format!("[{}]", columns.join(","));
    if exact_value.is_some() && exact_retry != Some(None) {
        return Ok((row.clone(), Value::String(row)));
    }
    let mut cell = json!({ "row": row });
    if exact_value.is_none() {
        cell["value"] = value.clone();
    }
    if let (Some(None), Some(retry)) = (exact_retry, retry) {
        cell["retry"] = retry;
    }
    Ok((row, cell))
}

pub(crate) fn put_entry(
    world: &mut World,
    head: &Head,
    (number, entry): (u32, &Entry),
    tail: Option<&mut Tail>,
) -> Result<(), Failure> {
    let (row, cell) = write_row(number, entry)?;
    let bytes = cbor::encode(&cell);
    world.put_bytes(&log_key(&head.instance(), number), &bytes);
    if let Some(tail) = tail {
        tail.rows.insert(number, Piece { row, fits: cell.is_string() && bytes.len() <= ROW_BYTES_MAX });
    }
    Ok(())
}

/// Moves awaits that have ended to a page, once there are enough of them.
pub(crate) fn compact(world: &mut World, head: &Head, entries: &[Entry], tail: &mut Tail) -> Result<(), Failure> {
    let has_ended = |number: u32| entries.get(number as usize).is_some_and(|entry| entry.state != EntryState::Open);
    let ended = tail.rows.iter().filter(|(number, piece)| **number > 0 && piece.fits && has_ended(**number));
    let ended: Vec<u32> = ended.map(|(number, _)| *number).collect();
    if ended.len() < PAGE_ROWS {
        return Ok(());
    }
    let instance = head.instance();
    let mut rows: Vec<String> = match tail.last.take() {
        Some((rows, bytes)) if bytes < PAGE_BYTES => vec![rows],
        _ => {
            tail.pages += 1;
            Vec::new()
        }
    };
    for number in ended {
        rows.extend(tail.rows.remove(&number).map(|piece| piece.row));
        world.delete(&log_key(&instance, number));
    }
    world.put(&format!("{}{:06}", page_prefix(&instance), tail.pages - 1), &rows.join(","))
}

fn detached_key(instance: &str, run: u32, number: u32) -> String {
    format!("{PREFIX}o/{instance}/{run}.{number}")
}

/// Keeps an effect that is tried again without its function, which has ended or started over.
pub(crate) fn put_detached(
    world: &mut World,
    (instance, run): (&str, u32),
    (number, entry): (u32, &Entry),
) -> Result<(), Failure> {
    let (_, cell) = write_row(number, entry)?;
    world.put_bytes(&detached_key(instance, run, number), &cbor::encode(&cell));
    Ok(())
}

/// The effect that a label names, if it is tried again without its function.
pub(crate) fn detached(world: &World, label: &Label) -> Result<Option<(u32, Entry)>, Failure> {
    let Some(number) = label.number else { return Ok(None) };
    let cell = world.get_bytes(&detached_key(&label.instance, label.run, number));
    cell.map(|cell| Ok(read(&cell)?.0)).transpose()
}

pub(crate) fn forget_detached(world: &mut World, label: &Label) {
    world.delete(&detached_key(&label.instance, label.run, label.number.unwrap_or(0)));
}

pub(crate) fn delete_log(world: &mut World, head: &Head) {
    for prefix in [page_prefix(&head.instance()), log_prefix(&head.instance())] {
        for (key, _) in under(world, &prefix) {
            world.delete(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_every_language_reads_as_the_same_have_exact_json() {
        let json = |value: Value| {
            let mut text = String::new();
            exact(&value, &mut text).map(|()| text)
        };
        let value = json!({ "b": 1, "aa": [null, true, -3], "10": { "z": "\u{1}\u{7f}\"é" } });
        assert_eq!(
            json(value).unwrap(),
            r#"{"b":1,"10":{"z":"\u0001"#.to_owned() + "\u{7f}\\\"é\"},\"aa\":[null,true,-3]}"
        );
        for other in [json!(1.5), json!(1_u64 << 53), json!([{ BYTES: "AA==" }])] {
            assert_eq!(json(other), None);
        }
    }
}
