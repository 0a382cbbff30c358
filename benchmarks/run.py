"""Run the benchmarks: ``python benchmarks/run.py [--only NAME ...] [--quick] [--resume]``.

Every measurement is a process of its own, one at a time, and is stored as soon as it is done. This
file imports nothing large: on Linux a process counts its parent's memory into its own peak.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import places
from plan import experiments

HERE = Path(__file__).resolve().parent
LONG = 30  # seconds of training from which on a curve is not repeated
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def build_natively(folder):
    """Compile a copy of the source for this very processor in an empty folder."""
    root = HERE.parent
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, folder)
    # Without what was compiled before.
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(root / "sklearn_sparsepost", folder / "sklearn_sparsepost", ignore=ignore)
    # CFLAGS replace Python's own, which must be said again; each module's own flags come after.
    flags = f"{sysconfig.get_config_var('CFLAGS') or '-O3'} -march=native"
    subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env={**os.environ, "CFLAGS": flags},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def measure(spec, environment):
    """One measurement in a new process; a failure is a result, too."""
    command = [sys.executable, str(HERE / "measure.py"), json.dumps(spec)]
    inherited = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    # Of workers, Dask says it, and one; their client has all threads, as users have it.
    if not spec.get("n_workers"):
        inherited |= dict.fromkeys(THREAD_VARIABLES, str(spec.get("threads", 1)))
    environment = {**inherited, **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"error": lines[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def rounded(value):
    """Numbers to seven digits, which is more than a clock or a score has to say."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


def store(path, record):
    """Replace the file of results as a whole, a line a measurement."""
    temporary = path.with_suffix(".tmp")
    compact = json.JSONEncoder(separators=(",", ":")).encode
    runs = ",\n".join(f"{compact(k)}:{compact(rounded(v))}" for k, v in record["runs"].items())
    machine = json.dumps(record["machine"])
    temporary.write_text(f'{{"machine": {machine},\n"runs": {{\n{runs}\n}}}}\n')
    temporary.replace(path)


def main():
    """Make the measurements that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="keys that begin with these")
    parser.add_argument("--quick", action="store_true", help="try everything on a small corpus")
    parser.add_argument("--resume", action="store_true", help="leave out what is there already")
    parser.add_argument("--list", action="store_true", help="print the keys and do nothing")
    parser.add_argument("--out", type=Path, help="folder of the results")
    arguments = parser.parse_args()
    wanted = [
        (key, spec)
        for key, spec in experiments(arguments.quick)
        if not arguments.only or key.startswith(tuple(arguments.only))
    ]
    if arguments.list:
        print(*(key for key, _ in wanted), sep="\n")
        return
    missing = places.missing(spec["corpus"] for _, spec in wanted)
    if missing:
        sys.exit(places.advice(missing))
    out = arguments.out or HERE / ("results-quick" if arguments.quick else "results")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "results.json"
    record = json.loads(path.read_text()) if path.exists() else {"runs": {}}
    machine = measure({"kind": "machine"}, {})
    if "error" in machine:
        sys.exit(machine["error"])
    if not arguments.only or "machine" not in record:
        record["machine"] = machine  # else most rows come from where they came from before
    with tempfile.TemporaryDirectory() as temporary:
        run_all(wanted, record, path, Path(temporary), machine["processor"], arguments.resume)


def run_all(wanted, record, path, temporary, processor, resume=False):
    """Make measurements one after another, storing each."""
    runs = record["runs"]
    for key, spec in wanted:
        if resume and "error" not in runs.get(key, {"error": "is not there"}):
            continue
        first = runs.get(key.split("#")[0], {})
        if "#" in key and ("error" in first or key.startswith("curves") and _seconds(first) > LONG):
            runs.pop(key, None)
            continue
        begun, where = time.perf_counter(), processor
        try:
            environment = prepare(spec.pop("build", ""), spec["corpus"], temporary)
            if "vector_unit" in spec:
                unit = environment["SPARSEPOST_VECTOR_UNIT"] = spec.pop("vector_unit")
                where = f"{processor.rpartition(', ')[0]}, {unit}"
            result = measure(spec, environment)
        except subprocess.CalledProcessError as error:
            result = {"error": f"{Path(error.cmd[1]).name} failed"}
        runs[key] = {"spec": spec, "processor": where, **result}
        store(path, record)
        told = result.get("error") or _last(result)
        print(f"{key}: {told} ({time.perf_counter() - begun:.0f} s in all)", flush=True)


def prepare(build, corpus, temporary):
    """Write and build once what some measurements need; returns the environment that names it."""
    environment = {}
    if corpus == "arxiv300k":
        folder = temporary / "mapped"
        if not folder.exists():
            folder.mkdir()
            subprocess.run([sys.executable, str(HERE / "corpora.py"), str(folder)], check=True)
        environment["SPARSEPOST_MAPPED"] = str(folder)
    if build == "native":
        folder = temporary / "native"
        if not folder.exists():
            folder.mkdir()
            build_natively(folder)
        environment["PYTHONPATH"] = str(folder)
    return environment


def _seconds(result):
    return result["checkpoints"][-1]["seconds"] if result.get("checkpoints") else 0


def _last(result):
    if not result.get("checkpoints"):
        return "done"
    last = result["checkpoints"][-1]
    score = f", score {last['score']:.4f}" if "score" in last else ""
    return f"{last['passes']} passes in {last['seconds']:.2f} s{score}"


if __name__ == "__main__":
    main()
