//! The external service of the demo: a file to which each step is written once, under its intent.

use super::super::exit::Outcome;
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

/// A line per step: world, step, intent. A line that exists already is not written again: the intent is the idempotency
/// key.
pub(super) struct Ledger(PathBuf);

impl Ledger {
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn read(&self) -> Outcome<String> {
        match std::fs::read_to_string(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            read => Ok(read?),
        }
    }

    /// Writes a step, once per intent. Says whether it was new.
    pub(super) fn enter(&self, world: &str, step: u64, intent: &str) -> Outcome<bool> {
        if self.read()?.lines().any(|line| line.ends_with(intent)) {
            return Ok(false);
        }
        let mut file: File = OpenOptions::new().create(true).append(true).open(&self.0)?;
        // One write: a line is there as a whole or not at all.
        file.write_all(format!("{world} {step} {intent}\n").as_bytes())?;
        file.sync_data()?;
        Ok(true)
    }

    /// The number of lines of each step of a world.
    pub(super) fn counts(&self, world: &str) -> Outcome<BTreeMap<u64, u64>> {
        let mut counts = BTreeMap::new();
        for line in self.read()?.lines() {
            let mut words = line.split(' ');
            if words.next() == Some(world)
                && let Some(step) = words.next().and_then(|step| step.parse().ok())
            {
                *counts.entry(step).or_insert(0) += 1;
            }
        }
        Ok(counts)
    }
}
