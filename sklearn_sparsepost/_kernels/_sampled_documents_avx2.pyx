# The same source, compiled for another vector unit (see setup.py).
include "_sampled_documents.pyx"
