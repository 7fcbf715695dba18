"""The verdict on each finding: permitted by an exception of the contract, due to a known bug, or a violation."""
