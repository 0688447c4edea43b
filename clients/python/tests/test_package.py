"""What is published: it builds, and the wheel works in an environment of its own."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_is_generated_is_up_to_date() -> None:
    subprocess.run([sys.executable, "generate.py", "--check"], cwd=ROOT, check=True)


def test_the_types_hold() -> None:
    subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, check=True)


def test_the_package_is_built_and_its_wheel_is_imported(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    [wheel] = tmp_path.glob("*.whl")
    assert list(tmp_path.glob("*.tar.gz"))
    names = zipfile.ZipFile(wheel).namelist()
    assert "mundi_client/py.typed" in names and "mundi_client/_sync/client.py" in names
    assert not [name for name in names if "test" in name]
    venv.create(tmp_path / "venv", with_pip=False, system_site_packages=False)
    site = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    python = tmp_path / "venv" / "bin" / "python"
    # httpx comes from the environment of the tests; everything else from the wheel.
    tools = next(path for path in sys.path if path.endswith("site-packages"))
    program = f"import sys; sys.path.append({tools!r}); import mundi_client; print(mundi_client.__file__, mundi_client.Mundi)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert str(site) in ran.stdout
