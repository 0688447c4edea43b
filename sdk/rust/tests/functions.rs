//! Durable functions: what they may do, what is on record, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_sdk::{
    Event, Failure, Program, Value, World,
    children::{Budget, ChildPassed},
    functions::{Branch, Ctx, Done, EffectOptions, FunctionError, Functions, Handled, WOKEN_MAX, status},
    testing::{DurableWorld, TestWorld, for_each_crash},
};
use serde_json::json;

const OFFER: &str = r#"{"events": {"order": true, "approve": true, "note": true}, "queries": {"count": true},
    "effects": {"charge": {}, "refund": {}, "reserve": {}, "check": {}, "world.call": {}, "fabric.send": {}, "child.spawn": {}, "http.request": {}}}"#;

type Outcome = Result<Done, FunctionError>;

/// A program of one durable function, `order`.
macro_rules! program {
    ($name:ident, $code:expr) => {
        struct $name;

        impl Program for $name {
            const OFFER: &'static str = OFFER;

            fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
                Functions::new(OFFER).durable("order", $code).handle(world, event).map(drop)
            }
        }
    };
}

async fn saga(ctx: Ctx, order: Value) -> Outcome {
    let charge: Value = ctx.effect("charge", &order).await?;
    let both = ctx.all([ctx.effect::<Value>("reserve", &order), ctx.effect("check", &order)]).await?;
    if ctx.race([ctx.event::<Value>("approve"), ctx.sleep("1h")?.any()]).await?.is_null() {
        ctx.effect::<Value>("refund", &charge).await?;
        return ctx.done(&"expired");
    }
    ctx.call::<Value>("warehouse", "ship", &order).await?;
    ctx.done(&both)
}
program!(Saga, saga);

fn placed(world: &mut DurableWorld<Saga>) -> Result<(), Failure> {
    world.run("order", 8, "a")?;
    world.answer("charge", "c")?;
    world.answer("check", "fine")?;
    world.answer("reserve", 2)?;
    world.event("approve", true, None)?;
    world.answer("world.call", "shipped").map(drop)
}

fn waits(world: &DurableWorld<impl Program>) -> Vec<String> {
    let instance = world.instance("order", "a").unwrap();
    instance.waits.into_iter().map(|(number, kind, name)| format!("{number} {kind} {name}")).collect()
}

#[test]
fn answers_in_any_order_an_approval_and_a_call() {
    let mut world = DurableWorld::<Saga>::new();
    placed(&mut world).unwrap();
    let instance = world.instance("order", "a").unwrap();
    assert_eq!((&*instance.state, instance.result), ("done", Some(json!([2, "fine"]))));
    let asks = ["effect charge", "effect reserve", "effect check", "event approve", "timer sleep", "effect world.call"];
    assert_eq!(instance.asks, asks);
    assert_eq!((world.world().open(), world.world().timers()), (vec![], vec![]), "the sleep that lost is withdrawn");
}

#[test]
fn a_function_with_the_attribute_is_the_one_that_is_registered_by_its_name() {
    /// A comment, another attribute and a visibility of its own.
    #[allow(clippy::unused_async)]
    #[mundi_sdk::durable]
    pub(crate) async fn order(ctx: Ctx, order: Value) -> Outcome {
        saga(ctx, order).await
    }

    /// A comma in its types, and a name that is none in Rust.
    #[mundi_sdk::durable("order.counts")]
    async fn counts(ctx: Ctx, counts: std::collections::BTreeMap<String, u8>) -> Outcome {
        ctx.done(&counts.len())
    }

    struct Attribute;

    impl Program for Attribute {
        const OFFER: &'static str = OFFER;

        fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
            Functions::new(OFFER).with::<order>().handle(world, event).map(drop)
        }
    }

    let (mut world, mut other) = (DurableWorld::<Attribute>::new(), DurableWorld::<Saga>::new());
    world.run("order", 8, "a").unwrap();
    other.run("order", 8, "a").unwrap();
    world.answer("charge", "c").unwrap();
    other.answer("charge", "c").unwrap();
    assert_eq!(world.world().cells(), other.world().cells());
    assert_eq!(<counts as mundi_sdk::functions::Durable>::NAME, "order.counts");
}

