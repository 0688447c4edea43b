//! Random programs of cell operations: whatever they do, replay and forks give the same cells.

use crate::rig::{CHILD, Rig, event, fired, identity, receipt};
use mundi_kernel::{
    fork::{ForkRequest, fork},
    replay::Replay,
    snapshot::KernelSnapshot,
};
use mundi_model::{
    Hash,
    record::{EffectPolicy, Input, ReceiptStatus},
};
use proptest::prelude::*;

fn line() -> impl Strategy<Value = String> {
    let key = "[a-c]/[0-9]{1,2}";
    let label = "[x-z]";
    prop_oneof![
        4 => (key, "[a-z]{1,8}").prop_map(|(key, value)| format!("put {key} {value}")),
        2 => (key, 0usize..3000).prop_map(|(key, len)| format!("fill {key} {len}")),
        2 => key.prop_map(|key| format!("delete {key}")),
        1 => Just("add n".to_owned()),
        1 => ("[a-c]", key).prop_map(|(from, to)| format!("copy {from} {to}")),
        1 => key.prop_map(|key| format!("random {key}")),
        1 => key.prop_map(|key| format!("now {key}")),
        2 => label.prop_map(|label| format!("emit http {label}")),
        1 => label.prop_map(|label| format!("cancel {label}")),
        1 => (label, 0u64..100_000).prop_map(|(label, due)| format!("timer {label} {due}")),
        1 => label.prop_map(|label| format!("cancel-timer {label}")),
        1 => Just("fail x".to_owned()),
    ]
}

/// An action of a driver in a turn: run scripts, answer the oldest intent, fire the first timer.
#[derive(Debug, Clone)]
enum Act {
    Scripts(Vec<Vec<String>>),
    Answer,
    Fire,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let scripts = prop::collection::vec(prop::collection::vec(line(), 0..6), 1..4);
    prop::collection::vec(
        prop_oneof![3 => scripts.prop_map(Act::Scripts), 1 => Just(Act::Answer), 1 => Just(Act::Fire)],
        1..12,
    )
}

fn inputs(rig: &Rig, act: &Act) -> Vec<Input> {
    match act {
        Act::Scripts(scripts) => scripts.iter().map(|lines| event(&lines.join("\n"))).collect(),
        Act::Answer => {
            let oldest = rig.world.open_intents().min_by_key(|intent| (intent.place.height, intent.place.index));
            oldest.map(|intent| receipt(intent.hash, &intent.kind, ReceiptStatus::Ok, b"ok")).into_iter().collect()
        }
        Act::Fire => {
            let first = rig.world.timers().min_by_key(|timer| (timer.place.height, timer.place.index));
            first.map(|timer| fired(timer.hash)).into_iter().collect()
        }
    }
}

fn perform(rig: &mut Rig, acts: &[Act]) {
    for act in acts {
        let arrivals: Vec<_> = inputs(rig, act).into_iter().map(|input| rig.arrival(input)).collect();
        rig.turn(&arrivals);
    }
}

fn root(rig: &mut Rig) -> Option<Hash> {
    KernelSnapshot::from_bytes(&rig.snapshot().bytes).unwrap().cells()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn replay_from_any_snapshot_gives_the_same_world(before in acts(), after in acts()) {
        let mut rig = Rig::new();
        perform(&mut rig, &before);
        let taken = rig.snapshot();
        perform(&mut rig, &after);
        let whole = identity(&mut rig.world, &rig.objects);

        let height = usize::try_from(taken.note.height.get()).unwrap();
        let mut replay = Replay::from_world(rig.restore(&taken.note));
        replay.run(&rig.objects, &rig.journal[height..], None).unwrap();
        prop_assert_eq!(identity(&mut replay.finish().unwrap(), &rig.objects), whole);
        prop_assert_eq!(identity(&mut rig.replayed(), &rig.objects), whole);
    }

    #[test]
    fn a_fork_with_the_same_inputs_has_the_same_cells(before in acts(), after in acts(), live: bool) {
        let mut rig = Rig::new();
        perform(&mut rig, &before);
        let parent = KernelSnapshot::from_bytes(&rig.snapshot().bytes).unwrap();
        let policy = if live { EffectPolicy::Live } else { EffectPolicy::Recorded };
        let fork = fork(&parent, ForkRequest::new(CHILD, policy, 0)).unwrap();
        rig.objects.put(fork.bytes.clone());

        let mut child = Rig::new();
        child.world = rig.restore(&fork.note);
        child.objects = rig.objects.clone();
        let mut replay = Replay::from_world(child.world);
        replay.apply(&rig.objects, &fork.record).unwrap();
        child.world = replay.finish().unwrap();
        child.now_ns = rig.now_ns;
        child.next_seq = rig.next_seq; // so that the same entropy follows
        perform(&mut rig, &after);
        perform(&mut child, &after);
        prop_assert_eq!(root(&mut child), root(&mut rig));
    }

    #[test]
    fn when_the_tree_is_made_never_shows(acts in acts()) {
        let (mut often, mut never) = (Rig::new(), Rig::new());
        for act in &acts {
            perform(&mut often, std::slice::from_ref(act));
            often.snapshot();
            perform(&mut never, std::slice::from_ref(act));
        }
        prop_assert_eq!(&often.journal, &never.journal);
        prop_assert_eq!(identity(&mut often.world, &often.objects), identity(&mut never.world, &never.objects));
    }

    #[test]
    fn what_a_turn_holds_does_not_change_the_outcome(acts in acts()) {
        let scripts: Vec<Vec<String>> = acts.into_iter().flat_map(|act| match act {
            Act::Scripts(scripts) => scripts,
            Act::Answer | Act::Fire => Vec::new(),
        }).collect();
        let (mut together, mut apart) = (Rig::new(), Rig::new());
        let arrivals: Vec<_> = scripts.iter().map(|lines| together.arrival(event(&lines.join("\n")))).collect();
        together.turn(&arrivals);
        for arrival in &arrivals {
            apart.turn(std::slice::from_ref(arrival));
        }
        prop_assert_eq!(root(&mut together), root(&mut apart));
    }
}
