//! The result of a run of many seeds, and the smallest history of a failure.

use crate::{
    coverage::Coverage,
    faults::Faults,
    run::{Failure, Outcome, run_exactly},
    run_state::Tally,
};
use serde_json::{Value, json};
use std::{fmt::Write, io};

/// So many lines of a trace lead up to a failure.
const TRACE_LINES: usize = 60;
/// So many failures are told; the rest is counted.
const FAILURES_MAX: usize = 10;

/// The sum over many seeds.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub seeds: u64,
    pub simulated_ns: u64,
    pub tally: Tally,
    pub coverage: Coverage,
    pub failed: u64,
    pub failures: Vec<(u64, Faults, Failure)>,
}

impl Summary {
    pub fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.simulated_ns += outcome.simulated_ns;
        self.tally.add(&outcome.tally);
        self.coverage.merge(&outcome.coverage);
        if let Some(failure) = &outcome.failure {
            self.failed += 1;
            if self.failures.len() < FAILURES_MAX {
                self.failures.push((outcome.seed, outcome.faults.clone(), failure.clone()));
            }
        }
    }

    /// One line while it runs.
    pub fn progress(&self) -> String {
        let Tally { crashes, conflicts, forks, unknown, .. } = self.tally;
        format!(
            "{} seeds, {} failed, {} simulated, {crashes} crashes, {conflicts} conflicts, {unknown} unknown, {forks} forks",
            self.seeds,
            self.failed,
            hours(self.simulated_ns)
        )
    }

    /// The whole of it, for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\nwhich fault met which protocol how often:\n{}", self.progress(), self.coverage);
        let gaps = self.coverage.gaps();
        for (fault, protocol) in &gaps {
            let _never = writeln!(text, "gap: {fault} never met {protocol}");
        }
        if gaps.is_empty() {
            text.push_str("no gaps\n");
        }
        text
    }

    pub fn json(&self) -> Value {
        let failure = |(seed, faults, failure): &(u64, Faults, Failure)| json!({ "seed": seed, "faults": faults.to_string(), "checker": failure.checker, "what": failure.what });
        let gap = |(fault, protocol): &(_, _)| json!([format!("{fault}"), format!("{protocol}")]);
        json!({
            "seeds": self.seeds,
            "failed": self.failed,
            "simulated_seconds": self.simulated_ns / 1_000_000_000,
            "tally": tally(&self.tally),
            "failures": self.failures.iter().map(failure).collect::<Vec<_>>(),
            "gaps": self.coverage.gaps().iter().map(gap).collect::<Vec<_>>(),
        })
    }
}

fn hours(ns: u64) -> String {
    let minutes = ns / 60_000_000_000;
    format!("{}:{:02} h", minutes / 60, minutes % 60)
}

fn tally(tally: &Tally) -> Value {
    let Tally { commits, conflicts, unknown, crashes, pauses, partitions, forks, upgrades, calls } = tally;
    json!({
        "commits": commits, "conflicts": conflicts, "unknown": unknown, "crashes": crashes, "pauses": pauses,
        "partitions": partitions, "forks": forks, "upgrades": upgrades, "calls": calls,
    })
}

/// One seed, for machines.
pub(crate) fn outcome_json(outcome: &Outcome) -> Value {
    let failure = outcome.failure.as_ref().map(|it| json!({ "checker": it.checker, "what": it.what }));
    json!({
        "seed": outcome.seed,
        "faults": outcome.faults.to_string(),
        "trace_hash": format!("{:016x}", outcome.trace_hash),
        "simulated_seconds": outcome.simulated_ns / 1_000_000_000,
        "polls": outcome.polls,
        "tally": tally(&outcome.tally),
        "failure": failure,
    })
}

/// The fewest of these faults with which the seed still fails in the same way. A seed in which nothing comes to rest runs to its last poll
/// each time, which takes minutes: `progress` learns of every attempt.
fn minimize(seed: u64, faults: &Faults, failure: &Failure, progress: &mut dyn io::Write) -> Faults {
    let fails = |faults: &Faults| {
        run_exactly(seed, faults.clone(), false).failure.is_some_and(|found| found.checker == failure.checker)
    };
    let all = faults.iter().count();
    let mut kept = faults.clone();
    for (tried, fault) in faults.iter().enumerate() {
        // Nobody may be looking.
        let _unseen = write!(progress, "\r\x1b[2Kseed {seed} failed; does it without {fault}? {} of {all}", tried + 1);
        let _unseen = progress.flush();
        let fewer = kept.without(fault);
        if fails(&fewer) {
            kept = fewer;
        }
    }
    let _unseen = write!(progress, "\r\x1b[2K");
    kept
}

/// The report of a failed seed: the failure, with the fewest faults, how to see it again, and the events that led to it.
pub(crate) fn failure_text(seed: u64, faults: &Faults, failure: &Failure, progress: &mut dyn io::Write) -> String {
    let faults = minimize(seed, faults, failure, progress);
    let outcome = run_exactly(seed, faults.clone(), true);
    let what = outcome.failure.as_ref().unwrap_or(failure);
    let mut text = format!("seed {seed} failed\n  {what}\n  faults: {faults}\n");
    let _never = writeln!(text, "  replay: mundi-sim --seed {seed} --faults {faults} --exact --trace\n");
    // Workers continue saying that they live long after it happened.
    let is_news = |line: &&String| !["heartbeat", "renew_leases"].iter().any(|old| line.contains(old));
    let trace: Vec<_> = outcome.trace.iter().filter(is_news).collect();
    let skipped = trace.len().saturating_sub(TRACE_LINES);
    let _never = writeln!(text, "  ... {skipped} lines before");
    for line in &trace[skipped..] {
        let _never = writeln!(text, "  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_at_a_smaller_story_is_told_while_it_is_made() {
        let faults: Faults = "duplicates,moves".parse().unwrap();
        // The seed keeps every promise, so that no fault can be left out.
        let failure = Failure { checker: "liveness", what: String::new() };
        let mut told = Vec::new();
        assert_eq!(minimize(3, &faults, &failure, &mut told), faults);
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("1 of 2") && told.contains("2 of 2"), "{told}");
    }
}
