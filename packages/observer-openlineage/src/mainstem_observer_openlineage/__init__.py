"""The observer `openlineage`: tells what a pipeline reads and writes, and which columns become which."""
