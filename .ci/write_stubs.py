"""Write the type stubs of the public modules from their signatures and numpydoc docstrings.

``python .ci/write_stubs.py`` writes `*.pyi` into the package, and ``texts()`` is what it writes. So
a docstring is the one place where a type is said; a test holds the stubs to it.
"""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

from numpydoc.docscrape import NumpyDocString

import sklearn_sparsepost

ROOT = Path(sklearn_sparsepost.__file__).parent
HEADER = """# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix
"""
ATOMS = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "bytes": "bytes",
    "None": "None",
    "array-like": "ArrayLike",
    "ndarray": "NDArray[Any]",
    "sparse matrix": "spmatrix | sparray",
    "Dask array": "NDArray[Any]",  # has its methods, and no type that all can import
    "csr_matrix": "csr_matrix",
    "csr_array": "csr_array",
    "callable": "Callable[..., Any]",
    "dtype": "DTypeLike",
    "dict": "dict[Any, Any]",
    "list": "list[Any]",
    "tuple": "tuple[Any, ...]",
    "RandomState instance": "np.random.RandomState",
    "numpy.random.RandomState": "np.random.RandomState",
    "numpy.random.Generator": "np.random.Generator",
    "path-like": "str | Path",
    "iterable": "Iterable[Any]",
    "two ints": "tuple[int, int]",
    "(int, int)": "tuple[int, int]",
    "matplotlib.axes.Axes": "Axes",
    "matplotlib.figure.Figure": "Figure",
    "array of matplotlib.axes.Axes": "NDArray[Any]",
    "structured ndarray": "NDArray[Any]",
}
OF = {
    "list": "list[{}]",
    "tuple": "tuple[{}, ...]",
    "sequence": "Sequence[{}]",
    "iterable": "Iterable[{}]",
    "array-like": "ArrayLike",
    "ndarray": "NDArray[Any]",
}
ONE_SHAPE = r"(\([^()]*(\([^()]*\)[^()]*)*\)|`\w+`)"
SHAPE = re.compile(rf" of shape {ONE_SHAPE}((, or |, | or ){ONE_SHAPE})*| of length \w+")


def modules():
    """Names of the public modules."""
    names = [info.name for info in pkgutil.iter_modules(sklearn_sparsepost.__path__)]
    return [
        "sklearn_sparsepost",
        *(f"sklearn_sparsepost.{name}" for name in names if not name.startswith("_")),
    ]


def split_alternatives(text):
    """Parts of a type between commas and "or", those in brackets and quotes left whole."""
    parts, depth, quoted, current = [], 0, False, ""
    for piece in re.split(r'([(){}\[\]"]|, or |, | or )', text):
        if piece == '"':
            quoted = not quoted
        elif not quoted and piece in "({[" and piece:
            depth += 1
        elif not quoted and piece in ")}]" and piece:
            depth -= 1
        elif piece in (", ", " or ", ", or ") and not depth and not quoted:
            parts.append(current)
            current = ""
            continue
        current += piece
    return [part.strip() for part in [*parts, current] if part.strip()]


def hint_of_atom(text, public):
    """The hint of one alternative."""
    text = text.strip("`~ ").removeprefix("an ").removeprefix("a ")
    if text.startswith("{") and text.endswith("}"):
        return hint_of(text[1:-1], public)
    if re.fullmatch(r'"[^"]*"', text):
        return f"Literal[{text}]"
    if re.fullmatch(r"True|False", text):
        return f"Literal[{text}]"
    if text in ATOMS:
        return ATOMS[text]
    if text.startswith("dict of str to "):
        return f"dict[str, {hint_of_atom(text.removeprefix('dict of str to '), public)}]"
    outer, _, inner = text.partition(" of ")
    if inner and outer in OF:
        return OF[outer].format(hint_of_atom(inner, public))
    return text if text in public else "Any"


