"""Natural places in other tools: pytest, Lightning, Transformers, IPython."""
