"""The rules of the contract that the kernel checks at each dispatch, and what it keeps of findings."""
