from evenhand.solver.dense import DenseRows
from evenhand.solver.grouped import GroupedRows
from evenhand.solver.oracle import Oracle


def test_both_kinds_of_rows_offer_the_whole_protocol():
    wanted = {name for name in vars(Oracle) if not name.startswith("_")} | {"fast"}
    for kind in (DenseRows, GroupedRows):
        assert wanted <= set(dir(kind))
