"""Compiles the Cython kernels; everything else is in pyproject.toml.

Environment switches: SPARSEPOST_DEBUG=1 compiles with all bounds checks on and no optimisation for
particular processors; SPARSEPOST_NO_OPENMP=1 builds without OpenMP.
"""

import os
import platform
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = os.environ.get("SPARSEPOST_DEBUG", "0") not in ("", "0")
PACKAGE = Path("sklearn_sparsepost/_kernels")
MSVC = sys.platform == "win32"
N_JOBS = os.cpu_count() or 1
X86_64 = platform.machine().lower() in ("x86_64", "amd64") and "arm64" not in os.environ.get(
    "ARCHFLAGS", ""
)

# So that sums and maxima vectorise. The hot kernels meet no NaN and no infinity: input is checked.
FAST = (
    ["/O2", "/fp:fast"]
    if MSVC
    else [
        "-O3",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-signed-zeros",
        "-fassociative-math",
        "-ffinite-math-only",
        # Python's own flags have -fwrapv, under which loops over int indices do not vectorise.
        "-fno-wrapv",
    ]
)
# The hot kernels are compiled once a vector unit; which one runs is decided at import.
VECTOR_UNITS = {"": []}
if X86_64 and not DEBUG:
    VECTOR_UNITS["_avx2"] = ["/arch:AVX2"] if MSVC else ["-mavx2", "-mfma"]
    VECTOR_UNITS["_avx512"] = (
        ["/arch:AVX512"]
        if MSVC
        else ["-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw", "-mfma"]
    )
NAMES = runpy.run_path(str(PACKAGE / "_names.py"))  # the package itself cannot be imported yet


def extensions():
    found = []
    for name in NAMES["PLAIN"]:
        found.append(
            Extension(
                f"sklearn_sparsepost._kernels.{name}",
                [str(PACKAGE / f"{name}.pyx")],
                include_dirs=[np.get_include()],
                extra_compile_args=FAST if name in NAMES["ARITHMETIC"] else [],
            )
        )
    for name in NAMES["HOT"]:
        for suffix, flags in VECTOR_UNITS.items():
            found.append(
                Extension(
                    f"sklearn_sparsepost._kernels.{name}{suffix}",
                    [str(PACKAGE / f"{name}{suffix}.pyx")],
                    include_dirs=[np.get_include(), str(PACKAGE)],
                    extra_compile_args=[*FAST, *flags],
                )
            )
    for extension in found:
        extension.define_macros.append(("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"))
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
        folder = Path(tempfile.mkdtemp())
        try:
            (folder / "probe.c").write_text(program)
            objects = compiler.compile(
                [str(folder / "probe.c")], output_dir=str(folder), extra_postargs=compile_flags
            )
            compiler.link_executable(objects, str(folder / "probe"), extra_postargs=link_flags)
            return compile_flags, link_flags
        except Exception as error:  # every compiler fails in its own way
            print(f"OpenMP probe failed with {compile_flags}: {error}", file=sys.stderr)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return None


class BuildExt(build_ext):
    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or N_JOBS

    def build_extensions(self):
        flags = openmp_flags(self.compiler)
        if flags is None:
            print("WARNING: no OpenMP: the kernels will run on one thread.", file=sys.stderr)
        for extension in self.extensions:
            if flags is not None:
                extension.extra_compile_args = [*extension.extra_compile_args, *flags[0]]
                extension.extra_link_args = [*extension.extra_link_args, *flags[1]]
            if extension.name.endswith("._cpu"):
                extension.define_macros += [
                    ("SPARSEPOST_OPENMP", str(int(flags is not None))),
                    ("SPARSEPOST_DEBUG", str(int(DEBUG))),
                ]
        super().build_extensions()


setup(
    ext_modules=cythonize(
        extensions(),
        build_dir="build/cython",
        nthreads=0 if MSVC else N_JOBS,  # in processes, which on Windows would begin with this file
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": DEBUG,
            "initializedcheck": DEBUG,
            "cdivision": not DEBUG,
            "freethreading_compatible": False,
        },
    ),
    cmdclass={"build_ext": BuildExt},
)
