//! How the instances of durable functions lie in a world's cells. The layout is the same in every language, so that a server lists
//! instances without running code.
//!
//! ```text
//! $fn/m                          how many instances there are
//! $fn/i/FUNCTION/KEY             an instance: its state and what it waits for
//! $fn/l/FUNCTION/KEY/NNNNNN      its log: 000000 is its input, the others are awaits by their number
//! $fn/p/FUNCTION/KEY/NNNNNN      pages of its log: awaits that have ended, which are read together
//! $fn/e/EVENT/FUNCTION/KEY/RUN.N an await of an event that is not addressed to one instance
//! $fn/o/FUNCTION/KEY/RUN.N       an effect that was let go and is tried again without its function: its row
//! $fn/d/NNNNNNNNNNNN             instances that have ended, in that order
//! ```
//!
//! How awaits lie in `l` and `p` is in [`super::rows`].

use super::{FunctionError, rows};
use crate::{Failure, Value, World, cbor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) const PREFIX: &str = "$fn/";
/// The inbox of a world to which commands about instances go.
pub(crate) const INBOX: &str = "$fn";
/// Instances of a world that have not ended.
pub const INSTANCES_MAX: u32 = 1000;
/// Instances that have ended and are still found by their key; the oldest are forgotten first.
pub const ENDED_MAX: u32 = 1000;
/// Awaits in the log of one instance.
pub const AWAITS_MAX: u32 = 1000;
/// The bytes of an await or an input, so that its cell always fits.
pub const VALUE_BYTES_MAX: usize = 512 << 10;
/// Events addressed to one instance that it has not asked for yet.
pub const SIGNALS_MAX: usize = 100;
/// All of them together, so that the instance's cell always fits.
pub const SIGNALS_BYTES_MAX: usize = 256 << 10;
/// The bytes of an instance's status.
pub const STATUS_BYTES_MAX: usize = 64 << 10;
/// Awaits of one event without a key that a step looks at.
pub const WAITERS_MAX: u32 = 1000;
/// Those of them that it wakes: each may ask for something, and a step has 256 outputs.
pub const WOKEN_MAX: usize = 250;
/// Callers that wait for one instance.
pub const CALLERS_MAX: usize = 100;
/// Open awaits that an instance's cell shows.
const WAITS_SHOWN_MAX: usize = 16;
const NAME_BYTES_MAX: usize = 128;

/// The length and the CRC-32 of a value's canonical CBOR.
pub(crate) type Print = (usize, u32);

/// The cell of an instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) format: u32,
    pub(crate) function: String,
    pub(crate) key: String,
    pub(crate) state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<bool>,
    /// How often it has started over.
    pub(crate) run: u32,
    pub(crate) seed: u64,
    pub(crate) input: Print,
    pub(crate) began_ns: u64,
    /// Awaits in the log, those that have ended, and how often the code has run until all of it waited.
    pub(crate) asked: u32,
    pub(crate) resolved: u32,
    pub(crate) ran: u32,
    /// The awaits that it waits for: number, kind, name, since when.
    pub(crate) waits: Vec<(u32, String, String, u64)>,
    /// Places of the inbox that its result goes to.
    pub(crate) callers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) signals: Vec<(String, Value)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cancel: Option<Cancel>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub(crate) result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_ns: Option<u64>,
}

/// A field that is there, even if it is null.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cancel {
    pub(crate) order: u32,
    pub(crate) reason: String,
    pub(crate) at_ns: u64,
}

/// Why an instance ended, or stands still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub code: String,
    pub message: String,
    /// The await whose end the code was working on; 0 before the first.
    pub r#await: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntryState {
    Open,
    Ok,
    Error,
    Cancelled,
}

/// An await.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) print: Print,
    pub(crate) state: EntryState,
    pub(crate) asked_ns: u64,
    /// The height of the step that asked.
    pub(crate) asked_at: u64,
    pub(crate) value: Value,
    /// Its place among the awaits that have ended.
    pub(crate) order: Option<u32>,
    pub(crate) ended_ns: Option<u64>,
    /// The height of the record that ended it.
    pub(crate) ended_at: Option<u64>,
    pub(crate) attempts: Option<u32>,
    pub(crate) retry: Option<Retry>,
}

