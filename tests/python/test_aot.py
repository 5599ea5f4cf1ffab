"""Compiling for TPUs that are not there: the process of libtpu's own, what is kept, and libtpu itself."""

import os
import threading
from pathlib import Path

import pytest
from native import ROOT, compile_c, needs_libtpu
from processes import run
from torch_pjrt import aot
from torch_pjrt.aot import _process
from torch_pjrt.aot._store import Store

FAKE = """"builtin.module"() ({
"func.func"() <{function_type = (tensor<2x3xf32>) -> (tensor<2x3xf32>), sym_name = "main"}> ({}) : () -> ()
}) : () -> ()
"""
PRODUCT = """module {{ func.func @main(%a: tensor<{n}x{n}x{type}>) -> tensor<{n}x{n}x{type}> {{
%b = stablehlo.dot %a, %a : (tensor<{n}x{n}x{type}>, tensor<{n}x{n}x{type}>) -> tensor<{n}x{n}x{type}>
return %b : tensor<{n}x{n}x{type}> }} }}"""


@pytest.fixture(scope="module")
def fake_libtpu(tmp_path_factory):
    sources = sorted((ROOT / "tests/fake_plugin").glob("*.c"))
    output = tmp_path_factory.mktemp("fake") / "fake.so"
    return compile_c(
        output,
        [path.relative_to(ROOT) for path in sources],
        ["include", "src", "tests/c"],
        "-shared",
        "-fPIC",
        "-lpthread",
    )


@pytest.fixture
def fake(fake_libtpu):
    """A compiler that does as the modules say: "fake.abort", "fake.hang"."""
    compiler = aot.Compiler("v6e:2x2", libtpu=fake_libtpu, n_threads=4, store=None)
    yield compiler
    compiler._service.close()


def child_of(compiler):
    return compiler._service._child.process.pid


# ---- targets and chips ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "n_chips", "n_devices"),
    [
        ("v6e:2x4", "v6e:2x4", 8, 8),
        ("v6e", "v6e:1x1", 1, 1),
        ("V5E:16x16", "v5e:16x16", 256, 256),
        ("v5p:2x2", "v5p:2x2x1", 4, 4),
        ("v4:2x2x1", "v4:2x2x1", 4, 4),
        ("ironwood:2x2x1", "tpu7x:2x2x1", 4, 8),
        ("v6e:2x4x1", "v6e:2x4", 8, 8),
    ],
)
def test_targets(text, name, n_chips, n_devices):
    target = aot.Target.parse(text)
    assert (target.name, target.n_chips, target.n_devices) == (name, n_chips, n_devices)


@pytest.mark.parametrize(
    "text", ["", "v6e:", "v9:2x2", "v6e:2x", "v6e:0x1", "v6e:2x2x2", "v5e:32x32", "v6e:2x4 x", "2x4"]
)
def test_what_is_no_target(text):
    with pytest.raises(ValueError, match="is no target"):
        aot.Target.parse(text)


def test_chips_have_every_figure():
    for chip in aot.CHIPS.values():
        figures = (chip.memory_bytes, chip.memory_bandwidth, chip.ici_bandwidth, chip.most_chips, chip.peak("bfloat16"))
        assert min(figures) > 0, chip.name
        assert chip.ici_links == 2 * chip.dims
        assert chip.peak("float32") * 6 == chip.peak("float32", "medium") == chip.peak("bfloat16")
        assert chip.source.startswith("https://cloud.google.com/tpu/docs/")


# ---- the process ----------------------------------------------------------------------------------------------------


def test_results_come_from_the_compiler(fake):
    assert fake.version == "fake 1" and fake.device_kind == "fake device"
    assert fake.device_ids == (0, 1, 2, 3) and fake.memory_bytes == 1000
    compiled = fake.compile(FAKE, serialized=True, optimized=True)
    assert compiled.memory == aot.Memory(1, 24, 24, 0, 2, -1)
    assert compiled.cost.flops == 8 and compiled.cost.optimal_seconds < 0
    assert compiled.serialized.endswith(FAKE.encode()) and compiled.optimized == FAKE.encode()
    assert not compiled.kept


