//! Objects of the API as far as they are read here: a pod in some hundred bytes, not in ten thousand.
