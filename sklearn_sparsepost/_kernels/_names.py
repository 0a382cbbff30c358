"""The compiled modules: which are built once a vector unit, and which once.

`setup.py` runs this file before there is a package, so it imports nothing.
"""

HOT = (
    "_gibbs_lda",
    "_left_to_right",
    "_mixture",
    "_sampled_documents",
    "_topic_documents",
    "_topic_stats",
    "_topic_words",
)
PLAIN = ("_cpu", "_rng", "_row_tables", "_seeding", "_topl")
