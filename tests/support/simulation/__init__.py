"""The commit protocol in seeded simulation: one seed is one execution, and a seed that fails is the report of a bug.

Drivers of the same queries run the real protocol over a table in memory, each a process that can be paused, killed
or let down by storage before any call it makes of the table, while others write, compact and clean up. After each
version a reader looks at the table, and at the end it must hold exactly what was sent.

``python -m support.simulation 1234`` (with tests on the path) tells in plain words what happens under a seed, and
``python -m support.simulation 0-10000`` runs many.
"""
