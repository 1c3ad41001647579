def f():
    raise RuntimeError("CUDA out of memory. Tried to allocate 1.00 GiB")
