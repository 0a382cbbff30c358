"""The rooms of the package: arrows that point down, files and functions that fit in a head."""

import ast
import re
from pathlib import Path

import pytest

import sklearn_sparsepost

PACKAGE = Path(sklearn_sparsepost.__file__).parent
MOST_LINES, MOST_CODE = 700, 80
# From the ground up: a module may import from its own floor and from those below.
FLOORS = [
    {"_version", "_checks", "_docs", "_kernels"},
    {"_run"},
    {"_tables", "_suffstats"},
    {"_models", "observations"},
    {"_learning", "_sampling", "_starts", "models"},
    {"metrics", "datasets", "callbacks", "persistence", "display", "_summary", "_base"},
    {"_topic_estimator", "_variational"},
    {"_mixture_estimator", "_sampled_topics", "_topic_variational"},
    {"_grouped_topics"},
    {"_lda", "_hdp", "_mixture", "_alias_lda", "_gibbs_ctm"},
    {"__init__", "_show_versions", "interop"},
]
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
SOURCES = sorted(
    path.relative_to(PACKAGE)
    for pattern in ("*.py", "*.pyx", "*.pxd", "*.h")
    for path in PACKAGE.rglob(pattern)
)


def room_of(name):
    """The room of a module, given by its full name without the package's."""
    return name.split(".")[0]


def imported_rooms(tree):
    """The rooms of this package that a module imports from, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "sklearn_sparsepost"
        ):
            below = node.module.removeprefix("sklearn_sparsepost").lstrip(".")
            yield from [room_of(below)] if below else [alias.name for alias in node.names]


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_imports_point_down(path):
    room = path.parts[0].removesuffix(".py")
    for other in imported_rooms(ast.parse((PACKAGE / path).read_text())):
        assert FLOOR[other] <= FLOOR[room], f"{path} imports from {other}"
        same_floor = FLOOR[other] == FLOOR[room]
        assert not same_floor or other == room or room not in ("_learning", "_sampling", "_starts")


def test_models_make_no_passes_and_dispatch_knows_no_model():
    for path in MODULES:
        names = set(imported_rooms(ast.parse((PACKAGE / path).read_text())))
        if path.parts[0] == "_run":
            assert names <= {"_run", "_kernels"}
        if path.parts[0] == "_kernels":
            assert names <= {"_kernels"}


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_files_fit_in_a_head(path):
    assert len((PACKAGE / path).read_text().splitlines()) <= MOST_LINES


def lines_of_code(node, source):
    """Lines of a function without docstring, comments and blank lines."""
    body = node.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if not body:
        return 0
    lines = source[node.lineno - 1 : body[0].lineno - 1][:1] + source[body[0].lineno - 1 :]
    lines = lines[: node.end_lineno - body[0].lineno + 2]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_functions_fit_in_a_head(path):
    text = (PACKAGE / path).read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert lines_of_code(node, text.splitlines()) <= MOST_CODE, node.name


DEFINITION = re.compile(r"^( *)(?:cdef|cpdef|def|static)\b.*\(")


def cython_functions(text):
    """Names and lines of code of the functions of a Cython file."""
    text = re.sub(r'"""(?:.|\n)*?"""', lambda match: "\n" * match[0].count("\n"), text)
    name, indent, count = None, 0, 0
    for line in text.splitlines():
        if not line.strip() or line.strip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        begins = DEFINITION.match(line)
        if begins and (name is None or depth <= indent):
            if name:
                yield name, count
            name, indent, count = line.strip(), depth, 0
        elif name and depth <= indent and not line.strip().startswith(")"):
            yield name, count
            name = None
        count += 1
    if name:
        yield name, count


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.suffix in (".pyx", ".pxd")], ids=str
)
def test_kernel_functions_fit_in_a_head(path):
    for name, count in cython_functions((PACKAGE / path).read_text()):
        assert count <= MOST_CODE, name
