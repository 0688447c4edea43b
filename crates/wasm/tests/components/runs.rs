//! A component is a program as any other.

use crate::{
    guest::{Guest, counter},
    rig::{Rig, components, components_with, failed, failure, registry},
};
use mundi_kernel::{
    LoadError, MemoryObjects, World,
    loader::{Loader, Readiness},
    manifest::{Manifest, ManifestError},
    replay::Replay,
    turn::TurnError,
};
use mundi_model::{
    Code, Coded, Hash, Value, cbor, limits,
    record::{Input, Payload, ReplyOutcome},
};
use mundi_wasm::{CompileLimits, CompileProcess, Components, ComponentsConfig, ENGINE};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

#[test]
fn a_component_counts_replies_and_replays() {
    let mut rig = Rig::new(&counter().component());
    for count in 1..=3_u8 {
        let output = rig.go();
        let ReplyOutcome::Ok(payload) = &output.replies[0].outcome else { panic!("{:?}", output.replies) };
        assert_eq!(*payload, Payload::Inline(vec![count]));
    }
    assert_eq!(rig.world.cell(&rig.objects, "cell").unwrap(), Some(vec![3]));
    let mut replay = Replay::from_genesis(&rig.objects, rig.registry.clone(), &rig.records[0]).unwrap();
    replay.run(&rig.objects, &rig.records[1..], None).unwrap();
    assert_eq!(replay.finish().unwrap().digest(), rig.world.digest());
}

/// The contract only grew since 1.0: a component that was built for it imports the same functions under that version.
#[test]
fn a_component_of_an_earlier_contract_goes_on_running() {
    let mut component = counter().component();
    let (now, before) = (b"@1.1.0", b"@1.0.0");
    let places: Vec<_> = (0..component.len() - now.len()).filter(|at| component[*at..].starts_with(now)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| component[at..at + now.len()].copy_from_slice(before));
    let inspected = mundi_wasm::inspect::inspect(&component).unwrap();
    assert_eq!(inspected.imports, ["mundi:program/types@1.0.0", "mundi:program/host@1.0.0"]);
    let mut rig = Rig::new(&component);
    rig.go();
    rig.go();
    assert_eq!(rig.world.cell(&rig.objects, "cell").unwrap(), Some(vec![2]));
}

/// Sends each event on, with the headers that it came with and a correlation id.
fn relay() -> Guest {
    let to = mundi_model::WorldId::from_bytes([9; 16]);
    Guest {
        offer: r#"{"events":{"go":true},"effects":{"fabric.send":{}}}"#.to_owned(),
        imports: r#"
          (import "mundi:program/host@1.1.0" "headers" (func $headers (param i32)))
          (import "mundi:program/host@1.1.0" "send-with" (func $send_with (param i32 i32)))"#,
        extra: format!(
            r#"(data (i32.const 2048) "{to}") (data (i32.const 2100) "go") (data (i32.const 2104) "order 7")"#
        ),
        // The record of the parameters at 1024: to, what, options, label.
        ..Guest::handling(
            r#"
            (call $headers (i32.const 700))
            (i32.store (i32.const 1024) (i32.const 2048)) (i32.store (i32.const 1028) (i32.const 28))
            (i32.store (i32.const 1036) (i32.const 2100)) (i32.store (i32.const 1040) (i32.const 2))
            (i32.store (i32.const 1044) (i32.const 536)) (i32.store (i32.const 1048) (i32.const 1))
            (i32.store8 (i32.const 1072) (i32.const 1))
            (i32.store (i32.const 1076) (i32.const 2104)) (i32.store (i32.const 1080) (i32.const 7))
            (i32.store (i32.const 1084) (i32.load (i32.const 700)))
            (i32.store (i32.const 1088) (i32.load (i32.const 704)))
            (i32.store (i32.const 1104) (i32.const 2100)) (i32.store (i32.const 1108) (i32.const 2))
            (call $send_with (i32.const 1024) (i32.const 712))
            i32.const 0"#,
        )
    }
}

