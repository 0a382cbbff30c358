"""
=================================
A birth, a merge and a delete
=================================

:class:`~sklearn_sparsepost.SparseHDP` changes the number of its topics by moves that are accepted
only if the bound of the whole corpus rises. Here is one of each kind, with the topics before and
after the pass that made it. After figure 4 of Hughes, Kim & Sudderth (2015); see :ref:`sparse_hdp`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

from sklearn_sparsepost import SparseHDP
from sklearn_sparsepost.datasets import make_bars

SIDE = 6
X, bars, _ = make_bars(600, SIDE, doc_topic_prior=0.1, random_state=0)

# %%
# Births begin with two topics, and merges and deletes with far too many. A fit that goes on pass by
# pass shows what each pass has changed.


def first_accepted(move, n_components, **options):
    """Topics and bounds before and after the first accepted such move."""
    hdp = SparseHDP(
        n_components,
        max_iter=1,
        warm_start=True,
        tol=0,
        random_state=0,
        **options,
    )
    topics, accepted = hdp.fit(X).topic_word_distr_, np.array([])
    while move not in accepted:
        before, topics = topics, hdp.fit(X).topic_word_distr_
        made = hdp.moves_history_[hdp.moves_history_["accepted"] > 0]
        accepted = made["move"][made["n_iter"] == hdp.n_iter_]
    return before, topics, np.diff(hdp.bound_history_)[-1]


moves = {
    "birth": first_accepted("birth", 2, moves=["birth", "merge", "delete"]),
    "merge": first_accepted("merge", 40, init="random", moves=["merge"]),
    "delete": first_accepted("delete", 16, moves=["delete"]),
}
for move, (before, after, gain) in moves.items():
    print(
        f"{move}: {len(before)} topics, then {len(after)}; pass and move "
        f"raised the bound by {gain:.0f} nats"
    )

# %%
# Topics of both passes are paired by what they have in common. Framed are those that are gone, and
# those that are new.

most = max(
    len(topics)
    for before, after, _ in moves.values()
    for topics in (before, after)
)
fig, axes = plt.subplots(6, most, figsize=(13, 4.2), layout="constrained")
for ax in axes.flat:
    ax.set_axis_off()
for place, (move, (before, after, _)) in enumerate(moves.items()):
    one, two = linear_sum_assignment(before @ after.T, maximize=True)
    # What both have first, and in the same order.
    order = [*one, *np.setdiff1d(np.arange(len(before)), one)]
    new_order = [*two, *np.setdiff1d(np.arange(len(after)), two)]
    rows = ("before", before, order), ("after", after, new_order)
    for row, (when, topics, shown) in zip(
        axes[2 * place :], rows, strict=False
    ):
        for at, (ax, topic) in enumerate(
            zip(row, topics[shown], strict=False)
        ):
            ax.set_axis_on()
            ax.imshow(
                topic.reshape(SIDE, SIDE), cmap="Greys", vmin=0, vmax=1 / SIDE
            )
            ax.set(xticks=[], yticks=[])
            lonely = at >= len(one)
            ax.spines[:].set(
                color="#cc3311" if lonely else "#cccccc",
                linewidth=2 if lonely else 1,
            )
        row[0].set_ylabel(
            f"{move},\n{when}", rotation=0, ha="right", va="center"
        )
plt.show()
