"""Public docstrings are complete and true, and so is the code in the docs."""

import doctest
import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import ERROR_MSGS, validate

import sklearn_sparsepost

ROOT = Path(__file__).parents[1]
MODULES = (
    "sklearn_sparsepost",
    *(
        f"sklearn_sparsepost.{info.name}"
        for info in pkgutil.iter_modules(sklearn_sparsepost.__path__)
        if not info.name.startswith("_")
    ),
)

# Checks of numpydoc that are not made, and why.
NOT_CHECKED = {
    "ES01": "an extended summary is for what the first line leaves open; often that is nothing",
    "RT02": "results have names here, as in scikit-learn",
    "SA01": "a See Also section is for a real alternative",
}
# The example of a class shows its methods.
NOT_CHECKED_OF_METHODS = {"EX01"}
CHECKED = set(ERROR_MSGS) - set(NOT_CHECKED)


def public_names():
    """Qualified names of the public objects of all public modules."""
    found = []
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        found += [f"{module_name}.{name}" for name in module.__all__ if not name.startswith("__")]
    return sorted(found)


def resolve(name):
    """The object of a qualified name."""
    module, _, rest = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), rest)
    except ModuleNotFoundError:
        return getattr(resolve(module), rest)


def is_ours(obj):
    """Whether this package defined an object, rather than inherited it from scikit-learn."""
    return (getattr(obj, "__module__", "") or "").startswith("sklearn_sparsepost")


# Classes that declare what others do: these may add a line of their own.
BASES = {"Model", "Observation"}


def documented():
    """The public objects and the public methods and properties of classes, by name."""
    found = []
    for name in public_names():
        found.append(name)
        obj = resolve(name)
        if inspect.isclass(obj):
            for method in dir(obj):
                member = inspect.getattr_static(obj, method)
                member = getattr(member, "fget", None) or getattr(member, "__func__", member)
                ours = inspect.isroutine(member) and is_ours(member)
                if not method.startswith("_") and ours and not is_declared_below(obj, method):
                    found.append(f"{name}.{method}")
    return found


def is_declared_below(cls, method):
    """Whether a public base class of this package says what a method does."""
    bases = [base for base in cls.__mro__[1:] if is_ours(base) and base.__name__ in BASES]
    return any(method in vars(base) for base in bases)


@pytest.fixture(autouse=True)
def no_pictures_left():
    """Close the figures that code drew."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


CLASSES = [name for name in public_names() if inspect.isclass(resolve(name))]


@pytest.mark.parametrize("name", documented())
def test_docstring_is_complete(name):
    checked = CHECKED if name in public_names() else CHECKED - NOT_CHECKED_OF_METHODS
    errors = [f"{code}: {text}" for code, text in validate(name)["errors"] if code in checked]
    assert not errors, "\n".join(errors)


@pytest.mark.parametrize("name", CLASSES)
def test_class_parameters_are_those_of_init(name):
    cls = resolve(name)
    parameters = list(inspect.signature(cls).parameters.values())
    described = NumpyDocString(inspect.getdoc(cls))["Parameters"]
    assert [p.name.lstrip("*") for p in described] == [p.name for p in parameters]
    for text, parameter in zip(described, parameters, strict=True):
        stated = re.search(r"default=(.+)$", text.type)
        if parameter.default is inspect.Parameter.empty:
            assert stated is None, f"{name}: {parameter.name} has no default"
        else:
            assert stated, f"{name}: {parameter.name} does not state its default"
            value = eval(stated[1], {})  # a literal: our own docstring
            assert value == parameter.default, f"{name}: default of {parameter.name}"


@pytest.mark.parametrize("name", public_names())
def test_examples_of_docstrings_run(name):
    finder = doctest.DocTestFinder(recurse=True)
    runner = doctest.DocTestRunner()
    obj = resolve(name)
    for test in finder.find(obj, name, module=inspect.getmodule(obj)):
        runner.run(test)
    assert not runner.failures


def user_guide():
    """The pages that hold code."""
    pages = sorted((ROOT / "doc").glob("*.rst")) + sorted((ROOT / "doc/user_guide").glob("*.rst"))
    return [page for page in pages if ">>> " in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", user_guide(), ids=lambda page: page.stem)
def test_code_of_the_user_guide_runs(page):
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert tried
    assert not failed


def test_example_of_the_readme_runs(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "doc/api.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   (\w[\w.]*)$", text, flags=re.MULTILINE))
    assert listed == {name.removeprefix("sklearn_sparsepost.") for name in public_names()}


def test_version_is_public():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.\w+)?", sklearn_sparsepost.__version__)