#[test]
fn a_component_hears_headers_and_sets_what_it_sends_with() {
    let mut rig = Rig::new(&relay().component());
    let value = Payload::Inline(vec![0xf6]);
    let input = Input::Event { schema: "go".to_owned(), value, key: None };
    let headers: BTreeMap<_, _> = [("tenant".to_owned(), "a".to_owned()), ("user".to_owned(), "b".to_owned())].into();
    let output = rig.take_with(input, headers.clone()).unwrap();
    assert!(failure(&output).is_none(), "{:?}", failure(&output));
    let Payload::Inline(params) = &output.publish[0].intent.params else { panic!("small ones") };
    let Value::Map(params) = cbor::decode(params).unwrap() else { panic!("a map") };
    assert_eq!(params["correlation_id"], Value::Text("order 7".to_owned()));
    let expected = headers.into_iter().map(|(name, value)| (name, Value::Text(value))).collect();
    assert_eq!(params["headers"], Value::Map(expected));
    assert_eq!(params["schema"], Value::Text("go".to_owned()));
    assert!(!params.contains_key("dest_universe") && !params.contains_key("message_id"));
}

#[test]
fn nothing_stays_in_memory_between_steps() {
    // A global that the step raises, and that a second step in the same instance would find raised.
    let guest = Guest {
        extra: "(global $seen (mut i32) (i32.const 0))".to_owned(),
        ..Guest::handling(
            r#"(if (global.get $seen) (then unreachable))
               (if (i32.load (i32.const 2000)) (then unreachable))
               (global.set $seen (i32.const 1))
               (i32.store (i32.const 2000) (i32.const 1))
               i32.const 0"#,
        )
    };
    let mut rig = Rig::new(&guest.component());
    for _ in 0..100 {
        assert_eq!(failure(&rig.go()), None);
    }
}

#[test]
fn a_component_says_what_it_offers_and_the_manifest_pins_the_engine() {
    let manifest = components().prepare_now(&counter().component()).unwrap();
    assert_eq!(manifest.events.keys().collect::<Vec<_>>(), ["go"]);
    assert_eq!(manifest.wasm.unwrap().engine, ENGINE);
}

#[test]
fn the_same_step_uses_the_same_fuel_on_another_engine() {
    let component = Guest::handling(
        "(loop $again (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (br_if $again (i32.lt_u (local.get $i) (i32.const 1000)))) i32.const 0",
    )
    .component();
    // The least fuel with which the step succeeds, found by halving.
    let least = || {
        let components = components();
        let fits = |fuel: u64| {
            let fuel_max = |manifest: &mut Manifest| manifest.wasm.as_mut().unwrap().limits.fuel_max = fuel;
            failure(&Rig::with(&components, &component, fuel_max).unwrap().go()).is_none()
        };
        let (mut too_little, mut enough) = (1_u64, 1 << 20);
        while enough - too_little > 1 {
            let middle = too_little.midpoint(enough);
            *(if fits(middle) { &mut enough } else { &mut too_little }) = middle;
        }
        enough
    };
    let found = least();
    assert!((5_000..20_000).contains(&found), "{found}");
    assert_eq!(least(), found);
}

#[test]
fn a_world_of_another_engine_takes_no_step_and_nothing_is_on_record() {
    let components = components();
    let component = counter().component();
    let mut manifest = components.prepare_now(&component).unwrap();
    manifest.wasm.as_mut().unwrap().engine = "wasmtime-47/x86_64-v2/1".to_owned();
    let refused = components.check(&manifest).unwrap_err();
    assert_eq!(refused.code(), Code::ProgramEngine);

    let mut objects = MemoryObjects::new();
    objects.put(component);
    let hash = objects.put(manifest.to_bytes());
    let mut rig = Rig::new(&counter().component());
    rig.objects.extend(objects_of(&objects, hash));
    let genesis = mundi_model::record::Genesis {
        universe: rig.world.universe(),
        world: rig.world.id(),
        manifest: hash,
        now_ns: 0,
    };
    rig.world = World::create(&rig.objects, registry(components.clone()), genesis).unwrap().0;
    let before = rig.world.head();
    let error = rig.send("go", serde_json::Value::Null).unwrap_err();
    assert_eq!(error.code(), Code::ProgramEngine);
    assert_eq!(rig.world.head(), before);
}

