"""Fields → load. Pure, frame → partials.

In:      the rows of a task (see `streaming.lines`), with service and virtual host.
Out:     small tables of sums for each 10 s window: load, latency, top lists.
Promise: partials merge in any order and grouping to what one pass over all lines would give.
"""
