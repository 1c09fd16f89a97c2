import gc
import subprocess
import sys

import pytest

from fathom import FathomError
from fathom.system.lock import lock_folder

HOLD = """
import sys, time
from pathlib import Path
from fathom.system.lock import lock_folder
lock = lock_folder(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder's lock."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_process_is_refused_until_the_first_is_killed(tmp_path, holder):
    with pytest.raises(FathomError, match="another process is writing to"):
        lock_folder(tmp_path)
    holder.kill()
    holder.wait()
    assert lock_folder(tmp_path)


def test_a_process_may_lock_its_own_folder_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    first = lock_folder(tmp_path)
    assert lock_folder(tmp_path.relative_to(tmp_path.parent)) is first


def test_the_lock_is_released_with_its_last_holder(tmp_path):
    lock = lock_folder(tmp_path)
    refused = subprocess.run(
        [sys.executable, "-c", HOLD.replace("60", "0"), str(tmp_path)], capture_output=True
    )
    assert refused.returncode != 0
    del lock
    gc.collect()
    subprocess.run([sys.executable, "-c", HOLD.replace("60", "0"), str(tmp_path)], check=True)