#[test]
fn a_crash_in_every_step_changes_nothing() {
    assert_eq!(for_each_crash::<Saga>(placed).unwrap(), 6);
}

#[test]
fn a_fork_at_every_await_goes_another_way() {
    let mut world = DurableWorld::<Saga>::new();
    placed(&mut world).unwrap();
    for number in [1, 2, 3, 4, 6] {
        let mut fork = world.fork_at_await(number, "order", "a").unwrap();
        fork.cancel("order", "a", "no more").unwrap();
        assert_eq!(fork.instance("order", "a").unwrap().state, "cancelled", "await {number}");
    }
    let mut late = world.fork_at_await(4, "order", "a").unwrap();
    late.skip("1h").unwrap();
    assert_eq!(waits(&late), ["6 effect refund"]);
    late.answer("refund", ()).unwrap();
    assert_eq!(late.instance("order", "a").unwrap().result, Some("expired".into()));
    assert_eq!(world.instance("order", "a").unwrap().state, "done", "the world itself is as it was");
}

#[test]
fn an_await_ends_with_a_result_that_is_given_in_place_of_what_it_waits_for() {
    let mut world = DurableWorld::<Saga>::new();
    placed(&mut world).unwrap();
    let mut fork = world.fork_at_await(3, "order", "a").unwrap();
    fork.resolve(3, "a thief", "order", "a").unwrap();
    assert_eq!(waits(&fork), ["2 effect reserve"]);
    assert_eq!(fork.world().open(), ["$fn/order/a/0.2"], "what it waited for is withdrawn");
    assert_eq!(fork.resolve(3, 1, "order", "a").unwrap_err().code, "FUNCTION_NOT_FOUND");
    fork.answer("reserve", 2).unwrap();
    assert_eq!(waits(&fork), ["4 event approve", "5 timer sleep"]);
    let mut slept = fork.fork();
    slept.resolve(5, (), "order", "a").unwrap();
    assert_eq!((waits(&slept), slept.world().timers()), (vec!["6 effect refund".to_owned()], vec![]));
    slept.reject(6, ("CARD", "refused"), "order", "a").unwrap();
    let failed = slept.instance("order", "a").unwrap();
    assert_eq!((&*failed.state, failed.error.map(|error| error.code)), ("failed", Some("CARD".to_owned())));
    assert_eq!(slept.resolve(6, 1, "order", "a").unwrap_err().code, "FUNCTION_NOT_FOUND", "it has ended");
    fork.resolve(4, true, "order", "a").unwrap();
    assert_eq!(waits(&fork), ["6 effect world.call"]);
    assert_eq!(fork.event("approve", true, None).unwrap().reply, None, "nobody waits for it any more");
    fork.answer("world.call", "shipped").unwrap();
    assert_eq!(fork.instance("order", "a").unwrap().result, Some(json!([2, "a thief"])));
}

#[test]
fn a_child_gives_its_result_and_ends_with_the_wait_for_it() {
    program!(Parent, |ctx: Ctx, topic: String| async move {
        let first: ChildPassed<String> = ctx.child("agent", &json!({ "prompt": topic }), &Budget::tokens(50)).await?;
        let scope = ctx.scope();
        let second = scope.child::<Value>("external", &first.result, &Budget::default());
        if ctx.signal::<bool>("approve").await? {
            scope.cancel("no longer wanted");
        }
        match second.await {
            Ok(child) => ctx.done(&child.result),
            Err(error) if error.is_cancelled() => ctx.done(&first.spent),
            Err(error) => Err(error),
        }
    });
    let mut world = DurableWorld::<Parent>::new();
    let begun = world.run("order", "tea", "a").unwrap();
    assert_eq!(begun.waits, [(1, "effect".to_owned(), "child.spawn".to_owned())]);
    let passed = json!({ "outcome": "passed", "result": "leaves", "spent": { "tokens": 7 }, "child_id": "c_1" });
    let asked = world.answer("child.spawn", &passed).unwrap().intents;
    assert_eq!(asked[0].params, json!({ "kind": "external", "params": "leaves" }));
    let mut failed = world.fork();
    failed.event("approve", false, Some("a")).unwrap();
    failed.fail_effect("child.spawn", "URM_CHILD_FAILED", "no such page").unwrap();
    let failed = failed.instance("order", "a").unwrap();
    assert_eq!((&*failed.state, failed.error.unwrap().code), ("failed", "URM_CHILD_FAILED".to_owned()));
    let step = world.event("approve", true, Some("a")).unwrap();
    assert!(step.cancelled.contains(&"$fn/order/a/0.2".to_owned()), "the end of the scope cancels the child: {step:?}");
    assert_eq!(world.instance("order", "a").unwrap().result, Some(json!({ "tokens": 7 })));
}

