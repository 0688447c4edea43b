"""A real server for the tests: `mundi dev` on a folder of its own, which can be killed and started again."""

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[3] / "target"))
BINARY = os.environ.get("MUNDI_BIN", str(TARGET / os.environ.get("MUNDI_PROFILE", "debug") / "mundi"))
SHOP = Path(__file__).parents[3] / "examples/order-saga/durable/rust"
T = TypeVar("T")


class Server:
    def __init__(self, *arguments: str, **environment: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mundi-client-")
        self.data = str(Path(self._folder.name) / "data")
        self.bind, self.arguments, self.environment = "127.0.0.1:0", arguments, environment
        self.url = ""

    def start(self) -> "Server":
        command = [BINARY, "dev", "--data", self.data, "--bind", self.bind, *self.arguments]
        environment = {**os.environ, **self.environment}
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.child.stderr is not None
        said = []
        for line in self.child.stderr:
            said.append(line)
            if found := re.search(r"API at (\S+)", line):
                self.url = found[1]
                self.bind = self.url.split("//")[1]
                threading.Thread(target=self.child.stderr.read, daemon=True).start()
                return self
        raise RuntimeError("the server ended:\n" + "".join(said))

    def mundi(self, *words: str) -> str:
        """The command line, on this server."""
        return subprocess.run([BINARY, *words], check=True, capture_output=True, text=True, env={**os.environ, "MUNDI_URL": self.url}).stdout

    def upload_shop(self) -> None:
        """A program with the durable function `order`, under the name `shop`."""
        self.mundi("program", "build", str(SHOP))
        self.mundi("program", "upload", str(SHOP), "--as", "shop")

    def kill(self) -> None:
        """kill -9."""
        self.child.kill()
        self.child.wait()

    def end(self) -> None:
        self.kill()
        self._folder.cleanup()


def until(ask: Callable[[], T], is_wanted: Callable[[T], bool] = bool) -> T:
    """Asks until the answer is as wanted; a minute without it is a failure."""
    began = time.monotonic()
    while not is_wanted(found := ask()):
        assert time.monotonic() - began < 60, f"it did not become as wanted: {found!r}"
        time.sleep(0.05)
    return found
