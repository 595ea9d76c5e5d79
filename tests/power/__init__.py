"""Loss of power: what processes did with their files, and what a disk has of it after any moment."""