fn objects_of(objects: &MemoryObjects, hash: Hash) -> Vec<(Hash, Arc<[u8]>)> {
    use mundi_kernel::Objects;
    vec![(hash, objects.load(&hash).unwrap())]
}

#[test]
fn a_step_that_holds_up_its_node_is_given_up_and_not_on_record() {
    let hurried = ComponentsConfig { step_wall_max: Duration::from_millis(1), ..ComponentsConfig::default() };
    let component = Guest::handling("(loop $again (br $again)) i32.const 0").component();
    let endless = |manifest: &mut Manifest| {
        manifest.wasm.as_mut().unwrap().limits.fuel_max = 1_000_000_000;
    };
    let mut rig = Rig::with(&components_with(hurried), &component, endless).unwrap();
    let before = (rig.world.head(), rig.world.digest());
    let error = rig.send("go", serde_json::Value::Null).unwrap_err();
    assert_eq!(error.code(), Code::StepAbandoned);
    assert!(matches!(error, TurnError::Load(LoadError::Abandoned { .. })), "{error}");
    assert_eq!((rig.world.head(), rig.world.digest()), before);
}

#[test]
fn a_component_is_compiled_in_the_background_and_found_when_it_is_ready() {
    let components = components();
    let component: Arc<[u8]> = counter().component().into();
    let hash = Hash::of(&component);
    assert_eq!(components.prepare(hash, None), Readiness::Unknown);
    let begun = components.prepare(hash, Some(component.clone()));
    assert!(matches!(begun, Readiness::Queued { .. }), "{begun:?}");
    assert_eq!(once_ready(&components, hash).program, hash);
}

/// The manifest of a component that is being prepared.
fn once_ready(components: &Components, hash: Hash) -> Manifest {
    let ready = (0..u64::MAX).find_map(|_| match components.prepare(hash, None) {
        Readiness::Ready(manifest) => Some(*manifest),
        Readiness::Queued { .. } | Readiness::Compiling { .. } => {
            std::thread::yield_now();
            None
        }
        other => panic!("{other:?}"),
    });
    ready.unwrap()
}

#[test]
fn a_world_whose_component_is_not_at_hand_says_which_object_it_misses() {
    let components = components();
    let component = counter().component();
    let manifest = components.prepare_now(&component).unwrap();
    let other = self::components();
    let missing = other.load(&MemoryObjects::new(), &manifest).err().unwrap();
    assert_eq!(missing, ManifestError::Load(LoadError::Missing(Hash::of(&component))));
    let mut objects = MemoryObjects::new();
    objects.put(component.clone());
    let preparing = other.load(&objects, &manifest).err().unwrap();
    assert_eq!(preparing, ManifestError::Load(LoadError::Preparing(Hash::of(&component))));
}

#[test]
fn compiled_code_is_kept_on_disk_and_a_damaged_file_is_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = ComponentsConfig { cache: Some(folder.path().to_owned()), ..ComponentsConfig::default() };
    let component = counter().component();
    let run = || {
        let mut rig = Rig::with(&components_with(config.clone()), &component, |_| {}).unwrap();
        rig.go();
        rig.world.digest()
    };
    let files = || {
        let mut files: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    };
    let first = run();
    let [code, sum] = files().try_into().unwrap();
    let written = std::fs::metadata(&code).unwrap().modified().unwrap();
    assert_eq!(run(), first);
    assert_eq!(std::fs::metadata(&code).unwrap().modified().unwrap(), written, "it was compiled again");

    for (path, at) in [(&code, 5_000), (&code, 100), (&sum, 3)] {
        let good = std::fs::read(path).unwrap();
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(path, &bad).unwrap();
        assert_eq!(run(), first);
        assert_eq!(std::fs::read(path).unwrap(), good, "the damaged file is still there");
        std::fs::write(path, &good[..good.len() / 2]).unwrap();
        assert_eq!(run(), first);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "another thread is waited for")]
