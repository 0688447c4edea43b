//! Fences: a world's history is written only by the run of the node that acquired its lease last, and
//! only until that lease is released.

use super::Evidence;
use crate::{history::Fact, log::Author, protocol::Protocol};

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for ((_, world), history) in &evidence.history.worlds {
        let mut holder: Option<Author> = None;
        for (number, fact) in &history.facts {
            let commit = &evidence.commits[*number];
            match fact {
                Fact::Lease(lease) => holder = lease.holder.map(|_| commit.author),
                fact if is_fenced(fact)
                    && commit.protocol != Protocol::CreateWorld
                    && holder != Some(commit.author) =>
                {
                    let (protocol, author) = (commit.protocol, commit.author);
                    let held = holder.map_or_else(|| "nobody".to_owned(), |author| author.to_string());
                    return Err(format!("{author} wrote {protocol} to {world}, which {held} held (commit {number})"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_fenced(fact: &Fact) -> bool {
    match fact {
        Fact::Head(_) | Fact::Record(..) | Fact::RecordsGone(..) => true,
        Fact::Baseline(_) | Fact::Snapshot | Fact::Segment(_) => true,
        Fact::Meta(_)
        | Fact::Lease(_)
        | Fact::Term(_)
        | Fact::Item(..)
        | Fact::Effect(_)
        | Fact::Timer(_)
        | Fact::Child(_)
        | Fact::Call(..) => false,
    }
}
