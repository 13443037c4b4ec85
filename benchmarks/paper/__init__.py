"""The paper's experiments, with its published numbers and the peers beside ours."""
