"""Compiles the Cython kernels; everything else is in pyproject.toml.

Environment switches: SPARSEPOST_DEBUG=1 compiles with all bounds checks on and no optimisation for
particular processors; SPARSEPOST_NO_OPENMP=1 builds without OpenMP.
"""

import copy
import email
import hashlib
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = os.environ.get("SPARSEPOST_DEBUG", "0") not in ("", "0")
PACKAGE = Path("sklearn_sparsepost/_kernels")
TRANSLATED = Path("build/cython-debug" if DEBUG else "build/cython")
COMPILED = Path("build/compiled")  # what earlier builds made, for builds of the same to take
MSVC = sys.platform == "win32"
N_JOBS = os.cpu_count() or 1
X86_64 = platform.machine().lower() in ("x86_64", "amd64") and "arm64" not in os.environ.get(
    "ARCHFLAGS", ""
)

# Python's own flags have -g and -Wall, which take half as much time again, and -O3.
SYMBOLS = "-g" in os.environ.get("CFLAGS", "").split()
LEAN = [] if MSVC or DEBUG else ["-w"] if SYMBOLS else ["-w", "-g0"]
PLAIN = LEAN + ([] if MSVC else ["-O2"])
# So that sums and maxima vectorise. The hot kernels meet no NaN and no infinity: input is checked.
FAST = LEAN + (
    ["/O2", "/fp:fast"]
    if MSVC
    else [
        # -O3 less what it does to the long code that Cython writes around the loops.
        "-O2",
        "-ftree-vectorize",
        "-fvect-cost-model=dynamic",
        "-funswitch-loops",
        "-fsplit-loops",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-signed-zeros",
        "-fassociative-math",
        "-ffinite-math-only",
        # Python's own flags have -fwrapv, under which loops over int indices do not vectorise.
        "-fno-wrapv",
    ]
)
# What of these clang does not know: its own choices are much the same.
OF_GCC = ["-fvect-cost-model=dynamic", "-fsplit-loops"]
# The hot kernels are compiled once more a vector unit; which one runs is decided at import.
VECTOR_UNITS = {}
if X86_64 and not DEBUG:
    VECTOR_UNITS["_avx2"] = ["/arch:AVX2"] if MSVC else ["-mavx2", "-mfma"]
    VECTOR_UNITS["_avx512"] = (
        ["/arch:AVX512"]
        if MSVC
        else ["-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw", "-mfma"]
    )
NAMES = runpy.run_path(str(PACKAGE / "_names.py"))  # the package itself cannot be imported yet
# Of what Cython would otherwise write into every module that takes arrays.
SHARED = "sklearn_sparsepost._kernels._cyutility"

NOTES = re.compile(rb"/\* BEGIN: Cython Metadata.*?END: Cython Metadata \*/", re.DOTALL)


def extensions():
    found = [Extension(SHARED, [SHARED.replace(".", "/") + ".c"], extra_compile_args=PLAIN)]
    for name in NAMES["PLAIN"]:
        found.append(
            Extension(
                f"sklearn_sparsepost._kernels.{name}",
                [str(PACKAGE / f"{name}.pyx")],
                include_dirs=[np.get_include()],
                extra_compile_args=FAST if name in NAMES["ARITHMETIC"] else PLAIN,
            )
        )
    for name in NAMES["HOT"]:
        found.append(
            Extension(
                f"sklearn_sparsepost._kernels.{name}",
                [str(PACKAGE / f"{name}.pyx")],
                include_dirs=[np.get_include(), str(PACKAGE)],
                extra_compile_args=FAST
                if MSVC or name not in NAMES["UNROLLED"]
                else FAST + ["-O3"],
            )
        )
    for extension in found:
        extension.define_macros.append(("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"))
    return found


def variants(translated):
    """The hot modules for wider vector units: the same C, under another name."""
    found = []
    for base in translated:
        name = base.name.rpartition(".")[2]
        for suffix, flags in VECTOR_UNITS.items() if name in NAMES["HOT"] else ():
            source = TRANSLATED / PACKAGE / f"{name}{suffix}.c"
            source.write_text(f'#define PyInit_{name} PyInit_{name}{suffix}\n#include "{name}.c"\n')
            extension = copy.copy(base)
            extension.name = base.name + suffix
            extension.sources = [str(source)]
            extension.depends = [*base.depends, *base.sources]
            extension.extra_compile_args = [*base.extra_compile_args, *flags]
            found.append(extension)
    return found


def openmp_flags(compiler):
    """(compile flags, link flags) with which a test program of two threads builds; else None."""
    if os.environ.get("SPARSEPOST_NO_OPENMP", "0") not in ("", "0"):
        return None
    candidates = {
        "win32": [(["/openmp"], [])],
        "darwin": [(["-Xpreprocessor", "-fopenmp"], ["-lomp"]), (["-fopenmp"], ["-fopenmp"])],
    }.get(sys.platform, [(["-fopenmp"], ["-fopenmp"])])
    program = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
    extra = os.environ.get("SPARSEPOST_OPENMP_PREFIX")  # where macOS keeps libomp
    for compile_flags, link_flags in candidates:
        if extra:
            compile_flags = [*compile_flags, f"-I{extra}/include"]
            link_flags = [*link_flags, f"-L{extra}/lib"]
        if builds(compiler, program, compile_flags, link_flags):
            return compile_flags, link_flags
    return None


