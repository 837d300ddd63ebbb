"""Every fault point: each operation of a command on the disk fails in turn, and the next command mends it."""