fn a_component_that_was_compiled_before_waits_for_no_compiler() {
    let (folder, compiling) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = ComponentsConfig { cache: Some(folder.path().to_owned()), ..ComponentsConfig::default() };
    let known: Arc<[u8]> = counter().component().into();
    components_with(config.clone()).prepare_now(&known).unwrap();
    // A compiler that takes as long as its folder exists.
    let script = format!("while [ -d {} ]; do sleep 0.05; done", compiling.path().display());
    let compiler = CompileProcess {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        limits: CompileLimits::default(),
    };
    let components = components_with(ComponentsConfig { compiler: Some(compiler), ..config });
    // A section that nobody reads makes another component of it.
    let new: Arc<[u8]> = [&known[..], &[0, 3, 1, b'n', 7]].concat().into();
    let (hash, new_hash) = (Hash::of(&known), Hash::of(&new));
    components.prepare(new_hash, Some(new));
    while matches!(components.prepare(new_hash, None), Readiness::Queued { .. }) {
        std::thread::yield_now();
    }
    components.prepare(hash, Some(known));
    let is_ready = |_: &u32| {
        std::thread::sleep(Duration::from_millis(10));
        matches!(components.prepare(hash, None), Readiness::Ready(_))
    };
    assert!((0..2_000).any(|look| is_ready(&look)), "it waits: {:?}", components.prepare(hash, None));
    let other = components.prepare(new_hash, None);
    assert!(matches!(other, Readiness::Compiling { .. }), "{other:?}");
}

#[test]
fn a_damaged_file_is_compiled_again_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let config = ComponentsConfig { cache: Some(folder.path().to_owned()), ..ComponentsConfig::default() };
    let component: Arc<[u8]> = counter().component().into();
    components_with(config.clone()).prepare_now(&component).unwrap();
    let files = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let sum = files.into_iter().find(|path| path.extension().is_some_and(|it| it == "sum")).unwrap();
    let good = std::fs::read(&sum).unwrap();
    std::fs::write(&sum, b"damaged").unwrap();
    let (components, hash) = (components_with(config), Hash::of(&component));
    components.prepare(hash, Some(component));
    assert_eq!(once_ready(&components, hash).program, hash);
    assert_eq!(std::fs::read(&sum).unwrap(), good);
}

/// Spare components are forgotten; those in use do not count, or there would be no room for a new one until its world
/// comes for it.
#[test]
fn a_node_that_runs_many_components_takes_in_more() {
    let (components, code) = (components(), counter().component());
    // A section that nobody reads makes another component of it.
    let other = |number: u8| [&code[..], &[0, 3, 1, b'n', number]].concat();
    let many = u8::try_from(limits::COMPONENTS_KEPT_MAX + 3).unwrap();
    let rigs = (0..many).map(|number| Rig::with(&components, &other(number), |_| {}).unwrap());
    let mut rigs: Vec<_> = rigs.collect();
    rigs.iter_mut().for_each(|rig| assert_eq!(failure(&rig.go()), None));
}

