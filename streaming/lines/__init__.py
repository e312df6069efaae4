"""Bytes → fields. Pure, frame → frame.

In:      the bytes of log lines and the format they were written in.
Out:     one row for each line, in order, with every field that could be read.
Promise: no line is dropped and none raises; what is unknown is null.
"""
