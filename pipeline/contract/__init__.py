"""The rules for a broker and their exceptions, the profiles of versions, the known bugs, and the severities."""