def test_refusals_are_errors_and_the_process_goes_on(fake):
    child = child_of(fake)
    with pytest.raises(aot.CompileError, match="PJRT_Compile"):
        fake.compile("nothing")
    with pytest.raises(ValueError, match="device 9, which is none of the 4"):
        fake.compile(FAKE, aot.Options(device_ids=(9,)))
    with pytest.raises(ValueError, match="8 replicas"):
        fake.compile(FAKE, aot.Options(n_replicas=8))
    with pytest.raises(ValueError, match=r"tensor<\?xf32>"):
        fake.compile(FAKE.replace("2x3xf32", "?xf32"))
    fake.compile(FAKE)
    assert child_of(fake) == child


def test_an_abort_is_an_error_with_the_last_words(fake):
    child = child_of(fake)
    with pytest.raises(aot.CompilerCrash) as error:
        fake.compile(FAKE + "// fake.abort")
    assert "SIGABRT" in str(error.value) and "Check failed: id < limit (7 vs. 4)" in str(error.value)
    assert "all is well" not in str(error.value) and "@ 0x1" not in str(error.value)
    fake.compile(FAKE)
    assert child_of(fake) != child


def test_what_aborts_is_told_apart_from_what_was_beside_it(fake):
    good = [FAKE + f"// {i}" for i in range(12)]
    modules = good[:6] + [FAKE + "// fake.abort 1"] + good[6:] + [FAKE + "// fake.abort 2"]
    results = [fake.submit(module) for module in modules]
    crashed = [module for module, result in zip(modules, results, strict=True) if result.exception(timeout=60)]
    assert crashed == [FAKE + "// fake.abort 1", FAKE + "// fake.abort 2"]


def test_a_hang_ends_in_time(fake_libtpu):
    compiler = aot.Compiler("v6e:2x2", libtpu=fake_libtpu, n_threads=2, store=None, timeout=1)
    hanging = compiler.submit(FAKE + "// fake.hang")
    beside = [compiler.submit(FAKE + f"// {i}") for i in range(3)]
    with pytest.raises(aot.CompilerTimeout, match="in 1 s"):
        hanging.result(timeout=30)
    assert all(result.result(timeout=30).memory.temp_bytes == 2 for result in beside)
    compiler._service.close()


def test_a_request_that_meets_a_process_about_to_end_is_served_by_another(fake):
    for i in range(20):
        fake._service._child.end()  # what close() does, without its wait
        assert fake.compile(FAKE + f"// {i}").memory.temp_bytes == 2


@pytest.mark.parametrize("signal", [9, 15])
def test_a_process_that_was_killed_is_started_again(fake, signal):
    os.kill(child_of(fake), signal)
    assert fake.compile(FAKE).memory.temp_bytes == 2


def test_children_are_replaced(fake, monkeypatch):
    monkeypatch.setattr(_process, "REQUESTS_OF_ONE_CHILD", 5)
    children = set()
    for i in range(12):
        fake.compile(FAKE + f"// {i}")
        children.add(child_of(fake))
    assert len(children) >= 2


