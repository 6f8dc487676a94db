"""Our own readers: what each must hold of any bytes, and what several of them say about the same in one form."""