def hint_of(text, public, default=inspect.Parameter.empty):
    """The hint of a numpydoc type."""
    text = SHAPE.sub("", text.split(", default=")[0].split(", optional")[0])
    text = re.sub(
        r", (float32|float64|int32|int64|intp|bool|C-contiguous)( or float64)?\b", "", text
    )
    if text.startswith("dict of str to ") and "None" not in text:
        found = f"dict[str, {hint_of(text.removeprefix('dict of str to '), public)}]"
        return f"{found} | None" if default is None else found
    found = []
    for part in split_alternatives(text):
        for hint in hint_of_atom(part, public).split(" | "):
            if hint not in found:
                found.append(hint)
    if default is None and "None" not in found:
        found.append("None")
    if "Any" in found or not found:
        return "Any"
    literals = [hint[8:-1] for hint in found if hint.startswith("Literal[")]
    if literals:
        place = next(i for i, hint in enumerate(found) if hint.startswith("Literal["))
        found = [hint for hint in found if not hint.startswith("Literal[")]
        found.insert(place, f"Literal[{', '.join(literals)}]")
    if "None" in found:
        found = [*(hint for hint in found if hint != "None"), "None"]
    return " | ".join(found)


def described(doc, section):
    """Types that a docstring states, by name; one text may be of several names."""
    found = {}
    for entry in NumpyDocString(doc or "")[section]:
        for name in entry.name.split(","):
            found[name.strip(" *`")] = entry.type
    return found


def returned(doc, function, public):
    """What a docstring says is returned."""
    sections = NumpyDocString(doc or "")
    if sections["Yields"]:
        return f"Iterator[{hint_of(sections['Yields'][0].type, public)}]"
    entries = sections["Returns"]
    if not entries:
        return "None" if doc else "Any"
    if entries[0].name == "self":
        return "Self"
    hints = [hint_of(entry.type, public) for entry in entries]
    return hints[0] if len(hints) == 1 else f"tuple[{', '.join(hints)}]"


def signature(function, types, result, public, bound):
    """A signature with hints, in one line or a line a parameter."""
    parts, starred = ["self"] if bound == "self" else ["cls"] if bound == "cls" else [], False
    given = list(inspect.signature(function).parameters.values())
    if bound and given and given[0].name in ("self", "cls"):
        given = given[1:]
    for p in given:
        ignored = p.name == "y"  # as scikit-learn passes it along
        hint = "Any" if ignored else hint_of(types.get(p.name, ""), public, p.default)
        if p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: Any")
            continue
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: Any")
            starred = True
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        text = f"{p.name}: {hint}"
        if p.default is not p.empty:
            plain = isinstance(p.default, (int, float, str, bool, type(None)))
            plain = plain and p.default not in (float("inf"), -float("inf"))
            text += f" = {p.default!r}" if plain else " = ..."
        parts.append(text)
    line = f"({', '.join(parts)}) -> {result}: ..."
    return (
        line
        if len(line) < 80
        else "(\n" + "".join(f"    {p},\n" for p in parts) + f") -> {result}: ..."
    )


def function_stub(name, function, public, bound="", doc=None, result=None):
    """The stub of a function or method."""
    doc = inspect.getdoc(function) if doc is None else doc
    types = described(doc, "Parameters") | described(doc, "Other Parameters")
    result = result or returned(inspect.getdoc(function), function, public)
    return f"def {name}{signature(function, types, result, public, bound)}"


def is_ours(obj):
    """Whether this package defined an object."""
    return (getattr(obj, "__module__", "") or "").startswith("sklearn_sparsepost")


def bases_of(cls, public):
    """Names of the bases that users know: public classes of this package, and scikit-learn's."""
    found = []
    for base in cls.__mro__[1:-1]:
        known = base.__name__ in public if is_ours(base) else "sklearn" in base.__module__
        if known and not any(issubclass(other, base) for other in found):
            found.append(base)
    return found