#[test]
fn what_an_instance_keeps_is_bounded() {
    program!(Large, |ctx: Ctx, bytes: usize| async move {
        ctx.signal::<Value>("approve").await?;
        if bytes > 1000 {
            return ctx.continue_as(&"x".repeat(bytes));
        }
        ctx.status(&"x".repeat(bytes << 10))?;
        ctx.signal::<Value>("note").await?;
        ctx.done(&1)
    });
    let failure = |world: &DurableWorld<Large>| world.instance("order", "a").unwrap().error.map(|error| error.code);
    for (bytes, code) in [(600 << 10, "FUNCTION_INPUT_TOO_LARGE"), (65, "FUNCTION_RESULT_TOO_LARGE")] {
        let mut world = DurableWorld::<Large>::new();
        world.run("order", bytes, "a").unwrap();
        let large = "x".repeat(100 << 10);
        world.event("note", &large, Some("a")).unwrap();
        world.event("note", &large, Some("a")).unwrap();
        let refused = world.event("note", &large, Some("a")).unwrap_err();
        assert_eq!((refused.code, failure(&world)), ("FUNCTION_SIGNALS_FULL", None), "{}", refused.reason);
        world.event("approve", 1, Some("a")).unwrap();
        assert_eq!(failure(&world), Some(code.to_owned()));
    }
    program!(Crowd, |ctx: Ctx, _: Value| async move {
        let waits = (0..501).map(|_| ctx.event::<Value>("approve")).collect::<Vec<_>>();
        ctx.all(waits).await?;
        ctx.done(&1)
    });
    let mut world = DurableWorld::<Crowd>::new();
    for key in ["a", "b"] {
        world.run("order", (), key).unwrap();
    }
    let refused = world.event("approve", 1, None).unwrap_err();
    assert!(refused.reason.contains("FUNCTIONS_FULL"), "{}", refused.reason);
}

#[test]
fn a_call_is_answered_when_the_function_ends_and_its_key_finds_it_again() {
    program!(Calls, |ctx: Ctx, n: u64| async move {
        let sum: u64 = ctx.effect("charge", &n).await?;
        ctx.done(&(sum + 1))
    });
    let mut world = DurableWorld::<Calls>::new();
    assert_eq!(world.event("order", 1, Some("a")).unwrap().reply, None);
    assert_eq!(world.event("order", 1, Some("a")).unwrap().intents, [], "the same call begins nothing new");
    let replies: Vec<_> = world.answer("charge", 41).unwrap().replies.into_values().collect();
    assert_eq!(replies, [42, 42]);
    assert_eq!(world.event("order", 1, Some("a")).unwrap().reply, Some(42.into()));
    assert_eq!(world.event("order", 2, Some("a")).unwrap_err().code, "FUNCTION_KEY_REUSED");
    assert_eq!(world.event("order", 2, Some("a/b")).unwrap_err().code, "FUNCTION_KEY_INVALID");
}

