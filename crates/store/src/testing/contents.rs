//! Everything that an engine and an object store hold, for comparing two runs byte by byte.

use bytes::Bytes;
use futures_util::TryStreamExt;
use mundi_engine::{Engine, EngineError, RangeRead, Transaction};
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;

/// Every key and its value.
pub async fn engine_contents<E: Engine>(engine: &E) -> Result<BTreeMap<Bytes, Bytes>, EngineError> {
    let mut contents = BTreeMap::new();
    let mut start = Bytes::from_static(&[0]);
    loop {
        let mut tx = engine.begin().await?;
        let page = tx.range(RangeRead::new(start.clone(), vec![u8::MAX], 1_000).snapshot()).await?;
        let last = page.items.last().map(|(key, _)| [&key[..], &[0]].concat());
        contents.extend(page.items);
        match last {
            Some(last) if page.more => start = Bytes::from(last),
            _ => return Ok(contents),
        }
    }
}

/// Every object and its bytes.
pub async fn object_contents(store: &dyn ObjectStore) -> object_store::Result<BTreeMap<String, Bytes>> {
    let listed: Vec<_> = store.list(None).try_collect().await?;
    let mut contents = BTreeMap::new();
    for meta in listed {
        let bytes = store.get(&meta.location).await?.bytes().await?;
        contents.insert(meta.location.to_string(), bytes);
    }
    Ok(contents)
}
