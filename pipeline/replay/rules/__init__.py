"""The rules of the contract that the kernel checks at each dispatch, and the collection of their findings."""
