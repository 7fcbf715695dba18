"""The policies of a dispatcher: which entry may go to which consumer, and what is read next."""
