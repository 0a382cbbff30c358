"""Figures in the prose of the pages are those of the benchmarks' results."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(r":measured:`([^`]+)`")


@pytest.fixture(scope="module")
def figures():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("figures")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def results(figures):
    return figures.Results()


def pages():
    found = [
        *sorted((ROOT / "doc").glob("*.rst")),
        *sorted((ROOT / "doc/user_guide").glob("*.rst")),
    ]
    return [page for page in found if FIGURE.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_figure_has_a_result(page, figures, results):
    for text in FIGURE.findall(page.read_text(encoding="utf-8")):
        assert "nan" not in figures.measured(re.sub(r"\s+", " ", text), results), text


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_no_score_is_written_by_hand(page):
    text = FIGURE.sub("", page.read_text(encoding="utf-8"))
    assert not re.findall(r"(?<![\w.])-\d\.\d{3}\b", text)


def test_pages_with_tables_have_figures():
    assert {"index", "performance", "alias_lda", "choosing"} <= {page.stem for page in pages()}


def test_a_key_that_is_not_there_is_an_error(figures, results):
    with pytest.raises(KeyError, match="there is no result 'curves/kos-50/L=9'"):
        figures.measured('score("curves/kos-50/L=9") | .3f', results)
    with pytest.raises(KeyError, match="there is no result"):
        figures.measured('value("transform/kos-50/transform", "mean_l1") | .3f', results)


def test_figures_are_what_was_stored(figures, results):
    key = "curves/newsgroups20-200/sklearn batch"
    points = results._record[key]["checkpoints"]
    assert results.score(key) == points[-1]["score"]
    assert results.seconds(key) == points[-1]["seconds"]
    assert results.score(key, passes=1) == points[0]["score"]
    assert results.best(key) == max(point["score"] for point in points)
    start = "mixture-start/bsds500-100/agglomerative"
    scores = [results.value(f"{start} {seed}", "score") for seed in range(5)]
    np.testing.assert_allclose(results.mean(start), np.mean(scores))
    np.testing.assert_allclose(results.deviation(start), np.std(scores, ddof=1))
    assert results.spread(start) == max(scores) - min(scores)
    last = [
        [results._record[f"power law{of}"]["checkpoints"][-1]["score"] for of in of_model]
        for of_model in (
            [f"s/kos-50/{model}", *(f" seeds/kos-50/{model}#{seed}" for seed in (1, 2, 3))]
            for model in ("LDA", "Pitman-Yor")
        )
    ]
    np.testing.assert_allclose(results.gains("kos-50"), np.subtract(last[1], last[0]))
    assert results.gain("kos-50") == results.gains("kos-50").mean()
    with pytest.raises(KeyError, match="there is no result"):
        results.mean(f"{start}, other")
    level = results.score(key)
    assert results.time_to("curves/newsgroups20-200/L=8", level) < results.seconds(key)
    assert (
        figures.measured(f'seconds("{key}") / 60 | .1f', results)
        == f"{points[-1]['seconds'] / 60:.1f}"
    )


# What the pages say in words, in the functions of the role.
COMPARED = {
    "online learning stays lower out of core": """
        best("arxiv/arxiv300k-500/online") < score("arxiv/arxiv300k-500/memoized", passes=3)""",
    "sparse posteriors lose nothing with 800 topics": """
        score("curves/newsgroups20-800/L=8") > score("curves/newsgroups20-800/dense")""",
    "sampling goes on where variational inference stops": """
        min(score(f"curves/{c}/AliasLDA") - best(f"curves/{c}/L=8") for c in SMALL) > 0""",
    "lists cost what alias tables do": """
        0.8 < each("over topics/newsgroups20-1024/sparse")
        / each("over topics/newsgroups20-1024/alias") < 1.25""",
    "Pitman-Yor topics are better on newsgroups20 and ohsumed from each seed": """
        len(gains("newsgroups20-200")) == len(gains("ohsumed-100")) == 4
        and min(gains("newsgroups20-200")) > 0 and min(gains("ohsumed-100")) > 0""",
    "elsewhere seeds make about as much": """
        max(abs(gain(c)) / gains(c).std(ddof=1) for c in ("kos-50", "nips-200")) < 1.5""",
    "a concentration that is learned is poorer on ohsumed and nips, as good on newsgroups20": """
        score("power laws/ohsumed-100/Pitman-Yor")
        > score("power laws/ohsumed-100/Pitman-Yor, learned")
        and score("power laws/nips-200/Pitman-Yor")
        > score("power laws/nips-200/Pitman-Yor, learned")
        and abs(score("power laws/newsgroups20-200/Pitman-Yor, learned")
                - score("power laws/newsgroups20-200/Pitman-Yor"))
        < gains("newsgroups20-200").std(ddof=1)""",
    "a start is less than a third of the time to tomotopy's level of 40 s": """
        max(start(f"curves/newsgroups20-200/AliasLDA{prior}") / time_to(
            f"curves/newsgroups20-200/AliasLDA{prior}",
            score(f"curves/newsgroups20-200/tomotopy{prior}", at=40))
            for prior in ("", " learned alpha")) < 1 / 3""",
    "AliasLDA is at tomotopy's level of 40 s in a tenth of that, with its start": """
        max(time_to(f"curves/{c}/AliasLDA", score(f"curves/{c}/tomotopy", at=40))
            for c in ("newsgroups20-200", "newsgroups20-800")) < 4""",
    "batch learning waits least for a cluster": """
        max(ratio(f"cluster/{c}/batch, 2 workers", f"cluster/{c}/batch, 2 threads") for c in ON) <
        min(ratio(f"cluster/{c}/{TEN}, 2 workers", f"cluster/{c}/{TEN}, 2 threads")
            for c in ON)""",
    "with 800 topics, too": """
        best("curves/newsgroups20-800/AliasLDA") > best("curves/newsgroups20-800/L=8")""",
    "with 200 and more topics sweeps are faster than tomotopy's, and the more so": """
        1 < speed("sweeps/newsgroups20-200/auto") / speed("sweeps/newsgroups20-200/tomotopy")
        < speed("sweeps/newsgroups20-800/auto") / speed("sweeps/newsgroups20-800/tomotopy")""",
    "the more topics the more so, since sweeps hardly take longer": """
        speed("sweeps/newsgroups20-200/auto") / speed("sweeps/newsgroups20-3200/auto") < 1.15""",
    "word by word is faster than any other sampler of ours": """
        min(speed(f"sweeps/newsgroups20-{k}/auto") / speed(f"sweeps/newsgroups20-{k}/{sampler}")
            for k in (50, 200, 800, 3200) for sampler in ("alias", "sparse", "dense")) > 1""",
    "a second thread helps sweeps of each model": """
        min(threads_gain(f"sweep threads/newsgroups20-{k}/{model}")
            for k in (200, 1000) for model in ("LDA", "Pitman-Yor", "HDP, sampled")) > 1.6""",
    "transform is an order of magnitude faster, not two": """
        5 < value("transform/newsgroups20-200/transform", "documents_per_second", "L=8")
        / value("transform/newsgroups20-200/transform", "documents_per_second", "scikit-learn")
        < 50""",
    "after five passes mixtures with L = 8 are above dense ones and scikit-learn's EM": """
        score("mixture/bsds500-200/L=8 float64")
        > max(score(f"mixture/bsds500-200/{m} float64") for m in ("dense", "scikit-learn"))""",
    "the default start is the best of photographs": """
        mean("mixture-start/bsds500-100/agglomerative")
        > max(mean(f"mixture-start/bsds500-100/{s}") for s in STARTS)""",
    "and of digits, blobs and bits": """
        min(mean(f"mixture-start/{d}/agglomerative")
            - max(mean(f"mixture-start/{d}/{s}") for s in STARTS)
            for d in ("photographs-50", "digits-30", "blobs-20", "tails-20", "bits-30")) > 0""",
    "and of counts": """
        mean("mixture-start/kos-20/agglomerative")
        > max(mean(f"mixture-start/kos-20/{s}") for s in ("k-means++", "random"))""",
    "the default start takes less than a twentieth of ten passes": """
        max(start_share(f"mixture-start/{d}/agglomerative") for d in REAL) < 1 / 20""",
    "no part of a pass of mixtures in single precision takes longer than bounds": """
        value(f"{PARTS}/turns", "seconds", "float32", "search")
        - value(f"{PARTS}/turns", "seconds", "float32", "weights")
        > max(value(f"{PARTS}/turns", "seconds", "float32", part)
              for part in ("axes", "weights", "statistics", "components"))""",
    "what is known of distances saves some of a search": """
        all(value(f"{PARTS}/turns", "seconds", dtype, "again")
            < 0.95 * value(f"{PARTS}/turns", "seconds", dtype, "search")
            for dtype in ("float32", "float64"))""",
    "passes of mixtures in single precision are faster by what the page says": """
        all(value(f"mixture-precisions/bsds500-200/{unit}", "ratio") > 1.3
            for unit in ("avx2", "avx512"))""",
    "a pass of mixtures takes less time in single precision": """
        each("mixture threads, float64/bsds500-200/1")
        / each("mixture threads, float32/bsds500-200/1") > 1.1""",
    "that Dask looks at itself takes some of the time of a fit": """
        all(1.03 < ratio(f"cluster/{c}/{learning}, 2 workers, Dask as it comes",
                         f"cluster/{c}/{learning}, 2 workers") < 1.3
            for c in ON for learning in ("batch", FOUR))""",
    "memoized learning in four batches waits less than in ten": """
        all(ratio(f"cluster/{c}/{FOUR}, {workers}", f"cluster/{c}/{FOUR}, 2 threads")
            < ratio(f"cluster/{c}/{TEN}, {workers}", f"cluster/{c}/{TEN}, 2 threads")
            for c in ON for workers in ("2 workers", "1 worker of 2 threads"))""",
    "two workers are worth it": """
        all(ratio(f"cluster/{c}/{learning}, 1 worker", f"cluster/{c}/{learning}, 2 workers") > 1.6
            for c in ON for learning in ("batch", FOUR))""",
    "workers wait less than a quarter": """
        all(ratio(f"cluster/{c}/{learning}, {workers}", f"cluster/{c}/{learning}, 2 threads") < 1.25
            for c in ON for learning in ("batch", FOUR)
            for workers in ("2 workers", "1 worker of 2 threads"))""",
    "cores with AVX-512 waited longer on words": """
        ratio(f"{WORDS} (before), 2 workers", f"{WORDS} (before), 2 threads")
        > ratio(f"{WORDS}, 2 workers", f"{WORDS}, 2 threads")""",
    "that sums stay takes little": """
        all(0.97 < ratio(f"cluster/{c}/{FOUR}, 2 workers",
                         f"cluster/{c}/{FOUR}, 2 workers, {HERE}") < 1.05 for c in ON)""",
    "that the client has them saves time": """
        all(1.03 < ratio(f"cluster/{c}/{FOUR}, 2 workers, {THERE}",
                         f"cluster/{c}/{FOUR}, 2 workers") < 1.25 for c in ON)""",
    "clients without them need hardly less on words": """
        0.9 < value(f"{WORDS}, 2 workers, {THERE}", "memory", 0)
        / value(f"{WORDS}, 2 workers", "memory", 0) < 1.1""",
    "but far less of dense sums in many batches": """
        value(f"{MANY}, 2 workers, {THERE}", "memory", 0)
        < 0.7 * value(f"{MANY}, 2 workers", "memory", 0)""",
    "a worker of two threads waits less on words": """
        all(ratio(f"cluster/{ON[0]}/{learning}, 1 worker of 2 threads",
                  f"cluster/{ON[0]}/{learning}, 2 workers") < 0.98 for learning in (FOUR, TEN))""",
    "else about as long": """
        all(0.95 < ratio(f"cluster/{c}/{learning}, 1 worker of 2 threads",
                         f"cluster/{c}/{learning}, 2 workers") < 1.03
            for c, learning in ((ON[0], "batch"), *((ON[1], learning)
                                for learning in ("batch", FOUR, TEN))))""",
    "a second thread helps SparseHDP nearly as much as SparseLDA": """
        0.9 < (seconds(f"{HDP}/1") / seconds(f"{HDP}/2"))
        / (seconds(f"{HDP}/LDA, 1") / seconds(f"{HDP}/LDA, 2")) < 1""",
    "scores of newsgroups fall again after the first passes": """
        best("curves/newsgroups20-200/L=8") > score("curves/newsgroups20-200/L=8")""",
}
SMALL = ("newsgroups20-200", "nips-200", "kos-50")
PARTS = "mixture-parts/bsds500-200"
ON = ("arxiv300k-500", "bsds500-800")
FOUR, TEN = "memoized in 4 batches", "memoized in 10 batches"
WORDS, MANY = f"cluster/{ON[0]}/{FOUR}", f"cluster/{ON[1]}/memoized in 40 batches"
THERE, HERE = "sums there alone", "sums here alone"
REAL = (
    "bsds500-100",
    "photographs-50",
    "digits-30",
    "newsgroups20-50",
    "blobs-20",
    "tails-20",
    "bits-30",
    "kos-20",
)
HDP = "hdp threads/newsgroups20-200"
STARTS = ("k-means++", "kmeans", "random_from_data", "random")


@pytest.mark.parametrize("said", COMPARED)
def test_what_pages_say_in_words_holds(said, results):
    names = {name: getattr(results, name) for name in dir(results) if name[0] != "_"}
    groups = {"SMALL": SMALL, "ON": ON, "FOUR": FOUR, "TEN": TEN, "WORDS": WORDS, "MANY": MANY}
    groups |= {"THERE": THERE, "HERE": HERE, "REAL": REAL, "STARTS": STARTS}
    groups |= {"HDP": HDP, "PARTS": PARTS}
    assert eval(f"({COMPARED[said]})", {**names, **groups})
