"""Findings for people: terminal, Markdown, HTML."""
