"""`./dev fuzz rows`: programs of random acts of writers and of ours on small real tables, on one warm Spark.

After every act several readers must find the rows that the writers were told. What a format contributes is one module
(`RowsFormat` in `contract.py`) with the name of the format. `command.py` finds it by that.
"""
