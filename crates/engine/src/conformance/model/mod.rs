//! Random transactions, several open at once, against an oracle that is a sorted map.
//!
//! The oracle knows what every read must return, and of every commit whether it must succeed, must conflict, or
//! may do either. It finds the combinations that nobody thought of. What fails is a seed, and the message holds
//! the shortest script of steps that still fails.

mod drive;
mod oracle;
mod replay;
mod script;

pub use replay::concurrent_writes_equal_their_replay;

use super::{Finding, Proof, Subject, tools::wipe};
use drive::drive;
use script::{Step, script};

/// Thousands of seeds, each a script of about forty steps over four open transactions.
pub async fn random_transactions_agree_with_a_sorted_map<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    for seed in 0..subject.seeds() {
        wipe(&engine).await?;
        let steps = script(seed);
        if let Err(finding) = drive(&engine, &steps).await {
            return Err(retold(subject, seed, steps, finding).await);
        }
    }
    Ok(())
}

/// The finding of the shortest script that fails on a fresh store.
async fn retold<S: Subject>(subject: &S, seed: u64, mut steps: Vec<Step>, mut finding: Finding) -> Finding {
    let mut piece = steps.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut shorter = steps.clone();
            shorter.drain(at..(at + piece).min(steps.len()));
            match drive(&subject.open().await, &shorter).await {
                Err(still) => (steps, finding) = (shorter, still),
                Ok(()) => at += piece,
            }
        }
        piece /= 2;
    }
    let steps: Vec<String> = steps.iter().map(|step| format!("  {step}")).collect();
    Finding::Violation(format!("seed {seed}: {finding}, after\n{}", steps.join("\n")))
}