#[test]
fn bounds_come_from_the_manifest() {
    // Asks for one more page than two, and traps if it does not get it.
    let component =
        Guest::handling("(if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable)) i32.const 0")
            .component();
    let memory = |pages: u64| {
        let bound = move |manifest: &mut Manifest| {
            manifest.wasm.as_mut().unwrap().limits.memory_bytes_max = pages << 16;
        };
        Rig::with(&components(), &component, bound)
    };
    assert_eq!(failure(&memory(18).unwrap().go()), None);
    assert_eq!(failed(&memory(17).unwrap().go()), "PROGRAM_TRAPPED");
    let too_small = memory(1).err().unwrap();
    assert_eq!(too_small.code(), Code::ProgramRefused, "{too_small}");

    // How deep a recursion goes follows the stack.
    let depth = "(func $down (param i32) (result i32)
        (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 0))
          (else (i32.add (i32.const 1) (call $down (i32.sub (local.get 0) (i32.const 1)))))))";
    let guest =
        Guest { extra: depth.to_owned(), ..Guest::handling("(drop (call $down (i32.const 10000))) i32.const 0") };
    let component = guest.component();
    let stack = |bytes: u64| {
        let bound = move |manifest: &mut Manifest| {
            manifest.wasm.as_mut().unwrap().limits.stack_bytes_max = bytes;
        };
        Rig::with(&components(), &component, bound)
    };
    assert_eq!(failure(&stack(1 << 20).unwrap().go()), None);
    assert_eq!(failed(&stack(64 << 10).unwrap().go()), "PROGRAM_TRAPPED");
    for wrong in [(1 << 20) - 1, 32 << 10, 2 << 20] {
        let manifest = || {
            let mut manifest = components().prepare_now(&component).unwrap();
            manifest.wasm.as_mut().unwrap().limits.stack_bytes_max = wrong;
            Manifest::from_bytes(&manifest.to_bytes())
        };
        assert_eq!(manifest().unwrap_err().code(), Code::ManifestInvalid);
    }
}

#[test]
fn a_table_grows_to_the_manifests_bound_and_no_further() {
    let guest = Guest {
        extra: "(table $t 10 funcref)".to_owned(),
        ..Guest::handling(
            "(if (i32.eq (table.grow $t (ref.null func) (i32.const 16)) (i32.const -1)) (then unreachable)) i32.const 0",
        )
    };
    let component = guest.component();
    let table = |elements: u64| {
        let bound = move |manifest: &mut Manifest| {
            manifest.wasm.as_mut().unwrap().limits.table_elements_max = elements;
        };
        Rig::with(&components(), &component, bound)
    };
    assert_eq!(failure(&table(26).unwrap().go()), None);
    assert_eq!(failed(&table(25).unwrap().go()), "PROGRAM_TRAPPED");
    let too_small = table(9).err().unwrap();
    assert_eq!(too_small.code(), Code::ProgramRefused, "{too_small}");
}

/// Which bits a NaN has differs between processors, and between what a compiler makes of the same code.
#[test]
fn every_nan_that_is_computed_has_the_same_bits() {
    let doubles = [
        "(f64.div (f64.const 0) (f64.const 0))",
        "(f64.sqrt (f64.const -1))",
        "(f64.sub (f64.const inf) (f64.const inf))",
        "(f64.add (f64.const nan:0x400000000dead) (f64.const 1))",
        "(f64.mul (f64.const -nan:0x800000000beef) (f64.const -nan:0x8000000000001))",
        "(f64.min (f64.const -nan) (f64.const 1))",
        "(f64.promote_f32 (f32.const -nan:0x200001))",
        "(f64x2.extract_lane 1 (f64x2.div (v128.const f64x2 1 0) (v128.const f64x2 1 0)))",
    ];
    let singles = ["(f32.div (f32.const 0) (f32.const 0))", "(f32.add (f32.const -nan:0x200001) (f32.const 1))"];
    let other = |bits: &str, computed: &str, canonical: &str| {
        format!("(if ({bits}.ne ({bits}.reinterpret_{computed} {canonical} (then unreachable))")
    };
    let doubles = doubles.map(|nan| other("i64", &format!("f64 {nan})"), "(i64.const 0x7ff8000000000000))"));
    let singles = singles.map(|nan| other("i32", &format!("f32 {nan})"), "(i32.const 0x7fc00000))"));
    for check in doubles.iter().chain(&singles) {
        let mut rig = Rig::new(&Guest::handling(&format!("{check} i32.const 0")).component());
        assert_eq!(failure(&rig.go()), None, "{check}");
    }
}
