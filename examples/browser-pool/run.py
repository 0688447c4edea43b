"""Thirty agents share ten browsers. One hangs and is revoked, one lies about its epoch; no browser has two drivers."""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request

import browser

API = os.environ.get("MUNDI_URL", "http://127.0.0.1:7600") + "/v1/u/default/pools"
BROWSERS = [f"browser-{n}" for n in range(10)]
AGENTS, TURNS = 30, 3


def post(url, body=None, headers={}):
    request = urllib.request.Request(url, json.dumps(body or {}).encode(), {"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def command(verb, **form):
    """Sends a command until its outcome is definite, always under the same operation id."""
    while True:
        try:
            status, answer = post(f"{API}/browsers/{verb}", form)
            if status == 200 or answer.get("outcome") == "definite":
                return answer
        except OSError:
            pass
        time.sleep(0.05)


class Agent:
    def __init__(self, number, server):
        self.name, self.server = f"agent-{number}", server
        self.address = f"http://127.0.0.1:{server.server_port}"

    def drive(self, lease, epoch):
        fence = {"Mundi-Lease": lease["lease_id"], "Mundi-Lease-Epoch": str(epoch)}
        return post(f"{self.address}/{self.browser}", headers=fence)[0] == 200

    def lease(self, turn):
        """Waits in the pool's queue for any browser, and activates the lease."""
        form = {"label": "browser", "holder": self.name, "ttl_slots": 600, "wait": True}
        lease = command("enqueue", **form, operation_id=f"{self.name}/{turn}/enqueue")
        while "lease_id" not in lease:  # sent again, it is told its ticket
            read = json.load(urllib.request.urlopen(f"{API}/browsers/tickets/{lease['ticket']}"))["ticket"]
            lease = {**lease, **({"lease_id": read["lease_id"]} if read["lease_id"] else {})}
            time.sleep(0.05)
        resource = json.load(urllib.request.urlopen(f"{API}/browsers/leases/{lease['lease_id']}"))["lease"]["resource_ids"][0]
        self.browser = json.load(urllib.request.urlopen(f"{API}/browsers/resources/{resource}"))["resource"]["name"]
        self.holder_command("activate", lease, 1, turn)
        return lease

    def holder_command(self, verb, lease, epoch, turn):
        form = {"lease_id": lease["lease_id"], "lease_epoch": epoch, "holder": self.name}
        return command(verb, **form, operation_id=f"{self.name}/{turn}/{verb}/{epoch}")

    def work(self):
        for turn in range(TURNS):
            lease = self.lease(turn)
            assert self.drive(lease, 1), f"{self.name} holds {self.browser} and is refused"
            assert self.holder_command("release", lease, 1, turn)["result"] == "ok"


def hangs(agent, results):
    """It never releases. An operator revokes its lease, waits, and reclaims the browser; later the agent wakes up."""
    lease = agent.lease("hang")
    agent.drive(lease, 1)
    command("revoke", lease_id=lease["lease_id"], operation_id="operator/revoke")
    results["stale"] = agent.holder_command("release", lease, 1, "hang")["result"]
    command("reclaim", lease_id=lease["lease_id"], operation_id="operator/reclaim")
    taken = agent.browser
    while not any(fence[0] > lease["lease_id"] for fence, _ in agent.server.browsers[taken]["log"]):
        other = Agent(100, agent.server)  # until someone else drives the same browser
        other.browser = taken
        form = {"resources": [taken], "holder": other.name, "ttl_slots": 600}
        next_lease = command("reserve", **form)
        if next_lease.get("result") == "ok":
            other.holder_command("activate", next_lease, 1, next_lease["lease_id"])
            other.drive(next_lease, 1)
            other.holder_command("release", next_lease, 1, next_lease["lease_id"])
        time.sleep(0.05)
    results["hung_refused_by_browser"] = not agent.drive(lease, 1)


def lies(agent, results):
    """It claims an epoch that it was never given."""
    lease = agent.lease("lie")
    results["lie"] = agent.holder_command("release", lease, 7, "lie")["result"]
    agent.holder_command("release", lease, 1, "lie")


def main():
    server, results, failed = browser.start(BROWSERS), {}, []
    def guarded(task):
        def run():
            try:
                task()
            except BaseException as error:
                failed.append(error)
        thread = threading.Thread(target=run)
        thread.start()
        return thread

    agents = [Agent(number, server) for number in range(AGENTS)]
    threads = [guarded(agent.work) for agent in agents[2:]]
    threads += [guarded(lambda: hangs(agents[0], results)), guarded(lambda: lies(agents[1], results))]
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    # Each browser's own log: the pairs that it accepted never go back.
    for name, state in server.browsers.items():
        accepted = [fence for fence, ok in state["log"] if ok]
        assert accepted == sorted(accepted), f"{name} was driven by a stale holder"
    drives = sum(len(state["log"]) for state in server.browsers.values())
    print(json.dumps({"agents": AGENTS, "enough_drives": drives >= (AGENTS - 2) * TURNS, **results}, sort_keys=True))


if __name__ == "__main__":
    sys.exit(main())
