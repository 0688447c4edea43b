//! Case 2: a batch is appended at the head that it expects, whole, or is refused with the head that there is.

use super::refused;
use crate::{
    StoreError,
    journal::{Batch, JournalError},
    keyspace::journal_head::JournalHead,
    testing::{AppendBatch, Fixture, note_body, world_id},
};
use futures_util::future::join_all;
use mundi_engine::Engine;
use mundi_model::{Code, Hash, Height};

/// Appends, conflicts, broken chains, stale fences, and writers that race.
pub async fn journal_append_conflicts<E: Engine>(engine: &E) {
    run(engine).await.expect("the journal takes appends");
}

async fn run<E: Engine>(engine: &E) -> Result<(), StoreError> {
    let fixture = Fixture::new(engine.clone(), 0xa2).await?;
    let fence = fixture.live(1).await?;
    let start = fixture.read_turn(fence).await?.head;
    assert_eq!(start.height, Height::new(1), "a world begins with its genesis");
    let append = |head: JournalHead, count| -> Result<_, StoreError> {
        Ok(AppendBatch { fence, batch: Batch::from_bodies(head, (0..count).map(note_body))? })
    };

    let head = fixture.run(&append(start, 3)?).await?.output;
    assert_eq!(head.height, Height::new(4));
    assert_eq!(fixture.run(&append(start, 3)?).await?.output, head, "the very same batch is there already");

    let other = world_id(2);
    let error = fixture.run(&append(start, 2)?).await.expect_err("another batch at an old head");
    let StoreError::Journal(conflict) = error else { panic!("a typed conflict, not {error}") };
    assert_eq!(conflict, JournalError::HeadAdvanced { expected: start.height, actual: head.height });

    let forged = JournalHead { chain: Hash::of(b"another history"), ..head };
    assert_eq!(refused(fixture.run(&append(forged, 1)?).await), Some(Code::ChainInvalid));
    let missing = crate::Fence { world: other, ..fence };
    let batch = append(head, 1)?.batch;
    let unknown = AppendBatch { fence: missing, batch: batch.clone() };
    assert_eq!(refused(fixture.run(&unknown).await), Some(Code::WorldNotFound));
    let stale = crate::Fence { epoch: fence.epoch.next(), ..fence };
    assert_eq!(refused(fixture.run(&AppendBatch { fence: stale, batch }).await), Some(Code::LeaseFenced));
    assert_eq!(fixture.read_turn(fence).await?.head, head, "what was refused changed nothing");

    race(&fixture, fence, head).await?;
    contiguous(&fixture, fence).await
}

/// Of many batches for one head, one is appended; the others learn where the head went.
async fn race<E: Engine>(fixture: &Fixture<E>, fence: crate::Fence, head: JournalHead) -> Result<(), StoreError> {
    let append = |n: u32| async move {
        let batch = Batch::from_bodies(head, [note_body(1_000 + n)])?;
        fixture.run(&AppendBatch { fence, batch }).await
    };
    let results = join_all((0..8).map(append)).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "one head, one successor");
    for result in results {
        assert!(matches!(refused(result), None | Some(Code::HeadAdvanced)));
    }
    Ok(())
}

async fn contiguous<E: Engine>(fixture: &Fixture<E>, fence: crate::Fence) -> Result<(), StoreError> {
    let history = fixture.history(fence.world, Height::GENESIS).await?;
    let heights: Vec<u64> = history.iter().map(|record| record.height.get()).collect();
    assert_eq!(heights, [0, 1, 2, 3, 4]);
    Ok(())
}
