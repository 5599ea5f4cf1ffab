"""Compiled programs that are kept in a folder from one process to the next."""

import shutil
import subprocess
import sys

import pytest
from processes import run

CODE = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.GELU(), torch.nn.Linear(7, 3)).to("tpu")
torch.manual_seed(0)
x = torch.rand(4, 5, device="tpu")
model(x).softmax(-1).square().sum().backward()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.sub_(parameter.grad, alpha=0.1)
value = float(x.sum())
stats = torch.tpu.compile_stats()
print(stats["programs"], stats["loaded"], value)
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def numbers(folder, code=CODE, **environment: str) -> tuple[int, int, float]:
    finished = run(code, TORCH_PJRT_CACHE_DIR=str(folder), **environment)
    assert finished.stderr == "", "nothing of it is the user's business"
    programs, loaded, value = finished.stdout.split()
    return int(programs), int(loaded), float(value)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A folder after one process, and its numbers."""
    folder = tmp_path_factory.mktemp("first") / "cache"
    return folder, *numbers(folder)


@pytest.fixture
def filled(first, folder):
    """A copy of that, to be changed."""
    shutil.copytree(first[0], folder)
    return folder, first[1], first[3]


def test_a_second_process_compiles_nothing(first):
    folder, programs, loaded, value = first
    assert programs > 20 and loaded == 0
    assert numbers(folder) == (programs, programs, value)
    moved = "\n\n\n# the same code on other lines\n" + CODE
    assert numbers(folder, moved) == (programs, programs, value)


def test_damaged_files_are_compiled_again(filled):
    folder, programs, value = filled
    files = sorted(folder.rglob("*.program"))
    assert len(files) == programs
    for k, file in enumerate(files):
        data = bytearray(file.read_bytes())
        if k % 3 == 0:
            data[len(data) // 2] ^= 1
        elif k % 3 == 1:
            del data[len(data) * 2 // 3 :]
        file.write_bytes(data)
    good = len(range(2, programs, 3))
    assert numbers(folder) == (programs, good, value)
    assert numbers(folder) == (programs, programs, value)


def test_a_folder_that_cannot_be_made_costs_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    finished = run(CODE, TORCH_PJRT_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert finished.stderr.count("\n") == 1 and "compiled programs are not kept" in finished.stderr
    assert finished.stdout.split()[1] == "0"


def test_no_folder_when_turned_off(tmp_path):
    finished = run(CODE, TORCH_PJRT_CACHE_DIR="none", HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert finished.stdout.split()[1] == "0" and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_the_folder_is_the_users_by_default(tmp_path, variable):
    environment = {"HOME": "", "XDG_CACHE_HOME": ""} | {variable: str(tmp_path)}
    run("import torch; torch.ones(3, device='tpu').exp().cpu()", **environment)
    folder = tmp_path / (".cache/torch_pjrt" if variable == "HOME" else "torch_pjrt")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*.program"))


def test_hosts_share_a_folder(folder, tmp_path):
    shared = str(tmp_path / "shared")
    programs, loaded, value = numbers(folder, TORCH_PJRT_CACHE_SHARED_DIR=shared)
    assert loaded == 0
    other = tmp_path / "another host"
    assert numbers(other, TORCH_PJRT_CACHE_SHARED_DIR=shared) == (programs, programs, value)
    assert numbers(other) == (programs, programs, value), "what was fetched is kept near"


def test_processes_that_start_together_compile_each_program_once(folder, monkeypatch):
    monkeypatch.setenv("TORCH_PJRT_CACHE_DIR", str(folder))
    started = [subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    outputs = [process.communicate(timeout=300)[0].split() for process in started]
    assert all(process.returncode == 0 for process in started)
    programs = int(outputs[0][0])
    assert sum(int(made) - int(loaded) for made, loaded, _ in outputs) == programs
    assert len({value for _, _, value in outputs}) == 1


# ---- torch_pjrt cache -----------------------------------------------------------------------------------------------


def command(*words: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "torch_pjrt", "cache", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


def test_the_command(filled, tmp_path):
    folder, programs, value = filled
    listed = command("--dir", folder, "ls").stdout.splitlines()
    assert len(listed) == programs and any("(tensor<4x5xf32>" in line and "this hour" in line for line in listed)
    assert f"{programs} programs" in command("--dir", folder, "stats").stdout

    archive, other = tmp_path / "programs.tar", tmp_path / "other"
    assert f"{programs} programs" in command("--dir", folder, "export", archive).stdout
    assert f"{programs} programs" in command("--dir", other, "import", archive).stdout
    assert numbers(other) == (programs, programs, value)

    n_bytes = sum(file.stat().st_size for file in other.rglob("*.program"))
    command("--dir", other, "prune", "--bytes", n_bytes)
    assert len(list(other.rglob("*.program"))) == programs
    command("--dir", other, "prune", "--bytes", n_bytes - 1)
    stay = sum(file.stat().st_size for file in other.rglob("*.program"))
    assert 0 < stay <= n_bytes * 3 // 4

    victim = next(folder.rglob("*.program"))
    victim.write_bytes(b"cut")
    assert "another version: 1;" in command("--dir", folder, "stats").stdout
    assert f"{programs} programs removed" in command("--dir", folder, "clear").stdout
    assert not list(folder.rglob("*.program"))


def test_the_command_takes_no_other_files(folder, tmp_path):
    import io
    import tarfile

    archive = tmp_path / "bad.tar"
    with tarfile.open(archive, "w") as tar:
        member = tarfile.TarInfo("../escaped.program")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"bad"))
    finished = command("--dir", folder, "import", archive)
    assert finished.returncode == 1 and "is no program" in finished.stderr
    assert not (tmp_path / "escaped.program").exists()
    assert command("--dir", folder, "import", tmp_path / "missing.tar").returncode == 1
    assert "0 programs" in command("--dir", tmp_path / "nowhere", "stats").stdout
