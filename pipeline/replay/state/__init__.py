"""The state of the replay: arrays that compiled functions read and change."""
