//! Durable functions: each await ends once, code sees results in the order on record, and an instance that has ended stays as it is and asks
//! for nothing again.

use mundi_model::record::{Body, Record};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An instance as its cells have it.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) head: Value,
    /// Its awaits, by their number.
    pub(crate) rows: BTreeMap<u64, Value>,
}

/// The known state of the instances of a world.
#[derive(Default)]
pub(crate) struct Watched {
    instances: BTreeMap<String, Observed>,
}

const KIND: usize = 1;
const STATE: usize = 3;
const ORDER: usize = 4;
const VALUE: usize = 6;

impl Observed {
    fn has_ended(&self) -> bool {
        !self.head["ended_ns"].is_null()
    }

    /// The view of code that keeps all its results: the results in the order on record.
    fn seen(&self) -> Value {
        let ended = self.rows.values().filter(|row| !row[ORDER].is_null());
        let by_order: BTreeMap<_, _> = ended.map(|row| (row[ORDER].as_u64(), row)).collect();
        let seen = |row: &Value| if row[STATE] == "error" { row[VALUE]["code"].clone() } else { row[VALUE].clone() };
        by_order.into_values().map(seen).collect()
    }
}

impl Watched {
    pub(crate) fn instance(&mut self, name: &str, now: Observed) -> Result<(), String> {
        if let Some(before) = self.instances.get(name) {
            if before.has_ended() && before.head != now.head {
                return Err(format!("{name} had ended, and changed: {} became {}", before.head, now.head));
            }
            for (number, row) in before.rows.iter().filter(|(_, row)| row[STATE] != "open") {
                if now.rows.get(number) != Some(row) {
                    let after = now.rows.get(number);
                    return Err(format!("await {number} of {name} had ended, and changed: {row} became {after:?}"));
                }
            }
        }
        let state = now.head["state"].as_str().unwrap_or_default();
        if !["running", "done", "cancelled"].contains(&state) {
            return Err(format!("{name} is {state}: {}", now.head["error"]));
        }
        let orders: Vec<_> = now.rows.values().filter_map(|row| row[ORDER].as_u64()).collect();
        let distinct: BTreeSet<_> = orders.iter().collect();
        if distinct.len() != orders.len() {
            return Err(format!("two awaits of {name} ended as the same: {orders:?}"));
        }
        if state == "done" && now.head["cancel"].is_null() && now.head["result"] != now.seen() {
            let (seen, recorded) = (&now.head["result"], now.seen());
            return Err(format!("the code of {name} saw {seen}, and on record is {recorded}"));
        }
        self.instances.insert(name.to_owned(), now);
        Ok(())
    }

    /// In the end none waits for an effect or a timer, and each effect was asked for once.
    pub(crate) fn all_ended(&self, journal: &[Record]) -> Result<(), String> {
        let mut asked = BTreeMap::<&str, u32>::new();
        for record in journal {
            if let Body::Intent(intent) = &record.body
                && intent.label.starts_with("$fn/")
            {
                *asked.entry(&intent.label).or_default() += 1;
            }
        }
        if let Some((label, times)) = asked.iter().find(|(_, times)| **times > 1) {
            return Err(format!("`{label}` was asked for {times} times"));
        }
        let waits = |it: &Observed| it.rows.values().any(|row| row[STATE] == "open" && row[KIND] != "event");
        match self.instances.iter().find(|(_, it)| it.head["paused"].is_null() && (it.has_ended() == waits(it))) {
            Some((name, instance)) => Err(format!("{name} came to rest as {}", instance.head)),
            None => Ok(()),
        }
    }

    pub(crate) fn ended(&self) -> u64 {
        self.instances.values().filter(|it| it.has_ended()).count() as u64
    }
}
