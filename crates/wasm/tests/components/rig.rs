//! A world of a component, in memory: the kernel itself, with nothing in between.

use mundi_kernel::{
    MemoryObjects, Registry, World,
    loader::Loader,
    manifest::{Manifest, ManifestError},
    turn::{Arrival, Arrived, TurnBudget, TurnError, TurnOutput},
};
use mundi_model::{
    InboxSeq, Stamp, UniverseId, Value, WorldId, cbor,
    record::{Body, Genesis, InboxItem, Input, Origin, Payload, Record, StepFailed},
};
use mundi_wasm::{Components, ComponentsConfig};
use std::{collections::BTreeMap, sync::Arc};

pub(crate) struct Rig {
    pub(crate) objects: MemoryObjects,
    pub(crate) registry: Arc<Registry>,
    pub(crate) world: World,
    pub(crate) records: Vec<Vec<u8>>,
    next: u64,
}

pub(crate) fn components() -> Arc<Components> {
    components_with(ComponentsConfig::default())
}

pub(crate) fn components_with(config: ComponentsConfig) -> Arc<Components> {
    Arc::new(Components::open(config).unwrap())
}

pub(crate) fn registry(loader: Arc<dyn Loader>) -> Arc<Registry> {
    let mut registry = Registry::new();
    registry.set_loader(loader);
    Arc::new(registry)
}

impl Rig {
    /// A world of the component, as its description wants it.
    pub(crate) fn new(component: &[u8]) -> Self {
        Self::with(&components(), component, |_| {}).unwrap()
    }

    pub(crate) fn with(
        components: &Arc<Components>,
        component: &[u8],
        adjust: impl FnOnce(&mut Manifest),
    ) -> Result<Self, ManifestError> {
        let mut manifest = components.prepare_now(component)?;
        adjust(&mut manifest);
        Self::of(components, component, &manifest)
    }

    pub(crate) fn of(
        components: &Arc<Components>,
        component: &[u8],
        manifest: &Manifest,
    ) -> Result<Self, ManifestError> {
        Self::of_loader(components.clone(), component, manifest)
    }

    /// A world whose programs come from the loader of one universe.
    pub(crate) fn served(
        components: &Arc<Components>,
        loader: Arc<dyn Loader>,
        component: &[u8],
        adjust: impl FnOnce(&mut Manifest),
    ) -> Result<Self, ManifestError> {
        let mut manifest = components.prepare_now(component)?;
        adjust(&mut manifest);
        Self::of_loader(loader, component, &manifest)
    }

    fn of_loader(loader: Arc<dyn Loader>, component: &[u8], manifest: &Manifest) -> Result<Self, ManifestError> {
        loader.check(manifest)?;
        let mut objects = MemoryObjects::new();
        objects.put(component.to_vec());
        let manifest = objects.put(manifest.to_bytes());
        let registry = registry(loader);
        let ids = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
        let genesis = Genesis { universe: ids.0, world: ids.1, manifest, now_ns: 0 };
        let (world, first) = World::create(&objects, registry.clone(), genesis)?;
        Ok(Self { objects, registry, world, records: vec![first], next: 1 })
    }

    /// One event, in a turn of its own.
    pub(crate) fn send(&mut self, schema: &str, value: serde_json::Value) -> Result<TurnOutput, TurnError> {
        let value = Payload::Inline(cbor::encode(&Value::from(value)));
        self.take(Input::Event { schema: schema.to_owned(), value, key: None })
    }

    pub(crate) fn go(&mut self) -> TurnOutput {
        self.send("go", serde_json::Value::Null).unwrap()
    }

    pub(crate) fn take(&mut self, input: Input) -> Result<TurnOutput, TurnError> {
        self.take_with(input, BTreeMap::new())
    }

    /// An input with headers beside it.
    pub(crate) fn take_with(
        &mut self,
        input: Input,
        headers: BTreeMap<String, String>,
    ) -> Result<TurnOutput, TurnError> {
        let number = self.next;
        let origin = Origin { wants_reply: true, headers, ..Origin::new(number) };
        let item = Arrived::Item(Arc::new(InboxItem { input, origin }));
        let mut entropy = [7; 16];
        entropy[..8].copy_from_slice(&number.to_be_bytes());
        let seq = InboxSeq::new(Stamp::new(number, 0), 0);
        let arrival = Arrival { seq, item, now_ns: number * 1_000, entropy };
        let turn = self.world.turn(&self.objects, &[arrival], TurnBudget::default())?;
        let output = turn.keep();
        self.next += 1;
        self.records.extend(output.records.iter().map(|record| record.to_vec()));
        self.objects.extend(output.objects.iter().cloned());
        Ok(output)
    }
}

/// Why the step of a turn failed, if it did.
pub(crate) fn failure(output: &TurnOutput) -> Option<StepFailed> {
    output.records.iter().find_map(|bytes| match cbor::decode::<Record>(bytes).unwrap().body {
        Body::StepFailed(failed) => Some(failed),
        _ => None,
    })
}

/// The code of the failure; the text goes to the test's output.
pub(crate) fn failed(output: &TurnOutput) -> String {
    let failed = failure(output).unwrap_or_else(|| panic!("the step went well"));
    println!("{}: {}", failed.code, failed.reason);
    failed.code
}
