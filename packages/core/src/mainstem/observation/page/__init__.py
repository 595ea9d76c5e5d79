"""The page of a run: what `Picture` knows, in a browser; read only."""
