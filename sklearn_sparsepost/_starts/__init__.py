"""Where a fit begins: first topics, first responsibilities."""
