use super::*;
use crate::objects::open;
use mundi_engine::Memory;
use pollster::block_on;

#[test]
fn in_memory() {
    let (engine, objects) = (Memory::new(), open("memory:///").unwrap());
    block_on(cas_put_get_has(&engine, &objects));
    block_on(segment_export_and_restore(&engine, &objects));
}

#[test]
fn in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, objects) = (Memory::new(), open(&folder.path().display().to_string()).unwrap());
    block_on(cas_put_get_has(&engine, &objects));
    block_on(segment_export_and_restore(&engine, &objects));
}
