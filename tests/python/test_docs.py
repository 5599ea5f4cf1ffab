"""The pages of docs/ that are made from the tables say what the tables say (`make docs` writes them)."""

import make_docs
import optable
import pytest
import torch


def read(name: str) -> str:
    return (make_docs.DOCS / name).read_text()


def test_settings_are_current() -> None:
    assert read("settings.md") == make_docs.settings_page(), "run `make docs`"


def test_operators_are_current() -> None:
    page = read("operators.md")
    if f"PyTorch {torch.__version__.partition('+')[0]}. -->" not in page:
        pytest.skip("the page is of another version of PyTorch")
    assert page == make_docs.operators_page(), "run `make docs`"


def test_every_setting_and_row_is_there() -> None:
    settings, operators = read("settings.md"), read("operators.md")
    for setting in optable.settings():
        assert f"`{setting.environment}`" in settings
        assert setting.documentation in settings
    for row in optable.rows():
        assert f"| `{row.name}` |" in operators