def unknown_flags(compiler):
    """Which of the flags that not all compilers know this one does not."""
    return [] if builds(compiler, "int main(void) { return 0; }\n", OF_GCC) else OF_GCC


def builds(compiler, program, compile_flags, link_flags=()):
    """Whether a test program builds with some flags."""
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "probe.c").write_text(program)
        objects = compiler.compile(
            [str(folder / "probe.c")], output_dir=str(folder), extra_postargs=[*compile_flags]
        )
        compiler.link_executable(objects, str(folder / "probe"), extra_postargs=[*link_flags])
        return True
    except Exception as error:  # every compiler fails in its own way
        print(f"Probe failed with {[*compile_flags]}: {error}", file=sys.stderr)
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ingredients(extension, compiler):
    """A digest of all that a compiled module is made of: sources, headers, flags, versions."""
    files = {*extension.sources, *extension.depends, *map(str, PACKAGE.glob("*.h"))}
    # Cython notes the folder of numpy's headers, which is another in every `pip install`.
    texts = [NOTES.sub(b"", Path(file).read_bytes()) for file in files]
    what = sorted(hashlib.sha256(text).hexdigest() for text in texts)
    what += [sys.version, np.__version__, platform.platform()]
    what += [compiler.compiler_so, compiler.linker_so, extension.define_macros]
    what += [extension.extra_compile_args, extension.extra_link_args]
    what += [subprocess.check_output([*compiler.compiler_so, "--version"])]
    what += [os.environ.get(name) for name in ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH")]
    return hashlib.sha256(repr(what).encode()).hexdigest()


class BuildExt(build_ext):
    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or N_JOBS

    def build_extensions(self):
        flags = openmp_flags(self.compiler)
        if flags is None:
            print("WARNING: no OpenMP: the kernels will run on one thread.", file=sys.stderr)
        unknown = () if MSVC else unknown_flags(self.compiler)
        for extension in self.extensions:
            extension.extra_compile_args = [
                flag for flag in extension.extra_compile_args if flag not in unknown
            ]
            if flags is not None:
                extension.extra_compile_args = [*extension.extra_compile_args, *flags[0]]
                extension.extra_link_args = [*extension.extra_link_args, *flags[1]]
            if extension.name.endswith("._cpu"):
                extension.define_macros += [
                    ("SPARSEPOST_OPENMP", str(int(flags is not None))),
                    ("SPARSEPOST_DEBUG", str(int(DEBUG))),
                ]
        super().build_extensions()

    def build_extension(self, extension):
        """Compile, unless an earlier build compiled the same in the same way."""
        target = Path(self.get_ext_fullpath(extension.name))
        kept = COMPILED / target.name
        made_of = kept.with_suffix(".txt")
        digest = None if MSVC else ingredients(extension, self.compiler)
        if digest and kept.exists() and made_of.exists() and made_of.read_text() == digest:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(kept, target)
            return
        target.unlink(missing_ok=True)  # else setuptools takes it, however it was compiled
        super().build_extension(extension)
        if digest:
            COMPILED.mkdir(parents=True, exist_ok=True)
            made_of.unlink(missing_ok=True)
            shutil.copy(target, kept)
            made_of.write_text(digest)


def addresses(environ, packed=Path("PKG-INFO")):
    """Where the project lives, as its own workflows know, or the sdist that they made; else {}."""
    if packed.exists():
        found = email.message_from_string(packed.read_text(encoding="utf-8"))
        return dict(line.split(", ", 1) for line in found.get_all("Project-URL") or [])
    repository = environ.get("GITHUB_REPOSITORY")
    if not repository:
        return {}
    owner, name = repository.split("/")
    home = f"{environ['GITHUB_SERVER_URL']}/{repository}"
    return {
        "Documentation": f"https://{owner.lower()}.github.io/{name}",  # where docs.yml puts it
        "Source": home,
        "Issues": f"{home}/issues",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
    }


# Cython translates in processes, which may begin with this file: always, from Python 3.14 on.
if __name__ == "__main__":
    translated = cythonize(
        extensions(),
        build_dir=str(TRANSLATED),
        shared_utility_qualified_name=SHARED,
        nthreads=0 if MSVC else N_JOBS,
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": DEBUG,
            "initializedcheck": DEBUG,
            "cdivision": not DEBUG,
            "freethreading_compatible": False,
        },
    )
    setup(
        ext_modules=translated + variants(translated),
        cmdclass={"build_ext": BuildExt},
        project_urls=addresses(os.environ),
    )
