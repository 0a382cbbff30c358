# The same source, compiled for another vector unit (see setup.py).
include "_left_to_right.pyx"
