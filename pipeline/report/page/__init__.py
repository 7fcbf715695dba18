"""The page of a run: one HTML file that holds everything it needs, for a browser without network."""
