"""One page to hand over: what was asked, what was achieved, what it cost, and the proof."""
