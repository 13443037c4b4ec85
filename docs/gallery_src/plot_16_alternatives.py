"""
Less discriminatory alternatives
================================

A model is in use. Was there another one, as accurate at the same approval rate and less
discriminatory, and how far could any rule go?
"""

from lightgbm import LGBMClassifier

import evenhand as eh

adult = eh.datasets.load_adult()
X, _ = adult.one_hot()
y = (adult.label == ">50K").to_numpy().astype(int)
sex = adult.sensitive.select("sex")

learner = LGBMClassifier(n_estimators=40, num_leaves=8, n_jobs=1, verbose=-1)
incumbent = learner.fit(X[:3000], y[:3000])

# %%
# The search
# ----------
#
# Candidates are the same learner again, and classifiers that are trained fairly. None
# of them sees the sensitive features, or infers them, when it decides.

found = eh.alternatives(
    incumbent,
    X[3000:],
    y[3000:],
    sensitive_features=sex[3000:],
    reference={"sex": "Male"},
    search=["seeds", "fair"],
    margin=0.01,
)
found.to_frame()[["name", "accuracy_difference", "impact_ratio", "verdict"]]

# %%
# The picture
# -----------
#
# The black line is the bound: no rule on the learned probabilities is further to the
# right at the same approval rate and that loss of accuracy.

found.plot()
