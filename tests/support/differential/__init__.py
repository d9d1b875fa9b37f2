"""A differential test of the session: random queries over random tables, compared with plain DataFusion.

A seed decides the tables, the queries, the settings and the ways in which the same rows reach the session: pulled,
pushed, as Arrow data, a pyarrow dataset, parquet files and Lance tables. Every answer must be the one that DataFusion
gives over the same batches in memory: the same rows, the same schema, or a refusal on both sides.

``python -m support.differential 17`` (with tests on the path) runs one seed and prints a disagreement at its smallest;
``python -m support.differential 0-2000`` runs many, in processes that may crash.
"""
