"""src/pjrt/abi.h against pypjrt's description of the PJRT C API, which was made from the official headers.

The declarations are read from abi.h, so a struct, field or number that is added there is compared without being listed
here. The compiler says where a field lies; ctypes says where it should.
"""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ABI = (ROOT / "src" / "pjrt" / "abi.h").read_text()

STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\n\} \1;", re.S)
ENUMERATOR = re.compile(r"\b((?:PJRT|XLA_FFI)_\w+) = (\d+)")
HEAD = ["struct_size", "extension_start"]


def flatten(name: str) -> str:
    """pjrt_client_create_args and PJRT_Client_Create_Args alike; the interface's kConstants lose their k."""
    return re.sub(r"_k(?=[A-Z])", "_", name).replace("_", "").lower()


def strip_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def fields_of(body: str) -> list[str]:
    names: list[str] = []
    for declaration in re.sub(r"union \{|\}", "", body).split(";"):
        declaration = declaration.strip()
        if not declaration:
            continue
        if declaration in ("PJRT_HEAD", "XLA_FFI_HEAD"):
            names += HEAD
        elif function := re.match(r"PJRT_FUNCTION\((\w+)\)", declaration):
            names.append(function[1])
        elif pointer := re.search(r"\(\*(\w+)\)\(", declaration):
            names.append(pointer[1])
        else:
            names.append(re.sub(r"\[\d+\]$", "", declaration).split()[-1].lstrip("*"))
    return names


def structs() -> dict[str, list[str]]:
    return {name: fields_of(body) for name, body in STRUCT.findall(strip_comments(ABI))}


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return pytest.importorskip("pypjrt._abi.pjrt_0_114", reason="pip install pypjrt")


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the compiler makes of abi.h: "struct" to its size, "struct.field" to its offset."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    lines = []
    for struct, fields in structs().items():
        lines.append(f'    printf("{struct} %zu\\n", sizeof({struct}));')
        lines += [f'    printf("{struct}.{field} %zu\\n", offsetof({struct}, {field}));' for field in fields]
    folder = tmp_path_factory.mktemp("abi")
    source = folder / "layout.c"
    source.write_text('#include <stdio.h>\n#include "pjrt/abi.h"\nint main(void) {\n' + "\n".join(lines) + "\n}\n")
    subprocess.run([compiler, "-std=c11", f"-I{ROOT / 'src'}", source, "-o", folder / "layout"], check=True, timeout=60)
    output = subprocess.run([folder / "layout"], check=True, capture_output=True, text=True, timeout=60).stdout
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


def test_the_declarations_are_found() -> None:
    found = structs()
    assert len(found) == len(re.findall(r"^typedef struct \w+ \{", ABI, re.M)) > 40
    assert found["pjrt_event_on_ready_args"] == [*HEAD, "event", "callback", "user_arg"]
    assert found["pjrt_named_value"][-6:-1] == [
        "string_value",
        "int64_value",
        "int64_array_value",
        "float_value",
        "bool_value",
    ]
    assert "loaded_executable_execute" in found["pjrt_api"]


def test_sizes_and_offsets(reference: ModuleType, layout: dict[str, int]) -> None:
    classes = {
        flatten(name): value
        for name, value in vars(reference).items()
        if isinstance(value, type) and issubclass(value, ctypes.Structure)
    }
    wrong, n_compared = [], 0
    for struct, fields in structs().items():
        if struct == "pjrt_api":
            continue
        expected = classes[flatten(struct)]
        if layout[struct] != ctypes.sizeof(expected):
            wrong.append(f"{struct}: {layout[struct]} bytes, expected {ctypes.sizeof(expected)}")
        for field in fields:
            if field.startswith("unused_"):
                continue
            n_compared += 1
            offset = getattr(expected, field).offset
            if layout[f"{struct}.{field}"] != offset:
                wrong.append(f"{struct}.{field}: at {layout[f'{struct}.{field}']}, expected {offset}")
    assert not wrong, "\n".join(wrong)
    assert n_compared > 150


def test_function_table(reference: ModuleType, layout: dict[str, int]) -> None:
    slots = {flatten(name.removeprefix("PJRT_")): slot for name, slot in reference.SLOT.items()}
    pointer = ctypes.sizeof(ctypes.c_void_p)
    wrong = []
    for field in structs()["pjrt_api"]:
        if field in (*HEAD, "version"):
            continue
        # A run of unused entries says in its name where it begins.
        number = re.fullmatch(r"unused_(\d+)", field)
        slot = int(number[1]) if number else slots[flatten(field)]
        expected = reference.VTABLE_OFFSET + slot * pointer
        if layout[f"pjrt_api.{field}"] != expected:
            wrong.append(f"{field}: at {layout[f'pjrt_api.{field}']}, expected {expected}")
    assert not wrong, "\n".join(wrong)
    assert layout["pjrt_api"] == reference.PJRT_Api_STRUCT_SIZE
    assert layout["pjrt_api.version"] + layout["pjrt_api_version"] == reference.VTABLE_OFFSET


def test_numbers(reference: ModuleType) -> None:
    constants = {flatten(name): value for name, value in vars(reference).items() if isinstance(value, int)}
    enumerators = ENUMERATOR.findall(strip_comments(ABI))
    assert len(enumerators) > 40
    wrong = [
        f"{name} = {value}, expected {constants.get(flatten(name))}"
        for name, value in enumerators
        if constants.get(flatten(name)) != int(value)
    ]
    assert not wrong, "\n".join(wrong)


def test_option_fields(reference: ModuleType) -> None:
    """The field numbers of compile options (src/pjrt/options.c)."""
    source = (ROOT / "src" / "pjrt" / "options.c").read_text()
    names = {
        "BUILD_DEVICE_ORDINAL": "device_ordinal",
        "BUILD_REPLICAS": "num_replicas",
        "BUILD_PARTITIONS": "num_partitions",
        "BUILD_SPMD": "use_spmd_partitioning",
        "BUILD_ASSIGNMENT": "device_assignment",
        "BUILD_SHARDY": "use_shardy_partitioner",
        "BUILD_OPTIMIZATION_LEVEL": "optimization_level",
        "FIELD_BUILD": "executable_build_options",
        "FIELD_PORTABLE": "compile_portable_executable",
        "FIELD_OVERRIDES": "env_option_overrides",
    }
    found = dict(re.findall(r"\b((?:BUILD|FIELD)_\w+) = (\d+)", source))
    assert found.keys() == names.keys()
    for enumerator, field in names.items():
        message = "ExecutableBuildOptionsProto" if enumerator.startswith("BUILD") else "CompileOptionsProto"
        assert int(found[enumerator]) == reference.PROTO_FIELDS[message][field], enumerator
