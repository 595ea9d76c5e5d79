"""The newkind `newword` for Mainstem."""