#[test]
fn retries_are_counted_and_a_timeout_ends_them() {
    program!(Patient, |ctx: Ctx, _: Value| async move {
        let options = EffectOptions::default().retry(5).timeout("4s");
        let failed = ctx.effect_with::<Value>("charge", &1, &options).await.unwrap_err();
        let (effect, error) = failed.effect().unwrap();
        ctx.done(&json!([effect, error.code, error.attempts]))
    });
    let mut world = DurableWorld::<Patient>::new();
    world.run("order", (), "a").unwrap();
    for wait in ["1s", "2s"] {
        world.fail_effect("charge", "CARD", "refused").unwrap();
        assert_eq!(world.world().open().len(), 0, "it waits before the next attempt");
        world.skip(wait).unwrap();
    }
    world.skip("1s").unwrap();
    assert_eq!(world.instance("order", "a").unwrap().result, Some(json!(["charge", "EFFECT_TIMEOUT", 3])));
    assert_eq!(world.world().open().len(), 0);
}

#[test]
fn two_branches_see_their_results_in_the_order_in_which_those_came() {
    program!(Branches, |ctx: Ctx, _: Value| async move {
        let branch = |first: &'static str, then: &'static str| {
            let ctx = ctx.clone();
            async move {
                let one: Value = ctx.effect(first, &1).await?;
                let two: Value = ctx.effect(then, &2).await?;
                ctx.sleep("1s")?.await?;
                Ok::<_, FunctionError>(json!([one, two]))
            }
        };
        let both = ctx.all([branch("reserve", "refund"), branch("check", "charge")]).await?;
        ctx.done(&both)
    });
    let mut world = DurableWorld::<Branches>::new();
    world.run("order", (), "a").unwrap();
    world.answer("check", "f").unwrap();
    world.answer("reserve", "s").unwrap();
    assert_eq!(world.instance("order", "a").unwrap().asks[2..], ["effect charge", "effect refund"]);
    world.answer("refund", "r").unwrap();
    world.answer("charge", "c").unwrap();
    world.skip("1s").unwrap();
    assert_eq!(world.instance("order", "a").unwrap().result, Some(json!([["s", "r"], ["f", "c"]])));
}

#[test]
fn a_scope_is_cancelled_for_itself_and_a_paused_instance_goes_on_later() {
    program!(Scoped, |ctx: Ctx, _: Value| async move {
        let inner = ctx.scope();
        let work = inner.effect::<Value>("reserve", &());
        ctx.effect::<Value>("charge", &1).await?;
        inner.cancel("enough");
        let code = work.await.unwrap_err().code().to_owned();
        let checked: Value = ctx.effect("check", &()).await?;
        ctx.done(&json!([code, checked]))
    });
    let mut world = DurableWorld::<Scoped>::new();
    world.run("order", (), "a").unwrap();
    world.pause("order", "a").unwrap();
    assert_eq!(world.answer("charge", ()).unwrap().cancelled, [""; 0]);
    assert_eq!(world.resume("order", "a").unwrap().cancelled, ["$fn/order/a/0.1"]);
    world.answer("check", "fine").unwrap();
    assert_eq!(world.instance("order", "a").unwrap().result, Some(json!(["FUNCTION_CANCELLED", "fine"])));
}

#[test]
fn handlers_and_functions_share_a_program_and_its_cells() {
    struct Both;

    impl Program for Both {
        const OFFER: &'static str = OFFER;

        fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
            let order = |ctx: Ctx, _: Value| async move {
                let seen = ctx.get::<u64>("count")?.unwrap_or(0);
                ctx.put("count", &(seen + 10))?;
                ctx.sleep("1s")?.await?;
                ctx.done(&json!([seen, ctx.get::<u64>("count")?]))
            };
            if Functions::new(OFFER).durable("order", order).handle(world, event)? == Handled::Yes {
                return Ok(());
            }
            let count = world.get::<u64>("count")?.unwrap_or(0) + 1;
            world.put("count", &count)?;
            world.reply(&event.seq, &count)
        }
    }

    let mut world = DurableWorld::<Both>::new();
    world.event("note", (), None).unwrap();
    world.run("order", (), "a").unwrap();
    assert_eq!(world.event("note", (), None).unwrap().reply, Some(12.into()));
    world.skip("1s").unwrap();
    assert_eq!(world.instance("order", "a").unwrap().result, Some(json!([1, 12])), "nothing is written twice");
}

