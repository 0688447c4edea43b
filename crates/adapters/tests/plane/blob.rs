//! The content store as an adapter.

use mundi_adapters::blob::BlobAdapter;
use mundi_engine::Memory;
use mundi_model::Value;
use mundi_runtime::effects::{Adapter, Call};
use mundi_store::{
    Fence,
    testing::{Fixture, unheld},
};
use pollster::block_on;

type Store = Fixture<Memory>;

fn call(store: &Store, fence: Fence, kind: &str, params: &[(&str, Value)]) -> Call {
    Call {
        universe: store.universe,
        world: fence.world,
        intent: mundi_model::IntentHash::of(b"i"),
        height: mundi_model::Height::new(3),
        asked_at_ns: 7,
        kind: kind.into(),
        params: Value::Map(params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()),
        timeout_ms: 30_000,
        attempt: 1,
        trace: None,
        lease: None,
        claim: unheld(store.universe, fence.world, mundi_model::IntentHash::of(b"i")),
    }
}

#[test]
fn a_blob_that_was_put_is_got() {
    block_on(async {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let fence = store.live(1).await.unwrap();
        let adapter = BlobAdapter::new(store.blobs.clone());
        let put = adapter.call(&call(&store, fence, "blob.put", &[("bytes", Value::Bytes(b"hello".to_vec()))])).await;
        let Value::Map(put) = put.unwrap() else { panic!("a map") };
        let got = adapter.call(&call(&store, fence, "blob.get", &[("hash", put["hash"].clone())])).await.unwrap();
        assert_eq!(got, Value::Map([("bytes".to_owned(), Value::Bytes(b"hello".to_vec()))].into()));
        let missing = Value::Text(mundi_model::Hash::of(b"other").to_string());
        let failure = adapter.call(&call(&store, fence, "blob.get", &[("hash", missing)])).await.unwrap_err();
        assert_eq!(failure.code, mundi_model::Code::BlobNotFound);
    });
}
