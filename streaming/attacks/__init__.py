"""Fields → attacks. Pure, frame → partials, and partials → attackers.

In:      the rows of a task, and the detectors: one data file each.
Out:     which request fired which detector; sums for each window and client; one incident an attacker.
Promise: same rows, same verdict; linear in the length of a line, whatever is in it.
"""
