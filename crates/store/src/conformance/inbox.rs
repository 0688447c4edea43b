//! Case 3: many writers, one order, and a reader that never finds an item behind its cursor.

use super::refused;
use crate::{
    StoreError,
    keyspace::{inbox_depth, world_meta::InboxBounds},
    protocol::Enqueued,
    testing::{Drained, Fixture, Probe, event, named_event, world_id},
};
use futures_util::future::{join, join_all};
use mundi_engine::Engine;
use mundi_model::{
    Code, Height, InboxSeq, WorldId,
    record::{Body, Input, Payload},
};

const WRITERS: usize = 8;
const BATCHES: usize = 25;

/// Concurrent writers against a draining reader; then dedupe, bounds, and inboxes that do not exist.
pub async fn inbox_order_with_concurrent_writers<E: Engine>(engine: &E) {
    run(engine).await.expect("the inbox takes items");
}

async fn run<E: Engine>(engine: &E) -> Result<(), StoreError> {
    // The probe lets every other task run before each operation: tasks interleave on any engine.
    let fixture = Fixture::new(Probe::new(engine.clone()), 0xa3).await?;
    let fence = fixture.live(1).await?;
    let writers = join_all((0..WRITERS).map(|writer| write(&fixture, fence.world, writer)));
    let (written, drained) = join(writers, drain_all(&fixture, fence)).await;
    drained?;
    let written: Vec<Vec<Enqueued>> = written.into_iter().collect::<Result<_, _>>()?;

    let journaled = journaled(&fixture, fence.world).await?;
    assert_eq!(journaled.len(), WRITERS * BATCHES * 2, "every item, once");
    assert!(journaled.is_sorted_by(|a, b| a.0 < b.0), "in the order of their sequence");
    for (writer, places) in written.iter().enumerate() {
        assert!(places.is_sorted_by(|a, b| a.seq < b.seq), "writer {writer} sees its own order");
        for (n, place) in places.iter().enumerate() {
            let found = journaled.binary_search_by(|(seq, _)| seq.cmp(&place.seq)).expect("what was acknowledged");
            assert_eq!(journaled[found].1, text(writer, n));
        }
    }
    let depth = inbox_depth::read(&mut engine.begin().await?, fixture.universe, fence.world).await?;
    assert_eq!(depth, inbox_depth::Depth::default(), "the counters say that nothing waits");

    names(&fixture).await?;
    bounds(&fixture).await
}

fn text(writer: usize, n: usize) -> String {
    format!("{writer}:{n}")
}

async fn write<E: Engine>(fixture: &Fixture<E>, world: WorldId, writer: usize) -> Result<Vec<Enqueued>, StoreError> {
    let mut places = Vec::new();
    for batch in 0..BATCHES {
        let items = [2 * batch, 2 * batch + 1].map(|n| event(&text(writer, n)));
        places.extend(fixture.send(world, items.into()).await?);
    }
    Ok(places)
}

/// Drains in small steps until everything that the writers will send has come.
async fn drain_all<E: Engine>(fixture: &Fixture<E>, fence: crate::Fence) -> Result<(), StoreError> {
    let mut taken = 0;
    while taken < WRITERS * BATCHES * 2 {
        if let Drained::Moved { items, .. } = fixture.drain(fence, 7).await? {
            taken += items;
        }
    }
    Ok(())
}

async fn journaled<E: Engine>(fixture: &Fixture<E>, world: WorldId) -> Result<Vec<(InboxSeq, String)>, StoreError> {
    let mut items = Vec::new();
    for stored in fixture.history(world, Height::GENESIS).await? {
        if let Body::Ingress(ingress) = stored.decode().expect("a record").body
            && let Input::Event { value: Payload::Inline(bytes), .. } = ingress.item.input
        {
            items.push((ingress.seq, String::from_utf8(bytes).expect("a text")));
        }
    }
    Ok(items)
}

/// A named item is enqueued once, whoever sends it and however often.
async fn names<E: Engine>(fixture: &Fixture<E>) -> Result<(), StoreError> {
    let world = fixture.live(2).await?.world;
    let named = || vec![named_event("pay the bill")];
    let results = join_all((0..6).map(|_| fixture.send(world, named()))).await;
    let places: Vec<Enqueued> = results.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    assert_eq!(places.iter().filter(|place| !place.before).count(), 1, "one of them enqueued it");
    assert!(places.iter().all(|place| place.seq == places[0].seq), "and all learn its place");
    let depth = inbox_depth::read(&mut fixture.engine.begin().await?, fixture.universe, world).await?;
    assert_eq!(depth.items, 1);
    Ok(())
}

async fn bounds<E: Engine>(fixture: &Fixture<E>) -> Result<(), StoreError> {
    let world = world_id(3);
    fixture.create(world, Some(InboxBounds { items_max: 3, bytes_max: 1 << 20 })).await?;
    let fence = fixture.acquire(world, 1).await?;
    let send = |count: usize| fixture.send(world, vec![event("x"); count]);
    assert_eq!(refused(send(4).await), Some(Code::InboxFull), "a batch is taken whole or not at all");
    send(3).await?;
    assert_eq!(refused(send(1).await), Some(Code::InboxFull));
    fixture.drain(fence, 1).await?;
    send(1).await?;
    let nowhere = fixture.send(world_id(999), vec![event("x")]).await;
    assert_eq!(refused(nowhere), Some(Code::WorldNotFound));
    Ok(())
}
