"""The examples of the documentation strings print what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import fabriscope
import pytest

MODULES = [name for _, name, _ in pkgutil.iter_modules(fabriscope.__path__) if name != "__main__"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    module = importlib.import_module(f"fabriscope.{name}")
    everything = {**vars(module), **{public: getattr(fabriscope, public) for public in fabriscope.__all__}}
    found = doctest.testmod(module, extraglobs=everything, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0, f"{found.failed} of {found.attempted}"


def test_the_example_of_the_package_holds():
    assert doctest.testmod(fabriscope, optionflags=doctest.ELLIPSIS).failed == 0
