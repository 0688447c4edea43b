//! The worlds of a run: what they are made from, and the operator who releases those that are on hold.

use super::FaultDriver;
use crate::{
    client::{Setting, create_world},
    cluster::SimPlane,
    fake_service::CALL,
};
use bytes::Bytes;
use mundi_kernel::{
    Registry,
    manifest::{EffectRule, Manifest, Retry},
    registry::native_descriptor,
};
use mundi_model::{
    Code, Hash, UniverseId, WorldId, limits,
    record::{InboxItem, Operator, Origin},
};
use mundi_runtime::{
    Plane,
    calls::Calls,
    control::Ops,
    lifecycle::{Naming, NewWorld, create, register_trusted},
    testing::{MENDED_VERSION, MendedScript, Script, holding_manifests, manifest, mended_manifest, script_event},
};
use mundi_store::{
    blobs::NO_REFS,
    protocol::{CreateUniverse, NewItem, WorldFilter, enqueue},
    testing::world_id,
};

/// In each universe there is one world whose turns always fail.
pub(crate) fn broken_world() -> WorldId {
    world_id(1_000)
}

/// And one whose program fails at some of its inputs and whose manifest holds it there, until an operator retries or skips.
pub(crate) fn stopping_world() -> WorldId {
    world_id(1_001)
}

/// The items in its inbox at the start.
const STOPPING: [&str; 7] = ["add n", "fail", "add n", "fail", "fail\nadd n", "add n", "fail"];

/// The programs that worlds of a run may have.
pub(super) fn manifests() -> (Registry, Vec<(Vec<u8>, String)>) {
    let mut registry = Registry::new();
    let mut stored = Vec::new();
    for version in 1..=2 {
        registry.register_native("script", version, Script);
        let descriptor = native_descriptor("script", version);
        let mut manifest = Manifest { program: Hash::of(descriptor.as_bytes()), ..manifest() };
        let retry = Some(Retry { attempts_max: 3, backoff_ms: 50, backoff_ms_max: 400 });
        for kind in [CALL, "fabric.send"] {
            manifest
                .effects
                .insert(kind.to_owned(), EffectRule { timeout_ms: Some(800), retry, ..EffectRule::default() });
        }
        stored.push((manifest.to_bytes(), descriptor));
    }
    registry.register_native("script", MENDED_VERSION, MendedScript);
    let [holding, mended] = holding_manifests();
    let (_, mended_descriptor) = mended_manifest();
    stored.push((holding.to_bytes(), native_descriptor("script", 1)));
    stored.push((mended.to_bytes(), mended_descriptor));
    (registry, stored)
}

impl FaultDriver {
    pub(super) async fn create_all(&self, stored: &[(Vec<u8>, String)]) -> Result<(), mundi_runtime::RuntimeError> {
        let plane = self.operator();
        for setting in &self.settings {
            let universe = setting.universe;
            plane.run(&CreateUniverse { universe, now_ns: plane.now_ns() }).await?;
            for (manifest, descriptor) in stored {
                plane.blobs.put(universe, Bytes::from(descriptor.clone()), NO_REFS).await?;
                let manifest = plane.blobs.put(universe, Bytes::from(manifest.clone()), NO_REFS).await?;
                register_trusted(&plane, universe, &[manifest]).await?;
            }
            for number in 0..self.run_state.between(1, 3) {
                // The same ids in both universes: nothing may take one for the other.
                create_world(&plane, &self.run_state, setting, world_id(number), Naming::default()).await?;
                self.notes.write(|pages| pages.worlds.entry(universe).or_default().push(world_id(number)));
            }
            self.create_broken(&plane, setting).await?;
            self.create_stopping(&plane, universe).await?;
        }
        Ok(())
    }

    pub(super) async fn create_stopping(
        &self,
        plane: &SimPlane,
        universe: UniverseId,
    ) -> Result<(), mundi_runtime::RuntimeError> {
        let (world, now_ns) = (stopping_world(), plane.now_ns());
        let manifest = Hash::of(&holding_manifests()[0].to_bytes());
        create(plane, NewWorld { universe, world, manifest, inbox: None, now_ns }).await?;
        let item = |script: &&str| {
            let origin = Origin { wants_reply: true, ..Origin::new(0) };
            NewItem { item: InboxItem { input: script_event(script), origin }, dedupe: None }
        };
        let items = STOPPING.iter().map(item).collect();
        let (engine, clock, blobs) = (&plane.engine, &*plane.clock, &plane.blobs);
        enqueue(engine, clock, blobs, universe, world, items, limits::DEDUPE_WINDOW_NS).await?;
        Ok(())
    }

    /// An operator does something about worlds that are on hold at an input whose step failed. Says whether any was.
    pub(super) async fn mend(&self) -> bool {
        let mut found = false;
        for Setting { universe, .. } in &self.settings {
            let (world, ops) = (stopping_world(), Ops::new(self.operator(), *universe, Calls::default()));
            found |= self.release_innocents(&ops).await;
            let Ok(described) = ops.describe_world(world).await else { continue };
            let Some(hold) = described.meta.hold else { continue };
            found = true;
            let operator = Operator { token: None, name: "mender".to_owned() };
            let done = match self.run_state.below(8) {
                0 => {
                    let mended = Hash::of(&holding_manifests()[1].to_bytes());
                    match ops.world_upgrade(world, mended, true).await {
                        Ok(_) => ops.world_retry(world, operator).await,
                        Err(error) => Err(error),
                    }
                }
                1 | 2 => ops.world_retry(world, operator).await,
                _ => ops.world_skip(world, operator).await,
            };
            self.run_state.note(format_args!("{world} on hold at {:?}: {done:?}", hold.seq));
        }
        found
    }

    /// Crashes hit worlds in their first cycle so often that some are taken for their cause. Says whether any was.
    pub(super) async fn release_innocents(&self, ops: &Ops<SimPlane>) -> bool {
        let filter = WorldFilter { on_hold: Some(true), ..WorldFilter::default() };
        let Ok(listed) = ops.list_worlds(filter, None, limits::LIST_ITEMS_MAX).await else { return false };
        let mut found = false;
        for world in listed.items.iter().map(|listed| listed.world) {
            let hold = ops.describe_world(world).await.ok().and_then(|described| described.meta.hold);
            if hold.is_some_and(|hold| hold.code == Code::WorldEndsProcess.as_str()) {
                found = true;
                let released = ops.world_resume(world).await;
                self.run_state.note(format_args!("{world} on hold as if it ended processes: {released:?}"));
            }
        }
        found
    }

    /// A world that no client knows, with an item that no turn can take.
    pub(super) async fn create_broken(
        &self,
        plane: &SimPlane,
        setting: &Setting,
    ) -> Result<(), mundi_runtime::RuntimeError> {
        let (universe, world) = (setting.universe, broken_world());
        create_world(plane, &self.run_state, setting, world, Naming::default()).await?;
        let origin = Origin::new(0);
        let item = NewItem { item: InboxItem { input: script_event("break"), origin }, dedupe: None };
        let (engine, clock, blobs) = (&plane.engine, &*plane.clock, &plane.blobs);
        enqueue(engine, clock, blobs, universe, world, vec![item], limits::DEDUPE_WINDOW_NS).await?;
        Ok(())
    }
}
