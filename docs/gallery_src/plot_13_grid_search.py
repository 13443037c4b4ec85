"""
Choosing the tolerance by cross-validation
==========================================

A tolerance holds for what ``fit`` has learned; on new rows the difference is larger,
most with small groups. ``GridSearchCV`` finds which tolerance to ask for, so that
held-out rows stay within the one that is needed.
"""

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evenhand as eh

compas = eh.datasets.load_compas()
X, y = compas.features.hstack(compas.sensitive), compas.label.to_numpy()

# %%
# The search
# ----------
#
# Scorers do not pass sensitive features on, so the constructor names columns of X. The
# score is the accuracy if the held-out rows are within 0.1, and otherwise minus the
# excess. With tolerance 0 that is minus the difference itself.

columns = make_column_transformer(
    (OneHotEncoder(), ["c_charge_degree"]), remainder=StandardScaler()
)
fair = eh.FairPostprocessor(
    make_pipeline(columns, LogisticRegression()),
    eh.DemographicParity(difference=0.1),
    sensitive_features=["sex", "race"],
    aware=True,
    posteriors=eh.CrossFit(3),
)
search = GridSearchCV(
    fair,
    {"constraint__difference": [0.0, 0.02, 0.04, 0.06, 0.08, 0.1]},
    scoring={
        "accuracy": "accuracy",
        "fair": eh.fair_scorer(eh.DemographicParity(difference=0.1)),
        "difference": eh.fair_scorer(eh.DemographicParity(difference=0)),
    },
    refit="fair",
    cv=StratifiedKFold(4, shuffle=True, random_state=0),
).fit(X, y)
print(search.best_params_)

# %%
# Every fold
# ----------
#
# On average the difference on held-out rows is three points above the tolerance in fit.
# Up to 0.02 all folds stay within 0.1, and 0.02 is the more accurate of the two; at
# 0.04 one fold is beyond it. Folds vary, so take the choice as an estimate. For a
# guarantee, fit with ``guarantee=0.95``.

import altair as alt
import polars as pl

found = pl.concat(
    pl.DataFrame(
        {
            "tolerance": search.cv_results_["param_constraint__difference"].astype(
                float
            ),
            "difference": -search.cv_results_[f"split{k}_test_difference"],
            "accuracy": search.cv_results_[f"split{k}_test_accuracy"],
        }
    )
    for k in range(4)
)


def panel(name):
    base = alt.Chart(found, width=280, height=240).encode(
        x=alt.X("tolerance", title="tolerance in fit").scale(padding=12, nice=False)
    )
    y = alt.Y(name, title=name).scale(zero=False).axis(tickCount=5)
    mean = alt.Y(f"mean({name})", title=name)
    return base.mark_point(size=50).encode(y=y) + base.mark_line().encode(y=mean)


needed = alt.Chart().mark_rule(strokeDash=[4, 3]).encode(y=alt.datum(0.1))
((panel("difference") + needed) | panel("accuracy")).properties(
    title="Held-out rows: each of four folds, and their mean",
    description="Difference and accuracy on held-out rows, by the tolerance in fit.",
)
