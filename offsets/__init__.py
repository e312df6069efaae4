"""Where the job stopped, kept in ZooKeeper.

In:      the ranges of a batch before it runs, its offsets and ledger pointer after its output succeeded.
Out:     where every partition continues, which batch is pending, who leads.
Promise: a commit is one transaction under the leader's epoch; it happens after the output or not at all.
"""
