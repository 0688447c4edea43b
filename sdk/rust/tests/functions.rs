//! Durable functions: what they may do, what is on record, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_sdk::{
    Event, Failure, Program, Value, World,
    functions::{Ctx, Done, EffectOptions, FunctionError, Functions, Handled},
    testing::{DurableWorld, for_each_crash},
};
use serde_json::json;

const OFFER: &str = r#"{"events": {"order": true, "approve": true, "note": true}, "queries": {"count": true},
    "effects": {"charge": {}, "refund": {}, "reserve": {}, "check": {}, "world.call": {}, "fabric.send": {}}}"#;

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
