//! The kinds that come with Mundi: params as adapters read them, receipts as adapters give them.

use mundi_sdk::{
    Bytes, Cause, Event, Failure, Program, Status, World,
    kinds::{BlobPut, EffectError, EffectErrorKind, HttpRequest, HttpResponse},
    testing::TestWorld,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

struct Fetches;

impl Program for Fetches {
    const OFFER: &'static str = r#"{"events": {"go": true}, "effects": {"http.request": {}, "blob.put": {}}}"#;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        if !matches!(event.cause, Cause::Receipt { .. }) {
            world.ask(&BlobPut { bytes: Bytes(vec![0, 255]) }, "blob")?;
            return world.ask(&HttpRequest::post_json("http://a", &json!({ "q": 1 }))?, "http");
        }
        match event.receipt::<HttpRequest>()? {
            Ok(answer) => world
                .put("read", &(answer.status, answer.is_ok(), answer.text()?, answer.json::<Value>()?, &answer.body)),
            Err(error) => world.put("failed", &error.code),
        }
    }
}

#[test]
fn a_program_tells_apart_why_an_effect_was_not_carried_out() {
    for (code, kind) in [
        ("EFFECT_CANCELLED", EffectErrorKind::Cancelled),
        ("EFFECT_SANDBOXED", EffectErrorKind::Sandboxed),
        ("EFFECT_NOT_RECORDED", EffectErrorKind::NotRecorded),
        ("EFFECT_DENIED", EffectErrorKind::Denied),
        ("UNIVERSE_DENIED", EffectErrorKind::Denied),
        ("EFFECT_TIMEOUT", EffectErrorKind::TimedOut),
        ("EFFECT_CLAIM_EXPIRED", EffectErrorKind::TimedOut),
        ("CALL_TIMEOUT", EffectErrorKind::TimedOut),
        ("CARD_DECLINED", EffectErrorKind::Failed),
    ] {
        assert_eq!(EffectError::new(code, "").kind(), kind, "{code}");
    }
}

#[test]
fn the_answer_of_a_server_is_read_and_one_that_no_server_gives_is_refused() {
    let mut world = TestWorld::<Fetches>::new();
    let step = world.send("go", ()).unwrap();
    assert_eq!(step.intents[0].read::<BlobPut>().unwrap().bytes.0, [0, 255]);
    let asked: HttpRequest = step.intents[1].read().unwrap();
    assert_eq!((asked.method.as_deref(), asked.body.unwrap().text().unwrap()), (Some("POST"), r#"{"q":1}"#));
    let text = json!({ "status": 200, "headers": {}, "body": "text" });
    assert_eq!(world.receipt("http", Status::Ok, text).unwrap_err().code, "RECEIPT_INVALID");
    let body = Bytes::from(r#"{"n":1}"#);
    world
        .receipt("http", Status::Ok, HttpResponse { status: 200, headers: BTreeMap::new(), body: body.clone() })
        .unwrap();
    assert_eq!(world.cell("read").unwrap(), json!([200, true, r#"{"n":1}"#, { "n": 1 }, body]));
    let other = world.fail("blob", "EFFECT_FAILED", "no").unwrap_err();
    assert!(other.reason.contains("`blob.put`, not of `http.request`"), "{other}");
    world.send("go", ()).unwrap();
    world.fail("http", "EFFECT_DENIED", "no").unwrap();
    assert_eq!(world.cell("failed").unwrap(), "EFFECT_DENIED");
}
