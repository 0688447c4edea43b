//! Case 4: a cursor only rises, and a crash anywhere in a drain neither loses an item nor takes one twice.

use super::refused;
use crate::{
    Fence, StoreError,
    protocol::CommitCursor,
    testing::{Drained, Fixture, Probe, Trouble, event},
};
use mundi_engine::Engine;
use mundi_model::{Code, Height, record::Body};

/// Crashes a drain at every operation, on either side; then tries to move the cursor where it may not go.
pub async fn cursor_rises_and_nothing_is_taken_twice<E: Engine>(engine: &E) {
    run(engine).await.expect("the inbox is drained");
}

async fn run<E: Engine>(engine: &E) -> Result<(), StoreError> {
    let fixture = Fixture::new(Probe::new(engine.clone()), 0xa4).await?;
    let (mut number, mut operation) = (0, 0);
    for trouble in Trouble::ALL {
        loop {
            number += 1;
            if !crash_once(&fixture, number, operation, trouble).await? {
                break;
            }
            operation += 1;
        }
        operation = 0;
    }
    regressions(&fixture).await
}

/// Drains a new world with trouble at one operation; `false` once the drain has fewer operations.
async fn crash_once<E: Engine>(
    fixture: &Fixture<Probe<E>>,
    number: u64,
    operation: u64,
    trouble: Trouble,
) -> Result<bool, StoreError> {
    let fence = fixture.live(number).await?;
    let items: Vec<_> = (0..5).map(|n| event(&n.to_string())).collect();
    let sent = fixture.send(fence.world, items).await?;
    fixture.engine.arm(operation, trouble);
    let _ = fixture.drain(fence, 3).await;
    let happened = fixture.engine.operations() > operation;
    fixture.engine.revive();
    // Bounded: a drain that forgets to move the cursor would never find an end.
    for _ in 0..10 {
        if fixture.drain(fence, 3).await? == Drained::Idle {
            break;
        }
    }
    let history = fixture.history(fence.world, Height::GENESIS).await?;
    let taken: Vec<_> = history
        .iter()
        .filter_map(|stored| match stored.decode().expect("a record").body {
            Body::Ingress(ingress) => Some(ingress.seq),
            _ => None,
        })
        .collect();
    let expected: Vec<_> = sent.iter().map(|place| place.seq).collect();
    assert_eq!(taken, expected, "each item once, in order, after {trouble:?} at operation {operation}");
    Ok(happened)
}

async fn regressions<E: Engine>(fixture: &Fixture<Probe<E>>) -> Result<(), StoreError> {
    let fence = fixture.live(0).await?;
    let sent = fixture.send(fence.world, vec![event("x"); 3]).await?;
    let commit =
        |old: Option<usize>, new: usize| CommitCursor { fence, old: old.map(|n| sent[n].seq), new: sent[new].seq };
    fixture.run(&commit(None, 1)).await?;
    fixture.run(&commit(None, 1)).await?; // the same move again
    assert_eq!(refused(fixture.run(&commit(Some(1), 0)).await), Some(Code::CursorRegressed));
    assert_eq!(refused(fixture.run(&commit(Some(0), 2)).await), Some(Code::CursorMoved));
    let stale = Fence { epoch: fence.epoch.next(), ..fence };
    assert_eq!(
        refused(fixture.run(&CommitCursor { fence: stale, ..commit(Some(1), 2) }).await),
        Some(Code::LeaseFenced)
    );
    assert_eq!(fixture.read_turn(fence).await?.cursor, Some(sent[1].seq), "what was refused changed nothing");
    Ok(())
}