def class_stub(name, cls, public):
    """The stub of a class: its attributes, constructor and methods."""
    bases, doc, lines = bases_of(cls, public), inspect.getdoc(cls), []
    inherited = {member for base in bases if is_ours(base) for member in dir(base)}
    given = {}
    if cls.__init__ is not object.__init__:
        given = {p.name: p.default for p in inspect.signature(cls).parameters.values()}
    stated = described(doc, "Parameters") | described(doc, "Attributes")
    for attribute, text in stated.items():
        member = inspect.getattr_static(cls, attribute, None)
        if attribute.isidentifier() and not isinstance(member, property) and not callable(member):
            of_class = "ClassVar[{}]" if attribute in vars(cls) and attribute not in given else "{}"
            keeps = attribute not in given or issubclass_of_estimator(cls)
            if keeps:
                hint = hint_of(text, public, given.get(attribute, inspect.Parameter.empty))
                lines.append(f"{attribute}: {of_class.format(hint)}")
    if given:
        lines.append(function_stub("__init__", cls.__init__, public, "self", doc, "None"))
    for member_name in dir(cls):
        member = inspect.getattr_static(cls, member_name)
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if member_name.startswith("_") or not inspect.isfunction(function) or not is_ours(function):
            continue
        if member_name in inherited and not says_types(function):
            continue
        if isinstance(member, property):
            text = stated.get(member_name)
            hint = hint_of(text, public) if text else "Any"
            lines.append(f"@property\ndef {member_name}(self) -> {hint}: ...")
        elif isinstance(member, classmethod):
            lines.append("@classmethod\n" + function_stub(member_name, function, public, "cls"))
        elif isinstance(member, staticmethod):
            lines.append("@staticmethod\n" + function_stub(member_name, function, public))
        else:
            lines.append(function_stub(member_name, function, public, "self"))
    body = "\n".join(lines) or "..."
    head = (
        f"class {name}({', '.join(base.__name__ for base in bases)}):"
        if bases
        else f"class {name}:"
    )
    return head + "\n" + "\n".join(f"    {line}" for line in body.splitlines())


def says_types(function):
    """Whether a docstring has types, rather than a line about what a base class declares."""
    sections = NumpyDocString(inspect.getdoc(function) or "")
    return bool(sections["Parameters"] or sections["Returns"])


def issubclass_of_estimator(cls):
    """Whether parameters of the constructor stay attributes, as scikit-learn has it."""
    return any(base.__name__ == "BaseEstimator" for base in cls.__mro__)


def module_stub(name, home):
    """The stub of a module; `home` says in which public module a class is."""
    module = importlib.import_module(name)
    parts, needed = [], {}
    for member_name in module.__all__:
        member = getattr(module, member_name)
        if inspect.isclass(member):
            parts.append(class_stub(member_name, member, home))
            for base in bases_of(member, home):
                if not is_ours(base):
                    needed[base.__name__] = base.__module__
        elif callable(member):
            parts.append(function_stub(member_name, member, home))
        else:
            parts.append(f"{member_name}: {type(member).__name__}")
    text = "\n\n".join(parts)
    for other, where in home.items():
        if where != name and re.search(rf"\b{other}\b", text):
            needed[other] = where
    imports = "".join(f"from {where} import {other}\n" for other, where in sorted(needed.items()))
    for other, where in (("Axes", "matplotlib.axes"), ("Figure", "matplotlib.figure")):
        if re.search(rf"\b{other}\b", text):
            imports += f"from {where} import {other}\n"
    if re.search(r"\bPath\b", text):
        imports = "from pathlib import Path\n" + imports
    names = ", ".join(f'"{member}"' for member in module.__all__)
    return f"{HEADER}{imports}\n__all__ = [{names}]\n\n{text}\n"


def texts():
    """The stubs: {path below the package: text}."""
    home = {}
    for name in modules():
        module = importlib.import_module(name)
        for member in module.__all__:
            if inspect.isclass(getattr(module, member)):
                home[member] = name
    found = {}
    for name in modules():
        path = name.replace(".", "/").removeprefix("sklearn_sparsepost").strip("/")
        is_package = hasattr(importlib.import_module(name), "__path__")
        found[Path(path, "__init__.pyi") if is_package else Path(f"{path}.pyi")] = module_stub(
            name, home
        )
    return found


if __name__ == "__main__":
    for path, text in texts().items():
        (ROOT / path).write_text(text, encoding="utf-8")
