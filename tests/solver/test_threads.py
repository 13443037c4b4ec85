from threadpoolctl import threadpool_info, threadpool_limits

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.solver.dense import DenseRows
from evenhand.solver.threads import one_thread


def threads(api):
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == api}


def test_the_limit_ends_with_its_context():
    with threadpool_limits(2, user_api="blas"):
        with one_thread("blas"):
            assert threads("blas") == {1}
        assert threads("blas") == {2}


def test_the_solver_uses_one_thread(monkeypatch):
    """Beside busy processes, two threads took two to five times as long as one."""
    seen = []
    smooth = DenseRows.smooth

    def counted(self, v, width):
        seen.append(threads("blas"))
        return smooth(self, v, width)

    monkeypatch.setattr(DenseRows, "smooth", counted)
    problem = GaussianProblem.random(levels=(2, 2), seed=1)
    posteriors = problem.posteriors(problem.sample(5000, seed=0).X)
    with threadpool_limits(2, user_api="blas"):
        eh.solve(posteriors, eh.DemographicParity(difference=0.02))
        assert threads("blas") == {2}
    assert seen
    assert all(found == {1} for found in seen)


def test_overlapping_contexts_restore_what_was_there():
    with threadpool_limits(2, user_api="blas"):
        first, second = one_thread("blas"), one_thread("blas")
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads("blas") == {1}
        second.__exit__(None, None, None)
        assert threads("blas") == {2}