/// How often an await may be tried again, and with what.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    pub(crate) max: u32,
    pub(crate) params: Value,
}

impl Entry {
    pub(crate) fn new(world: &World, kind: &str, name: &str, print: Print) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            print,
            state: EntryState::Open,
            asked_ns: world.now_ns(),
            asked_at: world.height(),
            value: Value::Null,
            order: None,
            ended_ns: None,
            ended_at: None,
            attempts: None,
            retry: None,
        }
    }

    /// Ends an await. A value that is too large becomes an error.
    pub(crate) fn end(&mut self, world: &World, head: &mut Head, state: EntryState, value: Value) {
        let bytes = cbor::encode(&value).len();
        (self.state, self.value) = (state, value);
        if bytes > VALUE_BYTES_MAX {
            let reason = format!("the result has {bytes} bytes, more than {VALUE_BYTES_MAX}: put it into a blob");
            self.state = EntryState::Error;
            self.value = error_value("FUNCTION_RESULT_TOO_LARGE", &reason, self.attempts.unwrap_or(0));
        }
        self.order = Some(head.resolved);
        head.resolved += 1;
        self.ended_ns = Some(world.now_ns());
        self.ended_at = Some(world.height());
        self.retry = None;
    }

    pub(crate) fn describe(&self) -> String {
        describe(&self.kind, &self.name, self.print)
    }
}

pub(crate) fn describe(kind: &str, name: &str, (bytes, crc): Print) -> String {
    format!("{kind} `{name}` with params of {bytes} bytes and print {crc:08x}")
}

pub(crate) fn error_value(code: &str, reason: &str, attempts: u32) -> Value {
    serde_json::json!({ "code": code, "reason": reason, "attempts": attempts })
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) running: u32,
    pub(crate) ended: u32,
    pub(crate) next: u64,
}

/// The form of cells that this SDK reads and writes.
pub(crate) const FORMAT: u32 = 2;

impl Head {
    pub(crate) fn instance(&self) -> String {
        format!("{}/{}", self.function, self.key)
    }

    /// The label of an await's effect or timer; those of its retry and its timeout have a further part.
    pub(crate) fn label(&self, number: u32) -> String {
        format!("{PREFIX}{}/{}.{number}", self.instance(), self.run)
    }

    /// The cell by which an event finds who waits for it.
    pub(crate) fn waiter_key(&self, event: &str, number: u32) -> String {
        format!("{}{}/{}.{number}", event_prefix(event), self.instance(), self.run)
    }
}

pub(crate) fn head_key(instance: &str) -> String {
    format!("{PREFIX}i/{instance}")
}

pub(crate) fn log_key(instance: &str, number: u32) -> String {
    format!("{PREFIX}l/{instance}/{number:06}")
}

pub(crate) fn event_prefix(name: &str) -> String {
    format!("{PREFIX}e/{name}/")
}

pub(crate) fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(fits)
}

/// The instance that a label names.
pub(crate) struct Label {
    pub(crate) instance: String,
    pub(crate) run: u32,
    /// Nothing for the timer that starts a function over.
    pub(crate) number: Option<u32>,
    pub(crate) part: Option<String>,
}

impl Label {
    /// Nothing if it is not one of ours.
    pub(crate) fn parse(label: &str) -> Option<Self> {
        let mut parts = label.strip_prefix(PREFIX)?.split('/');
        let (function, key, place) = (parts.next()?, parts.next()?, parts.next()?);
        let (run, number) = place.split_once('.')?;
        let part = parts.next().map(str::to_owned);
        let number = if number == "start" { None } else { Some(number.parse().ok()?) };
        Some(Self { instance: format!("{function}/{key}"), run: run.parse().ok()?, number, part })
    }

    /// The label of the effect itself.
    pub(crate) fn effect(&self) -> String {
        format!("{PREFIX}{}/{}.{}", self.instance, self.run, self.number.unwrap_or(0))
    }
}

