use mundi_engine::{Embedded, Engine, RangeRead, Transaction};
use pollster::block_on;
#[test]
fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        for round in 0..3u8 {
            let engine = Embedded::open(dir.path()).unwrap();
            for i in 0..100u8 {
                let mut tx = engine.begin().await.unwrap();
                tx.put(&[b'k', round, i], vec![i]).unwrap();
                tx.add(b"count", 1).unwrap();
                tx.commit().await.unwrap();
            }
            let mut tx = engine.begin().await.unwrap();
            assert_eq!(tx.get(b"count").await.unwrap().unwrap()[..], (100 * (i64::from(round) + 1)).to_le_bytes());
            assert_eq!(
                tx.range(RangeRead::prefix(b"k", 1000)).await.unwrap().items.len(),
                100 * (usize::from(round) + 1)
            );
        }
    });
}
