"""Carries out what orders ask for: payments, refunds and stock. Only the standard library is needed.

Nobody can pay more than 10,000 cents, and there are no unicorns.
"""
import json, os, time, urllib.error, urllib.request

URL = os.environ.get("MUNDI_URL", "http://127.0.0.1:7600") + "/v1/u/default/tasks/"


def ask(what, body):
    request = urllib.request.Request(URL + what, json.dumps(body).encode())
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError:
            raise  # it was refused
        except OSError:
            time.sleep(1)  # the server is not there yet, or is started again: to ask twice does no harm


def charge(task):
    if task["params"]["cents"] > 10_000:
        raise ValueError("the card was refused")
    # `intent` is the same for each attempt at one effect: a payment service takes it as the idempotency key.
    return {"charge": "charge-" + task["intent"][-8:]}


def refund(task):
    return {"refunded": task["params"]["charge"]}


def reserve(task):
    if task["params"]["sku"] == "unicorn":
        raise ValueError("there is none")
    return {"reserved": task["params"]["quantity"]}


KINDS = {"payment.charge": charge, "payment.refund": refund, "stock.reserve": reserve}

while True:
    for task in ask("claim", {"kinds": list(KINDS), "wait": "30s", "ttl": "30s"}):
        try:
            try:
                result = KINDS[task["kind"]](task)
            except ValueError as refused:
                ask("fail", {"claim": task["claim"], "reason": str(refused), "retryable": False})
            else:
                ask("complete", {"claim": task["claim"], "result": result})
        except urllib.error.HTTPError as lost:  # the world withdrew the effect, or the claim ran out
            print(lost, lost.read().decode())
