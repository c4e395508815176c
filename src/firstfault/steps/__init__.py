"""The steps, a file each: plans in, findings out."""
