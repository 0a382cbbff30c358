"""What is installed, what was compiled in and what this machine has, for bug reports."""

import platform
import sys
from importlib import metadata

from sklearn_sparsepost import _kernels
from sklearn_sparsepost._kernels._cpu import build_info, max_threads
from sklearn_sparsepost._version import __version__

PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "Cython", "dask", "matplotlib")


def show_versions():
    """Print versions, what the kernels were compiled with, and which of them run here.

    Examples
    --------
    >>> from sklearn_sparsepost import show_versions
    >>> show_versions()  # doctest: +SKIP
    """
    build = build_info()
    print(f"sklearn_sparsepost: {__version__}")
    print(f"python: {sys.version.split()[0]} on {platform.platform()}")
    for name in PACKAGES:
        try:
            print(f"{name}: {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            print(f"{name}: not installed")
    print(f"compiler: {build['compiler']}")
    print(f"OpenMP: {'yes' if build['openmp'] else 'NO: the kernels run on one thread'}")
    print(f"threads: {max_threads()}")
    print(f"bounds checks: {'ON: a slow debug build' if build['bounds checks'] else 'off'}")
    print(f"vector units of this processor: {', '.join(build['vector units'])}")
    print(f"kernels in use: {_kernels.vector_unit}")
    if _kernels.vector_unit != build["vector units"][-1]:
        print("  SLOWER THAN NEED BE: no kernels for the best vector unit were compiled or chosen")
