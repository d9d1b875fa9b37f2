"""A differential test of the session: random queries over random tables, compared with plain DataFusion.

A seed decides the tables, the queries, the settings and the ways in which the same rows reach the session: pulled,
pushed, as Arrow data, a pyarrow dataset, parquet files and Lance tables. Every answer must be the one that DataFusion
gives over the same batches in memory: the same rows, the same schema, or a refusal on both sides.

``python -m differential 17`` (with tests/support on the path) runs one seed and prints a disagreement at its smallest;
``python -m differential 0-2000`` runs many, in processes that may crash.
"""