def test_many_threads(fake):
    failures = []

    def work(thread):
        for i in range(20):
            if fake.compile(FAKE + f"// {thread} {i}").memory.temp_bytes != 2:
                failures.append((thread, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_equal_programs_that_are_compiled_at_once_are_one(fake):
    served = fake._service._child.n_served
    results = {fake.submit(FAKE + "// one").result().seconds for _ in range(20)}
    assert len(results) == 1 and fake._service._child.n_served == served + 1


def test_a_forked_process_has_its_own(fake):
    fake.compile(FAKE)
    parents = child_of(fake)
    pid = os.fork()
    if pid == 0:
        try:
            fake.compile(FAKE + "// forked")
            os._exit(0 if child_of(fake) != parents else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    fake.compile(FAKE + "// after")
    assert child_of(fake) == parents


def test_what_is_no_library(tmp_path):
    path = tmp_path / "libtpu.so"
    with pytest.raises(aot.Unavailable, match="cannot read the PJRT plugin"):
        aot.Compiler("v6e", libtpu=path, store=None)
    path.write_bytes(b"no library")
    with pytest.raises(aot.Unavailable, match="cannot load the PJRT plugin"):
        aot.Compiler("v6e", libtpu=path, store=None)


def test_the_environment_of_this_machine_stays_out(monkeypatch):
    for name in ("TPU_VISIBLE_CHIPS", "XLA_FLAGS", "MEGASCALE_COORDINATOR_ADDRESS"):
        monkeypatch.setenv(name, "--no_such_flag")
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_flag=true")
    environment = _process.child_environment()
    assert not {"TPU_VISIBLE_CHIPS", "XLA_FLAGS", "MEGASCALE_COORDINATOR_ADDRESS"} & set(environment)
    assert environment["TPU_SKIP_MDS_QUERY"] == "1" and environment["LIBTPU_INIT_ARGS"] == "--xla_tpu_flag=true"


def test_it_needs_no_torch_and_ends_with_its_caller(fake_libtpu):
    code = f"""
import sys
from torch_pjrt import aot
compiler = aot.Compiler("v6e:2x2", libtpu={str(fake_libtpu)!r}, store=None)
assert "torch" not in sys.modules and "numpy" not in sys.modules
hanging = compiler.submit({FAKE + "// fake.hang"!r})
print(compiler._service._child.process.pid)
"""
    pid = int(run(code).stdout)
    assert not Path(f"/proc/{pid}").exists()


# ---- what is kept ---------------------------------------------------------------------------------------------------


def test_results_are_kept(fake_libtpu, tmp_path):
    def compiler(target="v6e:2x2"):
        from torch_pjrt.aot.compiler import _store

        _store.cache_clear()
        return aot.Compiler(target, libtpu=fake_libtpu, store=tmp_path / "kept" / "results.sqlite")

    first = compiler()
    assert not first.compile(FAKE).kept and first.compile(FAKE).kept
    assert first.compile(FAKE + "#loc = loc(unknown)\n").kept
    assert not first.compile(FAKE, aot.Options(portable=True)).kept
    with pytest.raises(aot.CompileError):
        first.compile("nothing")
    with pytest.raises(aot.CompilerCrash):
        first.compile(FAKE + "// fake.abort")
    second = compiler()
    served = second._service._child.n_served
    assert second.compile(FAKE).kept
    assert second.compile(FAKE).memory == first.compile(FAKE).memory
    with pytest.raises(aot.CompileError):
        second.compile("nothing")
    with pytest.raises(aot.CompilerCrash, match="Check failed"):
        second.compile(FAKE + "// fake.abort")
    assert second._service._child.n_served == served
    assert not compiler("v6e:1x1").compile(FAKE).kept
    # The program itself is kept once somebody wants it.
    third = compiler()
    assert not third.compile(FAKE, serialized=True).kept
    again = compiler().compile(FAKE, serialized=True)
    assert again.kept and again.serialized.endswith(FAKE.encode())


def test_a_store_is_bounded(tmp_path):
    store = Store(tmp_path / "results.sqlite", most_bytes=100_000)
    for i in range(300):
        store.put(str(i).encode(), {"i": i}, os.urandom(2000), None)
    total = store._connection.execute("SELECT SUM(n_bytes) FROM result").fetchone()[0]
    assert 50_000 < total < 300_000
    assert store.get(b"299")[0] == {"i": 299} and len(store.get(b"299")[1]) == 2000


def test_a_store_that_cannot_be_used_keeps_nothing(tmp_path):
    path = tmp_path / "results.sqlite"
    path.write_bytes(b"no database" * 1000)
    store = Store(path, most_bytes=1000)
    store.put(b"key", {}, None, None)
    assert store.get(b"key") is None and store.error is not None


# ---- libtpu ---------------------------------------------------------------------------------------------------------


@needs_libtpu
@pytest.mark.parametrize("target", ["v4:2x2x1", "v5e", "v5p:2x2x1", "v6e:2x4", "tpu7x:2x2x1"])
def test_libtpu_compiles_for(target):
    compiler = aot.Compiler(target, store=None)
    chip = compiler.target.chip
    assert len(compiler.device_ids) == compiler.target.n_devices
    assert compiler.device_kind == chip.kind
    share = chip.memory_bytes / chip.devices_per_chip
    assert 0.93 * share < compiler.memory_bytes <= 1.01 * share
    compiled = compiler.compile(PRODUCT.format(n=256, type="bf16"), serialized=True)
    assert compiled.memory.argument_bytes == compiled.memory.output_bytes == 256 * 256 * 2
    assert 2 * 256**3 <= compiled.cost.flops < 2.2 * 256**3
    assert len(compiled.serialized) > 1000


@needs_libtpu
def test_libtpu_says_what_does_not_fit():
    with pytest.raises(aot.DoesNotFit, match="exceeds available HBM"):
        aot.Compiler("v5e", store=None).compile(PRODUCT.format(n=65536, type="f32"))


@needs_libtpu
def test_libtpu_knows_which_grids_there_are():
    with pytest.raises(ValueError, match=r"libtpu has no TPU v5e:3x5"):
        aot.Compiler("v5e:3x5", store=None)


# ---- optimized programs ---------------------------------------------------------------------------------------------

DONATED = """module { func.func @main(%a: tensor<8x256xf32> {tf.aliasing_output = 0 : i32}, %w: tensor<256x256xf32>)
    -> (tensor<8x256xf32>, tensor<256xf32>) {
%z = stablehlo.constant dense<0.0> : tensor<f32>
%b = stablehlo.dot %a, %w : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
%s = stablehlo.reduce(%w init: %z) applies stablehlo.add across dimensions = [0] : (tensor<256x256xf32>, tensor<f32>)
    -> tensor<256xf32>
return %b, %s : tensor<8x256xf32>, tensor<256xf32> } }"""


@needs_libtpu
def test_optimized_programs_are_read():
    compiled = aot.Compiler("v6e", store=None).compile(DONATED, optimized=True)
    program = compiled.program()
    parameters = sorted((i for i in program.entry.instructions if i.opcode == "parameter"), key=lambda i: i.parameter)
    assert [(p.shape.dtype, p.shape.sizes) for p in parameters] == [("f32", (8, 256)), ("f32", (256, 256))]
    root = program.entry.root
    assert root.shape.dtype == "tuple" and [part.sizes for part in root.shape.parts] == [(8, 256), (256,)]
    assert root.shape.n_bytes == (8 * 256 + 256) * 4
    assert [(alias.output, alias.parameter) for alias in program.aliases] == [((0,), 0)]
    assert compiled.memory.alias_bytes == 8 * 256 * 4
    opcodes = {i.opcode for i in program.instructions}
    assert {"convolution", "reduce", "parameter"} <= opcodes
    for computation in program.computations:
        for instruction in computation.instructions:
            assert len(computation.operands(instruction)) == len(instruction.operand_ids)
            assert len(program.called(instruction)) == len(instruction.called_ids)
    text = str(program)
    assert text.startswith("HloModule main\n") and "ENTRY %" in text and "ROOT %" in text


def test_damaged_programs_are_errors():
    for data in (b"", b"\x0a\x05ab", b"\xff" * 20, bytes(range(256))):
        with pytest.raises(ValueError, match="not an HLO module"):
            aot.hlo.Module.parse(data)