#[test]
fn other_code_is_refused_and_says_which_await_differs() {
    program!(First, |ctx: Ctx, _: Value| async move {
        ctx.effect::<Value>("charge", &1).await?;
        let checked: Value = ctx.effect("check", &1).await?;
        ctx.done(&checked)
    });
    program!(Other, |ctx: Ctx, _: Value| async move {
        ctx.effect::<Value>("charge", &2).await?;
        ctx.done(&1)
    });
    program!(Less, |ctx: Ctx, _: Value| async move {
        ctx.effect::<Value>("charge", &1).await?;
        ctx.done(&1)
    });
    program!(More, |ctx: Ctx, _: Value| async move {
        ctx.effect::<Value>("charge", &1).await?;
        ctx.all([ctx.effect::<Value>("check", &1), ctx.effect("reserve", &1)]).await?;
        ctx.done(&1)
    });
    let mut world = DurableWorld::<First>::new();
    world.run("order", (), "a").unwrap();
    world.answer("charge", ()).unwrap();
    let refusals = [
        world.upgrade::<Other>().err().unwrap(),
        world.upgrade::<Less>().err().unwrap(),
        world.upgrade::<More>().err().unwrap(),
    ];
    let said =
        ["order/a: await 1: on record is effect `charge`", "await 2: on record", "await 3: on record is nothing"];
    for (refused, said) in refusals.iter().zip(said) {
        assert_eq!(refused.code, "FUNCTION_DIVERGED");
        assert!(refused.reason.contains(said), "{}", refused.reason);
    }
    assert!(world.upgrade::<First>().is_ok());
    world.answer("check", "f").unwrap();
    assert_eq!(world.instance("order", "a").unwrap().result, Some("f".into()));
}

#[test]
fn both_ways_of_a_version_stay_in_the_code() {
    program!(Old, |ctx: Ctx, _: Value| async move {
        ctx.sleep("1s")?.await?;
        let checked: Value = ctx.effect("check", &1).await?;
        ctx.done(&checked)
    });
    program!(Two, |ctx: Ctx, _: Value| async move {
        ctx.sleep("1s")?.await?;
        if ctx.version("reserve first", 1, 2)? == 2 {
            ctx.effect::<Value>("reserve", &1).await?;
        }
        let checked: Value = ctx.effect("check", &1).await?;
        ctx.done(&checked)
    });
    let mut world = DurableWorld::<Old>::new();
    world.run("order", (), "passed").unwrap();
    world.skip("1s").unwrap();
    world.run("order", (), "a").unwrap();
    let mut world = world.upgrade::<Two>().unwrap();
    world.skip("1s").unwrap();
    assert_eq!(waits(&world), ["3 effect reserve"]);
    world.answer("check", "f").unwrap();
    assert_eq!(world.instance("order", "passed").unwrap().result, Some("f".into()));
}

