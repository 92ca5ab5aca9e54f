"""Client programs: plain tf.compat.v1, which know nothing of what serves them."""
