"""The engines that an audit can run on: which one is taken, and how the session of each is made."""
