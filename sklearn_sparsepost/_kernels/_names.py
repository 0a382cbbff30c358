"""The compiled modules: which are built once a vector unit, and which once.

`setup.py` runs this file before there is a package, so it imports nothing.
"""

HOT = (
    "_clusters",
    "_first_draws",
    "_gibbs_lda",
    "_logits",
    "_matrices",
    "_merges",
    "_mixture",
    "_mixture_lengths",
    "_sampled_documents",
    "_topic_documents",
    "_topic_stats",
    "_topic_words",
)
# Of these, those that -O2 with vectors makes a few per cent slower than -O3.
UNROLLED = ("_clusters", "_matrices", "_merges", "_mixture", "_mixture_lengths")
PLAIN = (
    "_changes",
    "_cpu",
    "_left_to_right",
    "_logit_documents",
    "_pairs",
    "_rng",
    "_row_tables",
    "_sampled_words",
    "_seeding",
    "_shipping",
    "_stirling",
    "_token_order",
    "_topl",
)
# Of these, those with loops over numbers.
ARITHMETIC = (
    "_left_to_right",
    "_logit_documents",
    "_pairs",
    "_sampled_words",
    "_seeding",
    "_stirling",
)
