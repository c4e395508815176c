"""The case on disk: its schema, where cases live, and what is private in them. Imports neither torch nor NumPy."""