/// Gives up what an await waits for.
pub(crate) fn withdraw(world: &mut World, head: &Head, number: u32, entry: &Entry) {
    let label = head.label(number);
    match &*entry.kind {
        "effect" => {
            world.cancel(&label);
            world.cancel_timer(&format!("{label}/retry"));
            world.cancel_timer(&format!("{label}/timeout"));
        }
        "timer" => drop(world.cancel_timer(&label)),
        "event" => world.delete(&head.waiter_key(&entry.name, number)),
        _ => {}
    }
}

pub(crate) fn head(world: &World, instance: &str) -> Result<Option<Head>, Failure> {
    world.get(&head_key(instance))
}

pub(crate) fn put_head(world: &mut World, head: &mut Head, open: &BTreeMap<u32, Entry>) -> Result<(), Failure> {
    let shown = open.iter().take(WAITS_SHOWN_MAX);
    head.waits = shown.map(|(number, it)| (*number, it.kind.clone(), it.name.clone(), it.asked_ns)).collect();
    world.put(&head_key(&head.instance()), head)
}

pub(crate) fn totals(world: &World) -> Result<Totals, Failure> {
    Ok(world.get("$fn/m")?.unwrap_or_default())
}

/// Notes that an instance has ended, and forgets the one that ended first if there are too many.
pub(crate) fn ended(world: &mut World, head: &Head) -> Result<(), Failure> {
    let before = totals(world)?;
    world.put(&format!("{PREFIX}d/{:012}", before.next), &head.instance())?;
    let running = before.running.saturating_sub(1);
    let mut totals = Totals { running, ended: before.ended + 1, next: before.next + 1 };
    if totals.ended > ENDED_MAX {
        for (key, instance) in world.scan::<String>("$fn/d/", None, 1)? {
            if let Some(oldest) = self::head(world, &instance)? {
                rows::delete_log(world, &oldest);
            }
            world.delete(&head_key(&instance));
            world.delete(&key);
            totals.ended -= 1;
        }
    }
    world.put("$fn/m", &totals)
}

/// The hash by which a value is recognized.
pub(crate) fn print_of(value: &Value) -> Print {
    let bytes = cbor::encode(value);
    (bytes.len(), crc32(&bytes))
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        #[allow(clippy::cast_possible_truncation, reason = "it is below 256")]
        let mut value = at as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
};

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| CRC_TABLE[((crc ^ u32::from(*byte)) & 255) as usize] ^ (crc >> 8))
}

/// Every field of the filter is in the value, and the same.
pub(crate) fn matches(value: &Value, wanted: &Value) -> bool {
    match (wanted, value) {
        (Value::Null, _) => true,
        (Value::Object(wanted), Value::Object(value)) => {
            wanted.iter().all(|(name, part)| value.get(name).unwrap_or(&Value::Null) == part)
        }
        (Value::Object(_), _) => false,
        _ => value == wanted,
    }
}

/// Milliseconds of a text such as `500ms`, `30s`, `5m`, `1h`, `2d`.
pub(crate) fn milliseconds(duration: &str) -> Result<u64, FunctionError> {
    let at = duration.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(duration.len());
    let unit = match &duration[at..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    match duration[..at].parse::<u32>() {
        Ok(count) if unit > 0 => Ok(u64::from(count) * unit),
        _ => Err(FunctionError::new(
            "FUNCTION_FAILED",
            format!("`{duration}` is no duration: write `500ms`, `30s`, `5m`, `1h` or `2d`"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_print_is_the_crc_that_every_language_has() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn durations_and_labels_are_read() {
        assert_eq!(milliseconds("90s").unwrap(), 90_000);
        for bad in ["", "s", "1", "1w", "-1s", "1 s"] {
            assert!(milliseconds(bad).is_err(), "{bad}");
        }
        let label = Label::parse("$fn/order/17/2.5/retry").unwrap();
        assert_eq!((&*label.instance, label.run, label.number), ("order/17", 2, Some(5)));
        assert!(Label::parse("$fn/order/17/2.start").unwrap().number.is_none());
        for other in ["order/17", "$fn/order", "$fn/order/17/x.1", "$fn/order/17/1"] {
            assert!(Label::parse(other).is_none(), "{other}");
        }
    }
}
