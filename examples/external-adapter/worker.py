"""An adapter worker in Python, with nothing but the standard library: carries out effects of the kind `external.task`.

    MUNDI_URL=http://127.0.0.1:7600 python3 worker.py

With MUNDI_SIGNING_SEED (64 hex digits) it signs its receipts; the server has the public key of `python` then.
"""
import json, os, sys, threading, time, urllib.error, urllib.request

URL = os.environ.get("MUNDI_URL", "http://127.0.0.1:7600") + "/v1/u/default/tasks/"
TOKEN = os.environ.get("MUNDI_TOKEN")
SEED = os.environ.get("MUNDI_SIGNING_SEED")


def ask(what, body):
    headers = {"authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    request = urllib.request.Request(URL + what, json.dumps(body).encode(), headers)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError:
            raise  # it was refused
        except OSError:
            time.sleep(1)  # the server is not there: it starts, or starts again. To ask twice does no harm.


def carry_out(task):
    # `intent` is the same for each attempt: hand it on as the idempotency key of whatever is done here.
    if task["attempt"] < task["params"].get("succeeds_at", 1):
        raise RuntimeError("not yet")
    return {"doubled": task["params"]["n"] * 2}


def signed(task, status, payload):
    if SEED is None:
        return {"adapter": "python"}
    import signing

    fields = [task[name] for name in ("universe", "world", "intent", "kind")]
    statement = signing.statement(*fields, status, signing.payload_hash(payload), "python")
    return {"adapter": "python", "signature": signing.sign(bytes.fromhex(SEED), statement).hex()}


def answer(task):
    try:
        result = carry_out(task)
    except (RuntimeError, KeyError, TypeError) as error:
        failed = {"reason": str(error), "retryable": isinstance(error, RuntimeError)}
        ask("fail", {"claim": task["claim"], **failed, **signed(task, "error", str(error))})
    else:
        ask("complete", {"claim": task["claim"], "result": result, **signed(task, "ok", result)})


def keep(claim, done):
    while not done.wait(10):  # well within the ttl of the claim
        ask("heartbeat", {"claims": [claim], "ttl": "30s"})


while True:
    for task in ask("claim", {"kinds": ["external.task"], "wait": "30s", "ttl": "30s"}):
        done = threading.Event()
        threading.Thread(target=keep, args=(task["claim"], done), daemon=True).start()
        try:
            answer(task)
        except urllib.error.HTTPError as refused:  # the claim was lost: somebody else has it now
            print(refused, refused.read().decode(), file=sys.stderr)
        finally:
            done.set()