#[test]
fn wrong_uses_have_a_code_and_say_what_to_write_instead() {
    fn outcome<P: Program>() -> (String, String) {
        let mut world = DurableWorld::<P>::new();
        let instance = world.run("order", (), "a").unwrap();
        assert_eq!(instance.state, "failed");
        instance.error.map(|error| (error.code, error.message)).unwrap()
    }
    program!(Forgotten, |ctx: Ctx, _: Value| async move {
        drop(ctx.effect::<Value>("charge", &1));
        ctx.done(&1)
    });
    program!(Undeclared, |ctx: Ctx, _: Value| async move {
        let sent: Value = ctx.effect("mail", &1).await?;
        ctx.done(&sent)
    });
    program!(Stuck, |ctx: Ctx, _: Value| async move {
        std::future::pending::<()>().await;
        ctx.done(&1)
    });
    program!(Reserved, |ctx: Ctx, _: Value| async move {
        ctx.put("$fn/x", &1)?;
        ctx.done(&1)
    });
    program!(Soon, |ctx: Ctx, _: Value| async move {
        ctx.sleep("soon")?.await?;
        ctx.done(&1)
    });
    program!(Long, |ctx: Ctx, _: Value| async move {
        for n in 0..=1000 {
            ctx.put("n", &n)?;
        }
        ctx.done(&1)
    });
    program!(Typed, |ctx: Ctx, order: Vec<String>| async move { ctx.done(&order) });
    let outcomes = [
        (outcome::<Forgotten>(), "FUNCTION_AWAIT_MISSING", "write `.await`"),
        (outcome::<Undeclared>(), "FUNCTION_EFFECT_UNDECLARED", "does not declare the effect `mail`"),
        (outcome::<Stuck>(), "FUNCTION_STUCK", "never comes"),
        (outcome::<Reserved>(), "FUNCTION_CELL_RESERVED", "choose another key"),
        (outcome::<Soon>(), "FUNCTION_FAILED", "no duration"),
        (outcome::<Long>(), "FUNCTION_LOG_FULL", "continue_as"),
        (outcome::<Typed>(), "FUNCTION_FAILED", "expected a sequence"),
    ];
    for ((code, message), expected, said) in outcomes {
        assert_eq!(code, expected);
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn a_context_outside_of_its_function_and_an_instance_too_many_are_refused() {
    thread_local! {
        static KEPT: std::cell::RefCell<Option<Ctx>> = const { std::cell::RefCell::new(None) };
    }
    program!(Keeps, |ctx: Ctx, _: Value| async move {
        KEPT.set(Some(ctx.clone()));
        ctx.signal::<Value>("note").await?;
        ctx.done(&1)
    });
    let mut world = TestWorld::<Keeps>::new();
    for n in 0..1000 {
        world.send("order", n).unwrap();
    }
    assert_eq!(world.send("order", 1).unwrap_err().code, "FUNCTIONS_FULL");
    let ask = std::pin::pin!(KEPT.take().unwrap().effect::<Value>("charge", &1));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = std::future::Future::poll(ask, &mut context) else { panic!("it waits") };
    assert_eq!(error.code(), "FUNCTION_CONTEXT_OVER");
    assert!(error.to_string().contains("use it only inside its function"), "{error}");
}

#[test]
fn an_event_that_an_instance_takes_is_not_for_handlers_and_its_status_is_read_by_queries() {
    struct Both;

    impl Program for Both {
        const OFFER: &'static str = OFFER;

        fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
            let waits = |ctx: Ctx, _: Value| async move {
                ctx.status(&"waits")?;
                ctx.event::<Value>("approve").await
            };
            if Functions::new(OFFER).durable("order", waits).handle(world, event)? == Handled::No {
                world.put("handled", &true)?;
            }
            Ok(())
        }

        fn query(world: &World, _: &str, key: Value) -> Result<Value, Failure> {
            Ok(status(world, "order", key.as_str().unwrap_or_default())?.unwrap_or_default())
        }
    }
    let mut world = DurableWorld::<Both>::new();
    world.run("order", 1, "a").unwrap();
    assert_eq!(world.world().query("count", "a").unwrap(), json!("waits"));
    assert_eq!(world.world().query("count", "b").unwrap(), Value::Null);
    world.event("approve", true, None).unwrap();
    assert!(!world.world().cells().contains_key("handled"));
    world.event("approve", true, None).unwrap();
    assert!(world.world().cells().contains_key("handled"), "nobody waits for it any more");
}

#[test]
fn every_attempt_of_an_await_has_the_same_key() {
    program!(Keyed, |ctx: Ctx, n: u64| async move {
        let patient = EffectOptions::default().retry(2).key_in("once");
        ctx.effect_with::<Value>("charge", &json!({ "cents": n }), &patient).await?;
        ctx.effect_with::<Value>("reserve", &json!({ "once": "mine" }), &patient).await?;
        ctx.effect_with::<Value>("http.request", &json!({ "url": "http://a" }), &patient).await
    });
    let mut world = DurableWorld::<Keyed>::new();
    let key = |step: &mundi_sdk::testing::Step| step.intents[0].params["once"].as_str().unwrap_or_default().to_owned();
    let begun = world.event("order", 8, Some("a")).unwrap();
    assert!(key(&begun).ends_with(&format!("/order/a/0.1/{:x}", 0x0012_e103_14cd_b049_u64)), "{}", key(&begun));
    world.fail_effect("charge", "BUSY", "the answer was lost").unwrap();
    let row = String::from_utf8_lossy(&world.world().cells()["$fn/l/order/a/000001"]).into_owned();
    assert!(row.contains(&key(&begun)), "the next attempt has the params of the first: {row}");
    let mut again = world.fork();
    again.skip("1s").unwrap();
    let second = again.answer("charge", 1).unwrap();
    assert_eq!(key(&second), "mine", "one that the program gives stays");
    let third = again.answer("reserve", 1).unwrap();
    assert!(third.intents[0].params["headers"]["idempotency-key"].as_str().unwrap().contains("/order/a/0.3/"));
}

#[test]
fn a_branch_that_loses_a_race_is_withdrawn() {
    program!(Raced, |ctx: Ctx, _: Value| async move {
        let slow = Branch::of(|ctx: Ctx| async move {
            ctx.effect::<Value>("reserve", &1).await?;
            ctx.effect::<Value>("check", &2).await
        });
        let late = Branch::of(|ctx: Ctx| async move { ctx.sleep("1h")?.any().await });
        let first = ctx.race_branches([slow, late]).await?;
        ctx.effect::<Value>("charge", &first).await
    });
    let mut world = DurableWorld::<Raced>::new();
    world.run("order", (), "a").unwrap();
    world.answer("reserve", true).unwrap();
    assert_eq!(waits(&world), ["2 timer sleep", "3 effect check"]);
    let mut quick = world.fork();
    quick.answer("check", "fine").unwrap();
    assert_eq!((waits(&quick), quick.world().timers()), (vec!["4 effect charge".to_owned()], vec![]));
    world.skip("1h").unwrap();
    assert_eq!((waits(&world), world.world().open()), (vec!["4 effect charge".to_owned()], vec!["$fn/order/a/0.4"]));
    world.answer("charge", 7).unwrap();
    assert_eq!(world.instance("order", "a").unwrap().result, Some(json!(7)), "a value is a result, too");
}

#[test]
fn the_oldest_effect_is_answered_first() {
    program!(Many, |ctx: Ctx, _: Value| async move {
        ctx.all((0..12).map(|item| ctx.effect::<Value>("check", &item))).await
    });
    let mut world = DurableWorld::<Many>::new();
    world.run("order", (), "a").unwrap();
    (0..12).for_each(|item| drop(world.answer("check", item).unwrap()));
    assert_eq!(world.instance("order", "a").unwrap().result, Some(json!((0..12).collect::<Vec<_>>())));
}

#[test]
fn an_event_wakes_no_more_awaits_than_a_step_has_outputs_for() {
    program!(Wakes, |ctx: Ctx, order: u64| async move {
        ctx.event_where::<Value>("approve", &json!({ "even": order.is_multiple_of(2) })).await?;
        ctx.effect::<Value>("charge", &order).await
    });
    let mut world = DurableWorld::<Wakes>::new();
    let starts = 2 * u64::try_from(WOKEN_MAX).unwrap();
    (0..starts).for_each(|order| drop(world.run("order", order, &format!("o{order}")).unwrap()));
    let mut one_more = world.fork();
    assert_eq!(world.event("approve", json!({ "even": true }), None).unwrap().intents.len(), WOKEN_MAX);
    one_more.run("order", 2 * starts, "more").unwrap();
    let refused = one_more.event("approve", json!({ "even": true }), None).unwrap_err();
    assert_eq!(refused.code, "FUNCTIONS_FULL", "{refused}");
}
