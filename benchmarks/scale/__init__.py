"""What large tables cost, in time and in memory, against the same work without the library.

Run: ``python -m benchmarks.scale``, or ``--only audit`` for a part. Each part is a module with a function
``measure`` that returns its figures; they are kept in ``results/scale-<part>.json``. Files of data are made
in a temporary folder and removed afterwards.
"""
