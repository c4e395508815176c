"""Inside the user's process: what happened, written down at next to no cost. Never changes or breaks the run."""
